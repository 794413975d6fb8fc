// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RolloutStatus is the state of a Rollout.
type RolloutStatus struct {
	// ObservedGeneration is the generation last acted upon.
	ObservedGeneration int64
	Phase              Phase
	// WorkloadUID is the uid of the workload in service, since a later workload may have
	// the same name.
	WorkloadUID types.UID
	// TrafficChange is the last change of Services and routers; nil before the first.
	TrafficChange *TrafficChange
	// Message is one sentence for the user.
	Message    string
	Conditions []Condition
	// Canary is the progress of the canary and partition styles.
	Canary *Progress
	// BlueGreen is the progress of the blue-green style.
	BlueGreen *Progress
	// Decisions are the uses of verbs, oldest first. Only the server writes them.
	Decisions []Decision
	// Releases are the latest release, and those before it that are not in a
	// RolloutHistory yet, oldest first.
	Releases []ReleaseRecord
	// Network is there while a release holds its Service and routers.
	Network *NetworkHold
	// Analysis is how the release under way was judged so far; nil where nothing was.
	Analysis *AnalysisStatus
}

// NetworkHold records that a release holds the Service and the routers that its
// trafficRoutings name. No other Rollout changes them until the release has ended.
type NetworkHold struct {
	// Since is when the release took them.
	Since metav1.Time
	// Pinned is the revision that the Service selects, or has selected so recently that
	// some routers may not know the change. The last pod of that revision stays.
	Pinned string
	// Originals are digests of the routers before the release changed them. If a record
	// on a router matches none of them, somebody else wrote it.
	Originals []string
	// Made are the uids of the canary Service and the canary Ingress. They belong to the
	// release, whatever their metadata says.
	Made []types.UID
}

// TrafficChange is a change of Services and routers that some routers may not know yet.
type TrafficChange struct {
	Time metav1.Time
	// GraceSeconds is how long it takes until each router knows.
	GraceSeconds int32
	// Target is the routing that the current step needs. TargetTime is when it was first
	// observed. The step waits from then on, even if somebody undoes the change and
	// Weir repeats it.
	Target     string
	TargetTime *metav1.Time
}

// ReleaseRecord is the record of one release.
type ReleaseRecord struct {
	// Number counts the releases of a Rollout, from 1.
	Number    int64
	RolloutID string
	// StableRevision served before the release, UpdateRevision was released.
	StableRevision string
	UpdateRevision string
	// StableTemplate and UpdateTemplate are the SHA-256 digests of their templates.
	StableTemplate string
	UpdateTemplate string
	// FirstDecision is the lowest ID that a decision of this release can have.
	FirstDecision int64
	StartTime     metav1.Time
	// EndTime is nil while the release goes on.
	EndTime *metav1.Time
	// Outcome is empty while the release goes on; an abort is known before the end.
	Outcome ReleaseOutcome
	// Kept reports whether the RolloutHistory exists.
	Kept bool
	// Filed reports whether the release is over and its RolloutHistory is complete.
	Filed bool
	// Steps are the visits to steps in their order.
	Steps []StepRecord
}

// StepRecord is one visit to a step. A time is nil until it has come, or if the step
// was left before.
type StepRecord struct {
	// Step is 1-based.
	Step int32
	StepTimes
}

// StepTimes are the moments of a visit to a step.
type StepTimes struct {
	EnteredTime *metav1.Time
	// UpgradedTime is when the pods of the step were ready.
	UpgradedTime *metav1.Time
	// PausedTime is when the step began to wait.
	PausedTime *metav1.Time
	LeftTime   *metav1.Time
}

// Progress is where a release is.
type Progress struct {
	ObservedWorkloadGeneration int64
	// ObservedRolloutID identifies the release to clients.
	ObservedRolloutID string
	// RolloutHash identifies the plan that the step numbers refer to.
	RolloutHash string
	// StableRevision is the revision serving before the release.
	StableRevision string
	// StableTemplate is a digest of the template of that revision, taken when the
	// release begins: the object that keeps it may be edited. Weir's own.
	StableTemplate string
	// UpdateRevision is the name of the revision being released. It is a short
	// hash. Anybody can make a template with the same hash, so Weir never compares releases by it.
	UpdateRevision string
	// UpdateTemplate is the SHA-256 digest of the template being released. The release is
	// bound to it: another template with the same UpdateRevision is another release. It is
	// empty in a status of an earlier version of Weir, until the next observation of the template.
	// OpenKruise does not have this field.
	UpdateTemplate string
	// PodTemplateHash is the label value of the update revision's pods.
	PodTemplateHash string
	// CurrentStepIndex is 1-based.
	CurrentStepIndex int32
	// NextStepIndex is CurrentStepIndex + 1, and -1 on the last step.
	NextStepIndex  int32
	FinalisingStep FinalisingStep
	State          StepState
	Message        string
	// LastUpdateTime is when State was entered or its last action issued.
	LastUpdateTime *metav1.Time
	// LastProgressTime is when the release last made progress, exact to a tenth of its
	// deadline; nil while it waits for somebody.
	LastProgressTime *metav1.Time
	// ProgressMark is the progress of its pods then; a larger number is more.
	ProgressMark int32
	// UpdateReplicas is how many pods of the update revision exist.
	UpdateReplicas int32
	// UpdateReadyReplicas is how many of them are ready.
	UpdateReadyReplicas int32
	// FullyPromoted skips the pauses of every further step of this revision.
	FullyPromoted bool
	// Paused freezes this release, beside spec.strategy.paused.
	Paused bool
	// RollingBack restores the stable template when the abort is over.
	RollingBack bool
	// AbortedRevision is the revision that an abort or a rollback ends: that of the
	// template when the controller begins, which may be newer than the decision.
	AbortedRevision string
	// AbortedTemplate is the digest of the template of AbortedRevision.
	AbortedTemplate string
}

// Condition has OpenKruise's wire shape (it has lastUpdateTime); its rules are
// those of metav1.Condition.
type Condition struct {
	Type               ConditionType
	Status             metav1.ConditionStatus
	LastUpdateTime     metav1.Time
	LastTransitionTime metav1.Time
	Reason             string
	Message            string
}

// Decision is one use of a verb, on record with its author.
type Decision struct {
	// ID numbers the decisions of a Rollout, from 1. Repeated pauses and resumes that
	// were removed to make room are missing.
	ID   int64
	Verb Verb
	// User is the name that the request was authenticated as.
	User string
	// UID of the user, where the authenticator knows it.
	UID       string
	UserAgent string
	Time      metav1.Time
	// Step that the decision was about, 1-based: the step of the release when the user decided. An earlier
	// version of Weir recorded the target of a jump here, without ToStep.
	Step int32
	// ToStep is the target of a jump, 1-based.
	ToStep int32
	// Full is true if a promotion also approved all remaining steps.
	Full bool
	// Revision that was being released, and the digest of its template.
	Revision       string
	UpdateTemplate string
	Reason         string
	RequestID      string
	Via            Via
	// Outcome is empty until the controller has acted on the decision.
	Outcome Outcome
	// Overrode is what was not waited for, such as analysis.
	Overrode []string
	// OverriddenChecks are the checks that had not passed, at most MaxOverriddenChecks.
	OverriddenChecks []OverriddenCheck
}

// OverriddenCheck is a check that had not passed in a step when a decision overrode it.
type OverriddenCheck struct {
	Name string
	Step int32
	// Result is empty if the check was not measured in this step yet.
	Result CheckResult
}

// MaxOverriddenChecks bounds the checks that one decision lists. A plan has at most 16 checks and
// podsHealthy, so the checks of the step under way always fit.
const MaxOverriddenChecks = 32

// IsAbout reports whether the decision belongs to the release with the progress p. It compares
// digests, or revision names if an earlier version of Weir stored either without a digest.
func (d *Decision) IsAbout(p *Progress) bool {
	if p == nil {
		return false
	}
	return sameTemplate(d.Revision, d.UpdateTemplate, p.UpdateRevision, p.UpdateTemplate)
}

// SameRelease reports whether p and o are about releases of the same template.
func (p *Progress) SameRelease(o *Progress) bool {
	return sameTemplate(p.UpdateRevision, p.UpdateTemplate, o.UpdateRevision, o.UpdateTemplate)
}

// sameTemplate compares the digests if both are known, and the names otherwise.
func sameTemplate(name, digest, otherName, otherDigest string) bool {
	if digest != "" && otherDigest != "" {
		return digest == otherDigest
	}
	return name == otherName
}
