// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RolloutStatus is what is known and remembered of a Rollout.
type RolloutStatus struct {
	// ObservedGeneration is the generation last acted upon.
	ObservedGeneration int64
	Phase              Phase
	// WorkloadUID is the workload in service. One of the same name that was made
	// later is another.
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
	// Decisions are the user's words, oldest first, written by the server only.
	Decisions []Decision
	// Releases are the latest release, and those before it that are not in a
	// RolloutHistory yet, oldest first.
	Releases []ReleaseRecord
	// Network is what a release has taken of the network; nil if nothing.
	Network *NetworkHold
}

// NetworkHold is that a release has taken the Service and the routers that its
// trafficRoutings name: no other Rollout changes them until it has ended.
type NetworkHold struct {
	// Since is when they were taken.
	Since metav1.Time
	// Pinned is the revision that the Service selects, or did until some routers
	// may still think so. The last pod of that revision stays meanwhile.
	Pinned string
	// Originals are digests of what the routers were before they were routed. A
	// record on a router that none of them tells of was written by somebody else.
	Originals []string
	// Made are the uids of the canary Service and the canary Ingress. They are the
	// release's whatever stands on them.
	Made []types.UID
}

// TrafficChange is a change of Services and routers, of which some may not know yet.
type TrafficChange struct {
	Time metav1.Time
	// GraceSeconds is how long it takes until each of them knows.
	GraceSeconds int32
	// Target is what the step under way wants of them, and TargetTime is when that
	// was first found done. A step waits from then on, however often somebody undoes
	// it and it is put back.
	Target     string
	TargetTime *metav1.Time
}

// ReleaseRecord is what a release was, and how it went.
type ReleaseRecord struct {
	// Number counts the releases of a Rollout, from 1.
	Number    int64
	RolloutID string
	// StableRevision served before the release, UpdateRevision was released.
	StableRevision string
	UpdateRevision string
	// FirstDecision is the lowest ID that a decision of this release can have.
	FirstDecision int64
	StartTime     metav1.Time
	// EndTime is nil while the release goes on.
	EndTime *metav1.Time
	// Outcome is empty while the release goes on; an abort is known before the end.
	Outcome ReleaseOutcome
	// Kept reports whether the RolloutHistory exists.
	Kept bool
	// Filed reports whether it says all there is to say.
	Filed bool
	// Steps are the visits to steps in their order.
	Steps []StepRecord
}

// StepRecord is one visit to a step. Times are nil until they have come, or
// where the step was left before.
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
	// UpdateRevision is the revision being released, computed once when it is held.
	UpdateRevision string
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
	// LastProgressTime is when the release moved last, to the tenth of its
	// deadline; nil where it waits for somebody.
	LastProgressTime *metav1.Time
	// ProgressMark is how far its pods had come then; a larger number is further.
	ProgressMark int32
	// UpdateReplicas is how many pods of the update revision exist.
	UpdateReplicas int32
	// UpdateReadyReplicas is how many of them are ready.
	UpdateReadyReplicas int32
	// FullyPromoted skips the pauses of every further step of this revision.
	FullyPromoted bool
	// Paused freezes this release, beside spec.strategy.paused.
	Paused bool
	// RollingBack sets the template back to stable's once an abort is over.
	RollingBack bool
	// AbortedRevision is the revision that an abort or a rollback ends: that of the
	// template that is set when the controller takes it up, which may be a newer one.
	AbortedRevision string
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
	// ID numbers the decisions of a Rollout, from 1; repetitions of pause and
	// resume that made room are missing.
	ID   int64
	Verb Verb
	// User is the name that the request was authenticated as.
	User string
	// UID of the user, where the authenticator knows it.
	UID       string
	UserAgent string
	Time      metav1.Time
	// Step that the decision was about, 1-based.
	Step int32
	// Revision that was being released.
	Revision  string
	Reason    string
	RequestID string
	Via       Via
	// Outcome is empty until the controller has acted on the decision.
	Outcome Outcome
}
