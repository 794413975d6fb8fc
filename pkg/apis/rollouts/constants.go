// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import "slices"

// Phase is the life phase of a Rollout or a BatchRelease.
type Phase string

// Phases as the wire spells them.
const (
	PhaseInitial     Phase = "Initial"
	PhaseHealthy     Phase = "Healthy"
	PhaseProgressing Phase = "Progressing"
	PhaseTerminating Phase = "Terminating"
	PhaseDisabled    Phase = "Disabled"
	PhaseDisabling   Phase = "Disabling"

	// The phases of a BatchRelease beside Progressing.
	PhasePreparing  Phase = "Preparing"
	PhaseFinalizing Phase = "Finalizing"
	PhaseCompleted  Phase = "Completed"
)

// StepState is the stage within a step.
type StepState string

// Stages in their order.
const (
	BeforeStepUpgrade   StepState = "BeforeStepUpgrade"
	StepUpgrade         StepState = "StepUpgrade"
	StepTrafficRouting  StepState = "StepTrafficRouting"
	StepMetricsAnalysis StepState = "StepMetricsAnalysis"
	StepPaused          StepState = "StepPaused"
	StepReady           StepState = "StepReady"
	StepCompleted       StepState = "Completed"
)

// FinalisingStep is the position in a teardown.
type FinalisingStep string

// Steps of teardowns; the wire spells them so.
const (
	FinalisingRouteToNew      FinalisingStep = "FinalisingStepRouteTrafficToNew"
	FinalisingRouteToStable   FinalisingStep = "FinalisingStepRouteTrafficToStable"
	FinalisingRestoreService  FinalisingStep = "RestoreStableService"
	FinalisingRemoveCanary    FinalisingStep = "RemoveCanaryService"
	FinalisingResumeWorkload  FinalisingStep = "ResumeWorkload"
	FinalisingReleaseWorkload FinalisingStep = "ReleaseWorkloadControl"
	// FinalisingReleaseRouting is Weir's own: a TrafficRouting is let go of.
	FinalisingReleaseRouting FinalisingStep = "ReleaseTrafficRouting"
	FinalisingEnd            FinalisingStep = "END"
)

// BatchState is the state of a BatchRelease's current batch.
type BatchState string

// States of a batch in their order.
const (
	BatchUpgrading BatchState = "Upgrading"
	BatchVerifying BatchState = "Verifying"
	BatchReady     BatchState = "Ready"
)

// FinalizingPolicy says how a BatchRelease gives its workload back.
type FinalizingPolicy string

// Policies of giving back.
const (
	WaitResume FinalizingPolicy = "WaitResume"
	Immediate  FinalizingPolicy = "Immediate"
)

// Style is how pods are replaced.
type Style string

// Styles as a BatchRelease spells them.
const (
	StylePartition Style = "Partition"
	StyleCanary    Style = "Canary"
	StyleBlueGreen Style = "BlueGreen"
)

// ConditionType is a type of condition.
type ConditionType string

// Types of conditions that Weir writes. Other types belong to others and are kept.
const (
	// ConditionProgressing tells by its reason what a release is doing.
	ConditionProgressing ConditionType = "Progressing"
	// ConditionSucceeded tells how the last release ended.
	ConditionSucceeded ConditionType = "Succeeded"
	// ConditionTerminating is set while the Rollout is deleted.
	ConditionTerminating ConditionType = "Terminating"
	// ConditionReconciling is true while a Rollout is on its way somewhere, and
	// false when it has arrived or is stalled; tools that follow kstatus read it.
	ConditionReconciling ConditionType = "Reconciling"
	// ConditionStalled is true when nothing will move without a user; tools
	// that follow kstatus read it. Others may say so as well.
	ConditionStalled ConditionType = "Stalled"
	// ConditionWritable is false while the server denies a write that a release
	// needs, and is not there otherwise.
	ConditionWritable ConditionType = "Writable"
	// ConditionProtected is there, and false, while a part of admission is missing,
	// so that a change of the template may be released unheld.
	ConditionProtected ConditionType = "Protected"
	// ConditionBypassed is true of a release whose template got past admission, so
	// that pods of it were made before it was held.
	ConditionBypassed ConditionType = "AdmissionBypassed"
	// ConditionRoutable is there, and false, while the Service or a router that a
	// step needs is another's, or somebody undoes what is written to it.
	ConditionRoutable ConditionType = "Routable"
)

// ConditionTypes are all of the above.
var ConditionTypes = []ConditionType{
	ConditionProgressing, ConditionSucceeded, ConditionTerminating, ConditionReconciling, ConditionStalled,
	ConditionWritable, ConditionProtected, ConditionBypassed, ConditionRoutable,
}

// StallReason is why Weir itself says that a Rollout is stalled. A condition
// with another reason was written by somebody else.
type StallReason string

// Reasons of being stalled.
const (
	// StalledAborted: the release was aborted and waits for another template.
	StalledAborted StallReason = "Aborted"
	// StalledStableGone: an abort has nothing to bring the stable revision back from.
	StalledStableGone StallReason = "StableGone"
	// StalledStableEdited: somebody has edited what keeps the stable template.
	StalledStableEdited StallReason = "StableEdited"
	// StalledUnsupported: the workload is of a kind or style that is not served.
	StalledUnsupported StallReason = "Unsupported"
	// StalledRefused: another template was set in the middle of a blue-green release.
	StalledRefused StallReason = "RevisionRefused"
	// StalledOccupied: a BatchRelease of somebody else has the name of the Rollout.
	StalledOccupied StallReason = "BatchReleaseOccupied"
	// StalledDeadline: nothing has moved for as long as the progress deadline.
	StalledDeadline StallReason = "ProgressDeadlineExceeded"
)

// stallReasons are all of the above.
var stallReasons = []StallReason{
	StalledAborted, StalledStableGone, StalledStableEdited, StalledUnsupported, StalledRefused, StalledOccupied, StalledDeadline,
}

// Known reports whether the reason is one of Weir's.
func (r StallReason) Known() bool { return slices.Contains(stallReasons, r) }

// Activity is what a release is doing. The wire keeps it as the reason of the
// Progressing condition; only Status.Activity and SetActivity may look there.
type Activity string

// Activities. Aborting and Aborted are Weir's own.
const (
	ActivityNone         Activity = ""
	ActivityInitializing Activity = "Initializing"
	ActivityInRolling    Activity = "InRolling"
	ActivityPaused       Activity = "Paused"
	ActivityAborting     Activity = "Aborting"
	ActivityAborted      Activity = "Aborted"
	ActivityFinalising   Activity = "Finalising"
	ActivityCancelling   Activity = "Cancelling"
	ActivityCompleted    Activity = "Completed"
)

// Verb is a release action of the API.
type Verb string

// Verbs of this server.
const (
	VerbPromote  Verb = "promote"
	VerbAbort    Verb = "abort"
	VerbRollback Verb = "rollback"
	VerbRetry    Verb = "retry"
	VerbPause    Verb = "pause"
	VerbResume   Verb = "resume"
	VerbJump     Verb = "jump"
)

// Via is the way a decision came in.
type Via string

// Ways: a verb subresource, a write of the status as older clients do, or an
// edit of the spec that ends the pause of the step that waits.
const (
	ViaVerb   Via = "verb"
	ViaStatus Via = "status"
	ViaSpec   Via = "spec"
)

// Outcome is what became of a decision.
type Outcome string

// Outcomes of decisions.
const (
	OutcomeApplied    Outcome = "applied"
	OutcomeSuperseded Outcome = "superseded"
	OutcomeRejected   Outcome = "rejected"
)

// ReleaseOutcome is how a release ended.
type ReleaseOutcome string

// Outcomes of releases.
const (
	// ReleaseSucceeded: every pod runs the update revision.
	ReleaseSucceeded ReleaseOutcome = "succeeded"
	// ReleaseCancelled: the template was set back to the stable one.
	ReleaseCancelled ReleaseOutcome = "cancelled"
	// ReleaseAborted: somebody aborted it, whatever came after.
	ReleaseAborted ReleaseOutcome = "aborted"
	// ReleaseSuperseded: another template took its place.
	ReleaseSuperseded ReleaseOutcome = "superseded"
	// ReleaseDisabled: the Rollout was disabled.
	ReleaseDisabled ReleaseOutcome = "disabled"
	// ReleaseDeleted: the Rollout or its workload was deleted.
	ReleaseDeleted ReleaseOutcome = "deleted"
	// ReleaseBypassed: every pod ran the update revision before anything held it.
	ReleaseBypassed ReleaseOutcome = "bypassed"
)

// Annotations, labels and finalizers. Their spelling is wire format.
const (
	// AnnotationInProgress marks a held workload; any non-empty value counts.
	AnnotationInProgress = "rollouts.kruise.io/in-progressing"
	// AnnotationRefused is how the policies that hold tell weir-fit, in one request, why
	// another template cannot be held.
	AnnotationRefused = "rollouts.kruise.io/refused"
	// AnnotationHash on a Rollout identifies its plan.
	AnnotationHash = "rollouts.kruise.io/hash"
	// AnnotationRollbackInBatch on a Rollout, when "true", takes the stable template
	// for a release of its own, step by step.
	AnnotationRollbackInBatch = "rollouts.kruise.io/rollback-in-batch"
	// AnnotationRollingStyle names the style in v1alpha1.
	AnnotationRollingStyle = "rollouts.kruise.io/rolling-style"
	// AnnotationTrafficRouting names a TrafficRouting object in v1alpha1.
	AnnotationTrafficRouting = "rollouts.kruise.io/trafficrouting"
	// AnnotationControlInfo on a workload holds the owner reference of the BatchRelease that drives it.
	AnnotationControlInfo = "batchrelease.rollouts.kruise.io/control-info"
	// AnnotationDeploymentStrategy on a Deployment says which share of it may be upgraded.
	AnnotationDeploymentStrategy = "rollouts.kruise.io/deployment-strategy"
	// AnnotationDeploymentExtraStatus on a Deployment tells what its status cannot.
	AnnotationDeploymentExtraStatus = "rollouts.kruise.io/deployment-extra-status"
	// AnnotationOriginalStrategy on a workload keeps what its owner wrote, while
	// a blue-green release needs other values.
	AnnotationOriginalStrategy = "rollouts.kruise.io/original-deployment-strategy"
	// AnnotationAskedAgain on a held workload says when its native controller was last
	// to look at it, to make a ControllerRevision again that was deleted.
	AnnotationAskedAgain = "rollouts.kruise.io/asked-again"
	// AnnotationWantedSpec on a held workload notes what its owner wrote of the
	// fields that the policies keep, until it is taken up.
	AnnotationWantedSpec = "rollouts.kruise.io/wanted-spec"
	// AnnotationOriginalSpec on a router keeps what its owner wrote, while a release
	// needs it to say something else.
	AnnotationOriginalSpec = "rollouts.kruise.io/original-spec-configuration"
	// AnnotationRouted on a router is the route that it does, as a step has it.
	AnnotationRouted = "rollouts.kruise.io/routed"
	// AnnotationRoutedBy on a router tells which script of its user has routed it.
	AnnotationRoutedBy = "rollouts.kruise.io/routed-by"
	// LabelWorkloadType on a workload lets admission see it.
	LabelWorkloadType = "rollouts.kruise.io/workload-type"
	// LabelStableRevision on a Deployment names its stable ReplicaSet.
	LabelStableRevision = "rollouts.kruise.io/stable-revision"
	// LabelControlled on a Deployment tells that its ReplicaSets are scaled here.
	LabelControlled = "rollouts.kruise.io/controlled-by-advanced-deployment-controller"
	// LabelCanaryDeployment on an extra Deployment names the one it belongs to.
	LabelCanaryDeployment = "rollouts.kruise.io/canary-deployment"
	// LabelRolloutID on a workload (also an annotation there) identifies a release;
	// on a pod it is the release that brought it.
	LabelRolloutID = "rollouts.kruise.io/rollout-id"
	// LabelRolloutBatchID on a pod is the number of the batch that brought it.
	LabelRolloutBatchID = "rollouts.kruise.io/rollout-batch-id"
	// LabelIndex on a ConfigMap lets the policies read it.
	LabelIndex = "rollouts.kruise.io/index"
	// LabelRolloutName on a RolloutHistory names the Rollout.
	LabelRolloutName = "rollouts.kruise.io/rollout-name"
	// LabelReleaseNumber on a RolloutHistory counts the releases of the Rollout;
	// only those written here have it.
	LabelReleaseNumber = "rollouts.kruise.io/release-number"

	// FinalizerRollout keeps a Rollout until its workload is given back.
	FinalizerRollout = "rollouts.kruise.io/rollout"
	// FinalizerBatchRelease keeps a BatchRelease until its workload is given back.
	FinalizerBatchRelease = "rollouts.kruise.io/batch-release-finalizer"
	// FinalizerCanaryDeployment is on extra Deployments that OpenKruise made.
	FinalizerCanaryDeployment = "finalizer.rollouts.kruise.io/batch-release"
	// FinalizerTrafficRouting keeps a TrafficRouting until its routes are taken back.
	FinalizerTrafficRouting = "rollouts.kruise.io/trafficrouting"
	// FinalizerProgressing, a slash and the name of a Rollout on a TrafficRouting
	// tell that the Rollout has a release under way.
	FinalizerProgressing = "progressing.rollouts.kruise.io"

	// CanarySuffix names the canary Service and Ingress after the stable ones.
	CanarySuffix = "-canary"
	// ConfigurationName is the ConfigMap that users bring scripts in.
	ConfigurationName = "kruise-rollout-configuration"
	// IndexName is the ConfigMap that says which Rollout holds which workload.
	IndexName = "rollouts-index"
)
