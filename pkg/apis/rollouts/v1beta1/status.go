// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RolloutStatus is what is known and remembered of a Rollout. The controller
// writes it; the decisions in it are the server's.
type RolloutStatus struct {
	// ObservedGeneration is the generation of the spec that was last acted upon.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Canary is where a release in the canary or partition style is.
	// Excludes blueGreenStatus.
	// +optional
	Canary *CanaryStatus `json:"canaryStatus,omitempty"`
	// BlueGreen is where a release in the blue-green style is. Excludes
	// canaryStatus.
	// +optional
	BlueGreen *BlueGreenStatus `json:"blueGreenStatus,omitempty"`
	// Conditions of the Rollout: Progressing, Succeeded, Terminating, Stalled.
	// +optional
	// +listType=atomic
	Conditions []Condition `json:"conditions,omitzero"`
	// Phase is Initial, Healthy, Progressing, Terminating, Disabling or Disabled.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// WorkloadUID is the uid of the workload in service. Only the controller
	// writes it.
	// +optional
	WorkloadUID types.UID `json:"workloadUID,omitempty"`
	// TrafficChange is the last change of Services and routers, and how long it
	// takes until each router knows. Only the controller writes it.
	// +optional
	TrafficChange *TrafficChange `json:"trafficChange,omitempty"`
	// Message is one sentence for the user.
	// +optional
	Message string `json:"message,omitempty"`
	// CurrentStepIndex repeats that of canaryStatus or blueGreenStatus. It is
	// for reading; what is written here is ignored.
	// +k8s:conversion-gen=false
	CurrentStepIndex int32 `json:"currentStepIndex"`
	// CurrentStepState repeats that of canaryStatus or blueGreenStatus. It is
	// for reading; what is written here is ignored.
	// +k8s:conversion-gen=false
	CurrentStepState StepState `json:"currentStepState"`
	// Decisions are the uses of verbs in the release under way, oldest first.
	// Only the server writes them, from authenticated requests.
	// +optional
	// +listType=atomic
	Decisions []Decision `json:"decisions,omitempty"`
	// Releases are the latest release, and those before it that are not in a
	// RolloutHistory yet, oldest first. Only the controller writes them.
	// +optional
	// +listType=atomic
	Releases []ReleaseRecord `json:"releases,omitempty"`
	// Network is there while a release has taken the Service and the routers that
	// its trafficRoutings name. Only the controller writes it.
	// +optional
	Network *NetworkHold `json:"network,omitempty"`
	// Analysis is how the release under way was judged so far. Only the controller writes it.
	// +optional
	Analysis *AnalysisStatus `json:"analysis,omitempty"`
}

// NetworkHold is that a release has taken the Service and the routers that its
// trafficRoutings name: no other Rollout changes them until it has ended.
type NetworkHold struct {
	// Since is when they were taken.
	Since metav1.Time `json:"since"`
	// Pinned is the revision that the Service selects, or did until some routers
	// may still think so. The last pod of that revision stays meanwhile.
	// +optional
	Pinned string `json:"pinned,omitempty"`
	// Originals are digests of the routers before the release changed them. A record
	// whose digest is not listed was not written by Weir.
	// +optional
	// +listType=atomic
	Originals []string `json:"originals,omitzero"`
	// Made are the uids of the canary Service and the canary Ingress. Weir owns these
	// objects even if their labels or annotations were changed.
	// +optional
	// +listType=atomic
	Made []types.UID `json:"made,omitzero"`
}

// ReleaseRecord is what a release was, and how it went.
type ReleaseRecord struct {
	// Number counts the releases of a Rollout, from 1.
	Number int64 `json:"number"`
	// RolloutID is the workload's rollout-id, or else the update revision.
	// +optional
	RolloutID string `json:"rolloutID,omitempty"`
	// StableRevision is the revision that served before the release.
	// +optional
	StableRevision string `json:"stableRevision,omitempty"`
	// UpdateRevision is the revision that was released.
	// +optional
	UpdateRevision string `json:"canaryRevision,omitempty"`
	// StableTemplate is the SHA-256 digest of the template of the stable revision.
	// +optional
	StableTemplate string `json:"stableTemplate,omitempty"`
	// UpdateTemplate is the SHA-256 digest of the template that was released.
	// +optional
	UpdateTemplate string `json:"updateTemplate,omitempty"`
	// FirstDecision is the lowest ID that a decision of this release can have.
	// +optional
	FirstDecision int64 `json:"firstDecision,omitempty"`
	// StartTime is when the release began.
	// +optional
	StartTime metav1.Time `json:"startTime,omitempty,omitzero"`
	// EndTime is when it was over; missing while it goes on.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// Outcome is succeeded, cancelled, aborted, superseded, disabled, deleted or bypassed;
	// missing while the release goes on, but for an abort.
	// +optional
	Outcome ReleaseOutcome `json:"outcome,omitempty"`
	// Kept reports whether the RolloutHistory of the release exists.
	// +optional
	Kept bool `json:"kept,omitempty"`
	// Filed reports whether the release is over and its RolloutHistory is complete.
	// +optional
	Filed bool `json:"filed,omitempty"`
	// Steps are the visits to steps in their order, until the release is filed.
	// +optional
	// +listType=atomic
	Steps []StepRecord `json:"steps,omitempty"`
}

// StepRecord is one visit to a step.
type StepRecord struct {
	// Step is counted from 1.
	Step      int32 `json:"step"`
	StepTimes `json:",inline"`
}

// StepTimes are the moments of a visit to a step. One is missing until it has
// come, or where the step was left before.
type StepTimes struct {
	// EnteredTime is when the step began.
	// +optional
	EnteredTime *metav1.Time `json:"enteredTime,omitempty"`
	// UpgradedTime is when the pods of the step were ready.
	// +optional
	UpgradedTime *metav1.Time `json:"upgradedTime,omitempty"`
	// PausedTime is when the step began to wait for approval or for its time.
	// +optional
	PausedTime *metav1.Time `json:"pausedTime,omitempty"`
	// LeftTime is when the release went on, or ended.
	// +optional
	LeftTime *metav1.Time `json:"leftTime,omitempty"`
}

// CanaryStatus is where a release in the canary or partition style is.
type CanaryStatus struct {
	Progress `json:",inline"`
	// CanaryRevision is the revision being released.
	CanaryRevision string `json:"canaryRevision"`
	// CanaryReplicas is how many pods of the update revision exist.
	CanaryReplicas int32 `json:"canaryReplicas"`
	// CanaryReadyReplicas is how many of them are ready.
	CanaryReadyReplicas int32 `json:"canaryReadyReplicas"`
}

// BlueGreenStatus is where a release in the blue-green style is.
type BlueGreenStatus struct {
	Progress `json:",inline"`
	// UpdatedRevision is the revision being released.
	UpdatedRevision string `json:"updatedRevision"`
	// UpdatedReplicas is how many pods of the update revision exist.
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// UpdatedReadyReplicas is how many of them are ready.
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas"`
}

// Progress is the part of the progress that all styles share.
type Progress struct {
	// ObservedWorkloadGeneration is the generation of the workload last seen
	// while it had the recorded update revision.
	// +optional
	ObservedWorkloadGeneration int64 `json:"observedWorkloadGeneration,omitempty"`
	// ObservedRolloutID identifies the release: the workload's rollout-id, or
	// else the update revision.
	// +optional
	ObservedRolloutID string `json:"observedRolloutID,omitempty"`
	// RolloutHash identifies the plan that the step numbers refer to.
	// +optional
	RolloutHash string `json:"rolloutHash,omitempty"`
	// StableRevision is the revision that served before the release.
	// +optional
	StableRevision string `json:"stableRevision,omitempty"`
	// StableTemplate is a digest of the template of the stable revision, taken when
	// the release begins.
	// +optional
	StableTemplate string `json:"stableTemplate,omitempty"`
	// UpdateTemplate is the SHA-256 digest of the template being released, in
	// hexadecimal digits. The release is bound to it: another template with the same
	// short hash is another release. Only the controller writes it.
	// +optional
	UpdateTemplate string `json:"updateTemplate,omitempty"`
	// PodTemplateHash is the label value that selects pods of the update revision.
	PodTemplateHash string `json:"podTemplateHash"`
	// CurrentStepIndex is the step that the release is at, counted from 1.
	// +optional
	CurrentStepIndex int32 `json:"currentStepIndex"`
	// NextStepIndex is the step that comes next, and -1 on the last one.
	// Writing another number is the older way to jump.
	NextStepIndex int32 `json:"nextStepIndex"`
	// FinalisingStep is how far the clean-up after a release has come.
	FinalisingStep FinalisingStep `json:"finalisingStep"`
	// State is the stage within the step. Writing StepReady while
	// it is StepPaused is the older way to promote.
	State StepState `json:"currentStepState"`
	// Message tells how the pods of the current batch are doing.
	// +optional
	Message string `json:"message,omitempty"`
	// LastUpdateTime is when the stage was entered or its last action was
	// taken. Pauses and grace periods count from here.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
	// LastProgressTime is when the release moved last; the progress deadline
	// counts from here. Missing while it is paused or waits for somebody.
	// +optional
	LastProgressTime *metav1.Time `json:"lastProgressTime,omitempty"`
	// ProgressMark is how far the pods had come then, in a measure of the
	// controller's own.
	// +optional
	ProgressMark int32 `json:"progressMark,omitempty"`
	// FullyPromoted reports whether every further step of this revision was
	// approved at once.
	// +optional
	FullyPromoted bool `json:"fullyPromoted,omitempty"`
	// Paused reports whether the release was frozen with the verb pause. It is
	// frozen, too, while spec.strategy.paused is true.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// RollingBack reports whether the template goes back to the stable one as soon
	// as the abort is over.
	// +optional
	RollingBack bool `json:"rollingBack,omitempty"`
	// AbortedRevision is the revision that an abort or a rollback ends. Only the
	// controller writes it.
	// +optional
	AbortedRevision string `json:"abortedRevision,omitempty"`
	// AbortedTemplate is the SHA-256 digest of the template of abortedRevision. Only
	// the controller writes it.
	// +optional
	AbortedTemplate string `json:"abortedTemplate,omitempty"`
}

// TrafficChange is a change of Services and routers, of which some may not know yet.
type TrafficChange struct {
	// Time is when it was made.
	Time metav1.Time `json:"time"`
	// GraceSeconds is how long it takes until each router knows.
	GraceSeconds int32 `json:"graceSeconds"`
	// Target is what the step under way wants of them.
	// +optional
	Target string `json:"target,omitempty"`
	// TargetTime is when the routers first had this target. The step's wait starts
	// then, even if another client reverts the change and Weir restores it.
	// +optional
	TargetTime *metav1.Time `json:"targetTime,omitempty"`
}

// Condition is one fact about a Rollout or a BatchRelease.
type Condition struct {
	// Type of the condition.
	Type ConditionType `json:"type"`
	// Status is True, False or Unknown.
	Status metav1.ConditionStatus `json:"status"`
	// LastUpdateTime is when anything in the condition changed last.
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitempty,omitzero"`
	// LastTransitionTime is when the status changed last.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty,omitzero"`
	// Reason is a word for programs.
	Reason string `json:"reason"`
	// Message is a sentence for people.
	Message string `json:"message"`
}

// Decision is one use of a verb, on record with its author.
type Decision struct {
	// ID numbers the decisions of a Rollout, from 1 and without gaps.
	ID int64 `json:"id"`
	// Verb is what was asked for, such as promote or abort.
	Verb Verb `json:"verb"`
	// User is the name that the request was authenticated as.
	User string `json:"user"`
	// UID of the user, where the authenticator knows it.
	// +optional
	UID string `json:"uid,omitempty"`
	// UserAgent is what the client called itself.
	// +optional
	UserAgent string `json:"userAgent,omitempty"`
	// Time of the request.
	Time metav1.Time `json:"time"`
	// Step that the decision was about, counted from 1. For a jump, this is the step that the release was at.
	// +optional
	Step int32 `json:"step,omitempty"`
	// ToStep is the target of a jump, counted from 1.
	// +optional
	ToStep int32 `json:"toStep,omitempty"`
	// Full is true if the promotion approved all remaining steps, too.
	// +optional
	Full bool `json:"full,omitempty"`
	// Revision that was being released.
	// +optional
	Revision string `json:"revision,omitempty"`
	// UpdateTemplate is the SHA-256 digest of the template that was being released.
	// +optional
	UpdateTemplate string `json:"updateTemplate,omitempty"`
	// Reason that the user gave.
	// +optional
	Reason string `json:"reason,omitempty"`
	// RequestID that the client gave, so that it could repeat the request.
	// +optional
	RequestID string `json:"requestID,omitempty"`
	// Via is how the decision came in: verb, status for a write of the status
	// as older clients do, spec for an edit that ends the pause of a step, or analysis for what the
	// checks of the plan have decided.
	Via Via `json:"via"`
	// Outcome is applied, superseded or rejected; empty until the controller
	// has acted on the decision.
	// +optional
	Outcome Outcome `json:"outcome,omitempty"`
	// Overrode is what the decision did not wait for: analysis.
	// +optional
	// +listType=atomic
	Overrode []string `json:"overrode,omitzero"`
	// OverriddenChecks are the checks that had not passed when the decision overrode them:
	// those of the step under way first. At most 32.
	// +optional
	// +listType=atomic
	OverriddenChecks []OverriddenCheck `json:"overriddenChecks,omitzero"`
}

// OverriddenCheck is a check that had not passed in a step when a decision overrode it.
type OverriddenCheck struct {
	// Name of the check.
	Name string `json:"name"`
	// Step in which the check had not passed, counted from 1.
	Step int32 `json:"step"`
	// Result is Failed, Running or Inconclusive; empty if the check was not measured in this
	// step yet.
	// +optional
	Result CheckResult `json:"result,omitempty"`
}
