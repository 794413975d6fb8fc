// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Analysis says by which checks a release is judged. They are measured from the first
// request to the new version until the release is over; each step waits in
// StepMetricsAnalysis until they have passed.
type Analysis struct {
	// Checks are measured besides podsHealthy, which is in every list. At most 16.
	// +optional
	// +listType=atomic
	Checks []Check `json:"checks,omitzero"`
	// Risk is the chance that a good version is aborted by mistake, in one attempt and by
	// all checks together, such as "0.001", which is the default.
	// +optional
	Risk *string `json:"risk,omitempty"`
	// EverySeconds is the length of a window in which requests are counted. Default: 30.
	// +optional
	EverySeconds *int32 `json:"everySeconds,omitempty"`
	// AtLeastSeconds is the minimum time for which each step is measured. Default: 60.
	// +optional
	AtLeastSeconds *int32 `json:"atLeastSeconds,omitempty"`
	// AfterSeconds is the warm-up of the new version: requests and numbers of the first seconds of each
	// step count neither for nor against it. Less than withinSeconds. Default: 0.
	// +optional
	AfterSeconds *int32 `json:"afterSeconds,omitempty"`
	// WithinSeconds is the time after which an undecided step is inconclusive.
	// Default: 3600.
	// +optional
	WithinSeconds *int32 `json:"withinSeconds,omitempty"`
	// OnFail is what a failed check does: Abort, Wait for a person, or Report. Default: Abort.
	// +optional
	OnFail OnFail `json:"onFail,omitempty"`
	// OnInconclusive is what happens if a check is inconclusive: Wait for a person, Pass, or
	// Abort. Default: Wait.
	// +optional
	OnInconclusive OnInconclusive `json:"onInconclusive,omitempty"`
}

// Check is one thing that is measured. Exactly one of podsHealthy, successRate, latency,
// asGoodAs, query, http, job and use says what.
type Check struct {
	// Name of the check, unique in the list. Default: the kind, such as successRate.
	// +optional
	Name string `json:"name,omitempty"`
	// Steps in which the check is measured, counted from 1. Default: all.
	// +optional
	// +listType=atomic
	Steps []int32 `json:"steps,omitzero"`
	// At is when the check is measured: Step, once the traffic of a step is in place, or BeforeTraffic. Default: Step.
	// +optional
	At CheckPoint `json:"at,omitempty"`
	// OnFail of this check; see analysis.onFail.
	// +optional
	OnFail OnFail `json:"onFail,omitempty"`
	// OnInconclusive of this check; see analysis.onInconclusive.
	// +optional
	OnInconclusive OnInconclusive `json:"onInconclusive,omitempty"`
	// AfterSeconds of this check; see analysis.afterSeconds. Not for podsHealthy, http and job.
	// +optional
	AfterSeconds *int32 `json:"afterSeconds,omitempty"`
	// Gate makes a check wait until it passes; it never fails. Only for http and query. Default: false.
	// +optional
	Gate *bool `json:"gate,omitempty"`
	// FailAfter is after how many bad measurements in a row a query by promql or an http check
	// fails, and after how many good ones it passes. Default: 3, and 1 of a gate.
	// +optional
	FailAfter *int32 `json:"failAfter,omitempty"`
	// PodsHealthy is On or Off: whether new pods that crash, or get unready, fail the release.
	// Default: On.
	// +optional
	PodsHealthy PodsHealthy `json:"podsHealthy,omitempty"`
	// SuccessRate is the least share of requests that must succeed, such as "99%".
	// +optional
	SuccessRate *string `json:"successRate,omitempty"`
	// Latency asks that a share of the requests is answered in time.
	// +optional
	Latency *LatencyCheck `json:"latency,omitempty"`
	// AsGoodAs is Stable: the new version fails no more requests, and is no slower, than the
	// stable one in the same seconds.
	// +optional
	AsGoodAs AsGoodAs `json:"asGoodAs,omitempty"`
	// Tolerance of asGoodAs, successRate, latency and query towards stable.
	// +optional
	Tolerance *Tolerance `json:"tolerance,omitempty"`
	// Query asks a metric source.
	// +optional
	Query *QueryCheck `json:"query,omitempty"`
	// HTTP asks a Service of the namespace.
	// +optional
	HTTP *HTTPCheck `json:"http,omitempty"`
	// Job runs a suspended CronJob of the namespace once per step.
	// +optional
	Job *JobCheck `json:"job,omitempty"`
	// Use takes a Check of the namespace, or a ClusterCheck.
	// +optional
	Use *CheckRef `json:"use,omitempty"`
}

// LatencyCheck asks that a share of the requests is answered in time.
type LatencyCheck struct {
	// Share of the requests, such as "99%".
	Share string `json:"share"`
	// BelowMilliseconds is the time in which they are answered.
	BelowMilliseconds int32 `json:"belowMilliseconds"`
}

// Tolerance is how much worse than stable the new version may be.
type Tolerance struct {
	// Ratio of the failures of the new version to those of stable, such as "1.5", the default.
	// +optional
	Ratio *string `json:"ratio,omitempty"`
	// Margin is added to that, such as "0.1%", the default.
	// +optional
	Margin *string `json:"margin,omitempty"`
}

// QueryCheck asks a metric source: for two counts of requests, bad and total, or for one
// number that is compared with min and max.
type QueryCheck struct {
	// Source is the name of a MetricSource. Default: default.
	// +optional
	Source string `json:"source,omitempty"`
	// Bad selects a counter of failed requests. $pods stands for a pattern of the names of the
	// pods of a version, and $namespace for the namespace.
	// +optional
	Bad string `json:"bad,omitempty"`
	// Total selects a counter of all requests.
	// +optional
	Total string `json:"total,omitempty"`
	// PromQL gives one number.
	// +optional
	PromQL string `json:"promql,omitempty"`
	// Min is the smallest number that is good.
	// +optional
	Min *string `json:"min,omitempty"`
	// Max is the largest number that is good.
	// +optional
	Max *string `json:"max,omitempty"`
}

// HTTPCheck asks a Service of the Rollout's namespace.
type HTTPCheck struct {
	// Service of the namespace.
	Service string `json:"service"`
	// Port of the Service. Default: 80.
	// +optional
	Port int32 `json:"port,omitempty"`
	// Path that is asked for. Default: /.
	// +optional
	Path string `json:"path,omitempty"`
	// Pass is an expression in CEL over code and body that is true of a good answer. Default: code == 200.
	// +optional
	Pass string `json:"pass,omitempty"`
}

// JobCheck runs a suspended CronJob of the Rollout's namespace once per step.
type JobCheck struct {
	// CronJob of the namespace whose template is run.
	CronJob string `json:"cronJob"`
}

// CheckRef names a Check of the namespace, or a ClusterCheck.
type CheckRef struct {
	// Kind is Check or ClusterCheck.
	Kind string `json:"kind"`
	// Name of the object.
	Name string `json:"name"`
	// Args replace $NAME in its texts.
	// +optional
	Args map[string]string `json:"args,omitzero"`
}

// AnalysisStatus has the results of the checks of the release in progress.
type AnalysisStatus struct {
	// Revision that is judged.
	// +optional
	Revision string `json:"revision,omitempty"`
	// UpdateTemplate is the SHA-256 digest of the template that is judged.
	// +optional
	UpdateTemplate string `json:"updateTemplate,omitempty"`
	// Since is when the new version got its first request in this attempt.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// StepSince is when the current step began to be measured.
	// +optional
	StepSince *metav1.Time `json:"stepSince,omitempty"`
	// Step that is measured, counted from 1.
	// +optional
	Step int32 `json:"step,omitempty"`
	// TrafficSince is when the checks before the traffic of the current step began.
	// +optional
	TrafficSince *metav1.Time `json:"trafficSince,omitempty"`
	// Overridden reports whether checks only report for the rest of this attempt.
	// +optional
	Overridden bool `json:"overridden,omitempty"`
	// Checks in the order of the plan.
	// +optional
	// +listType=atomic
	Checks []CheckStatus `json:"checks,omitzero"`
}

// CheckStatus has the result of one check.
type CheckStatus struct {
	// Name of the check.
	Name string `json:"name"`
	// Result is Running, Passed, Failed, Inconclusive or Skipped.
	Result CheckResult `json:"result"`
	// Time of the result.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// Why explains the result in one sentence.
	// +optional
	Why string `json:"why,omitempty"`
	// ChangedAt is when Weir noticed last that the check, or the Check or ClusterCheck that it
	// uses, was edited in this attempt. Everything measured before counts for the earlier check
	// only.
	// +optional
	ChangedAt *metav1.Time `json:"changedAt,omitempty"`
	// New are the requests of the new version since the check began.
	// +optional
	New *RequestCount `json:"new,omitempty"`
	// Old are those of the stable version in the same time.
	// +optional
	Old *RequestCount `json:"old,omitempty"`
	// FoldedTo is the end of the measurements that Carry replaces.
	// +optional
	FoldedTo *metav1.Time `json:"foldedTo,omitempty"`
	// Carry is the evidence until FoldedTo: numbers, separated by spaces.
	// +optional
	Carry string `json:"carry,omitempty"`
}

// RequestCount counts requests of one version.
type RequestCount struct {
	// Total are all requests.
	Total int64 `json:"total"`
	// Bad are those that failed, or were slow.
	Bad int64 `json:"bad"`
}

// OnFail is what a failed check does.
type OnFail string

// What a failed check does.
const (
	OnFailAbort  OnFail = "Abort"
	OnFailWait   OnFail = "Wait"
	OnFailReport OnFail = "Report"
)

// OnInconclusive is what happens if a check is inconclusive.
type OnInconclusive string

// What a check does that is inconclusive.
const (
	OnInconclusiveWait  OnInconclusive = "Wait"
	OnInconclusivePass  OnInconclusive = "Pass"
	OnInconclusiveAbort OnInconclusive = "Abort"
)

// CheckPoint is when a check is measured.
type CheckPoint string

// When a check is measured.
const (
	AtStep          CheckPoint = "Step"
	AtBeforeTraffic CheckPoint = "BeforeTraffic"
)

// PodsHealthy is whether new pods are watched.
type PodsHealthy string

// Whether new pods are watched.
const (
	PodsHealthyOn  PodsHealthy = "On"
	PodsHealthyOff PodsHealthy = "Off"
)

// AsGoodAs is what the new version is compared with.
type AsGoodAs string

// AsGoodAsStable compares it with the stable version in the same seconds.
const AsGoodAsStable AsGoodAs = "Stable"

// CheckResult is what a check has found.
type CheckResult string

// What a check has found.
const (
	CheckRunning      CheckResult = "Running"
	CheckPassed       CheckResult = "Passed"
	CheckFailed       CheckResult = "Failed"
	CheckInconclusive CheckResult = "Inconclusive"
	CheckSkipped      CheckResult = "Skipped"
)
