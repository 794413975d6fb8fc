// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Analysis says by which checks a release is judged. They are measured from the first
// request to the new version until the release is over; each step waits in
// StepMetricsAnalysis until they have passed.
type Analysis struct {
	// Checks are measured besides podsHealthy, which is in every list. At most 16.
	Checks []Check
	// Risk is the chance that a good version is aborted by mistake, in one attempt and by
	// all checks together, such as "0.001", which is the default.
	Risk *string
	// EverySeconds is the length of a window in which requests are counted. Default: 30.
	EverySeconds *int32
	// AtLeastSeconds is the minimum time for which each step is measured. Default: 60.
	AtLeastSeconds *int32
	// AfterSeconds is the warm-up of the new version: requests and numbers of the first seconds of each
	// step count neither for nor against it. Less than withinSeconds. Default: 0.
	AfterSeconds *int32
	// WithinSeconds is the time after which an undecided step is inconclusive.
	// Default: 3600.
	WithinSeconds *int32
	// OnFail is what a failed check does: Abort, Wait for a person, or Report. Default: Abort.
	OnFail OnFail
	// OnInconclusive is what happens if a check is inconclusive: Wait for a person, Pass, or
	// Abort. Default: Wait.
	OnInconclusive OnInconclusive
}

// Check is one thing that is measured. Exactly one of podsHealthy, successRate, latency,
// asGoodAs, query, http, job and use says what.
type Check struct {
	// Name of the check, unique in the list. Default: the kind, such as successRate.
	Name string
	// Steps in which the check is measured, counted from 1. Default: all.
	Steps []int32
	// At is when the check is measured: Step, once the traffic of a step is in place, or BeforeTraffic. Default: Step.
	At CheckPoint
	// OnFail of this check; see analysis.onFail.
	OnFail OnFail
	// OnInconclusive of this check; see analysis.onInconclusive.
	OnInconclusive OnInconclusive
	// AfterSeconds of this check; see analysis.afterSeconds. Not for podsHealthy, http and job.
	AfterSeconds *int32
	// Gate makes a check wait until it passes; it never fails. Only for http and query. Default: false.
	Gate *bool
	// FailAfter is after how many bad measurements in a row a query by promql or an http check
	// fails, and after how many good ones it passes. Default: 3, and 1 of a gate.
	FailAfter *int32
	// PodsHealthy is On or Off: whether new pods that crash, or get unready, fail the release.
	// Default: On.
	PodsHealthy PodsHealthy
	// SuccessRate is the least share of requests that must succeed, such as "99%".
	SuccessRate *string
	// Latency asks that a share of the requests is answered in time.
	Latency *LatencyCheck
	// AsGoodAs is Stable: the new version fails no more requests, and is no slower, than the
	// stable one in the same seconds.
	AsGoodAs AsGoodAs
	// Tolerance of asGoodAs, successRate, latency and query towards stable.
	Tolerance *Tolerance
	// Query asks a metric source.
	Query *QueryCheck
	// HTTP asks a Service of the namespace.
	HTTP *HTTPCheck
	// Job runs a suspended CronJob of the namespace once per step.
	Job *JobCheck
	// Use takes a Check of the namespace, or a ClusterCheck.
	Use *CheckRef
}

// LatencyCheck asks that a share of the requests is answered in time.
type LatencyCheck struct {
	// Share of the requests, such as "99%".
	Share string
	// BelowMilliseconds is the time in which they are answered.
	BelowMilliseconds int32
}

// Tolerance is how much worse than stable the new version may be.
type Tolerance struct {
	// Ratio of the failures of the new version to those of stable, such as "1.5", the default.
	Ratio *string
	// Margin is added to that, such as "0.1%", the default.
	Margin *string
}

// QueryCheck asks a metric source: for two counts of requests, bad and total, or for one
// number that is compared with min and max.
type QueryCheck struct {
	// Source is the name of a MetricSource. Default: default.
	Source string
	// Bad selects a counter of failed requests. $pods stands for a pattern of the names of the
	// pods of a version, and $namespace for the namespace.
	Bad string
	// Total selects a counter of all requests.
	Total string
	// PromQL gives one number.
	PromQL string
	// Min is the smallest number that is good.
	Min *string
	// Max is the largest number that is good.
	Max *string
}

// HTTPCheck asks a Service of the Rollout's namespace.
type HTTPCheck struct {
	// Service of the namespace.
	Service string
	// Port of the Service. Default: 80.
	Port int32
	// Path that is asked for. Default: /.
	Path string
	// Pass is an expression in CEL over code and body that is true of a good answer. Default: code == 200.
	Pass string
}

// JobCheck runs a suspended CronJob of the Rollout's namespace once per step.
type JobCheck struct {
	// CronJob of the namespace whose template is run.
	CronJob string
}

// CheckRef names a Check of the namespace, or a ClusterCheck.
type CheckRef struct {
	// Kind is Check or ClusterCheck.
	Kind string
	// Name of the object.
	Name string
	// Args replace $NAME in its texts.
	Args map[string]string
}

// AnalysisStatus has the results of the checks of the release in progress.
type AnalysisStatus struct {
	// Revision that is judged, and the digest of its template.
	Revision       string
	UpdateTemplate string
	// Since is when the new version got its first request in this attempt.
	Since *metav1.Time
	// StepSince is when the current step began to be measured.
	StepSince *metav1.Time
	// Step that is measured, counted from 1.
	Step int32
	// TrafficSince is when the checks before the traffic of the current step began.
	TrafficSince *metav1.Time
	// Overridden reports whether checks only report for the rest of this attempt.
	Overridden bool
	// Checks in the order of the plan.
	Checks []CheckStatus
}

// Of are the results of a step; none where another one is measured.
func (a *AnalysisStatus) Of(step int32) []CheckStatus {
	if a == nil || a.Step != step {
		return nil
	}
	return a.Checks
}

// CheckStatus has the result of one check.
type CheckStatus struct {
	// Name of the check.
	Name string
	// Result is Running, Passed, Failed, Inconclusive or Skipped.
	Result CheckResult
	// Time of the result.
	Time *metav1.Time
	// Why explains the result in one sentence.
	Why string
	// ChangedAt is when Weir noticed that the check was edited in this attempt.
	ChangedAt *metav1.Time
	// New are the requests of the new version since the check began.
	New *RequestCount
	// Old are those of the stable version in the same time.
	Old *RequestCount
	// FoldedTo is the end of the measurements that Carry replaces.
	FoldedTo *metav1.Time
	// Carry is the evidence until FoldedTo: numbers, separated by spaces.
	Carry string
}

// RequestCount counts requests of one version.
type RequestCount struct {
	// Total are all requests.
	Total int64
	// Bad are those that failed, or were slow.
	Bad int64
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

// CheckName is the name of a check; of one without a name it is the field that says what is
// measured.
func CheckName(c *Check) string {
	switch {
	case c.Name != "":
		return c.Name
	case c.PodsHealthy != "":
		return "podsHealthy"
	case c.SuccessRate != nil:
		return "successRate"
	case c.Latency != nil:
		return "latency"
	case c.AsGoodAs != "":
		return "asGoodAs"
	case c.Query != nil:
		return "query"
	case c.HTTP != nil:
		return "http"
	case c.Job != nil:
		return "job"
	case c.Use != nil:
		return c.Use.Name
	default:
		return ""
	}
}

// Share reads a percentage, such as "99.9%", as a number from 0 to 1.
func Share(s string) (share float64, ok bool) {
	digits, ok := strings.CutSuffix(s, "%")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseFloat(digits, 64)
	return n / 100, err == nil && n >= 0 && n <= 100
}
