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
	// StepReady is the state of a step that is approved, or whose pause is over.
	StepReady     StepState = "StepReady"
	StepCompleted StepState = "Completed"
)

// FinalisingStep is the position in a teardown.
type FinalisingStep string

// Steps of teardowns. The strings are those of OpenKruise.
const (
	// FinalisingRouteToNew routes all requests to the new version.
	FinalisingRouteToNew FinalisingStep = "FinalisingStepRouteTrafficToNew"
	// FinalisingRemoveRoute removes the route, so that all requests go to the stable Service, whichever pods it selects.
	FinalisingRemoveRoute FinalisingStep = "FinalisingStepRouteTrafficToStable"
	// FinalisingUnpinService unpins the stable Service, so that it selects the pods of every revision.
	FinalisingUnpinService FinalisingStep = "RestoreStableService"
	// FinalisingRemoveCanary deletes the canary Service.
	FinalisingRemoveCanary FinalisingStep = "RemoveCanaryService"
	// FinalisingRestoreWorkload returns the workload to its native controller.
	FinalisingRestoreWorkload FinalisingStep = "ResumeWorkload"
	// FinalisingDeleteBatch deletes the BatchRelease.
	FinalisingDeleteBatch FinalisingStep = "ReleaseWorkloadControl"
	// FinalisingUnlinkRouting unlinks the TrafficRouting. OpenKruise does not have this step.
	FinalisingUnlinkRouting FinalisingStep = "ReleaseTrafficRouting"
	// FinalisingEnd is the end of a teardown.
	FinalisingEnd FinalisingStep = "END"
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
	// ConditionProgressing has what a release is doing as its reason.
	ConditionProgressing ConditionType = "Progressing"
	// ConditionSucceeded is how the last release ended.
	ConditionSucceeded ConditionType = "Succeeded"
	// ConditionTerminating is set while the Rollout is deleted.
	ConditionTerminating ConditionType = "Terminating"
	// ConditionReconciling is true while a Rollout works towards its desired state, and false
	// when it has reached it or is stalled. Tools that follow kstatus read it.
	ConditionReconciling ConditionType = "Reconciling"
	// ConditionStalled is true if a Rollout makes no progress, or cannot continue without a
	// person. Tools that follow kstatus read it. Others may set it too.
	ConditionStalled ConditionType = "Stalled"
	// ConditionFailing is true while a release makes no progress for a known cause that does
	// not go away by waiting, and absent otherwise.
	ConditionFailing ConditionType = "Failing"
	// ConditionWritable is false while the server denies a write that a release needs,
	// and absent otherwise.
	ConditionWritable ConditionType = "Writable"
	// ConditionProtected is false while a part of admission is missing, so that a change
	// of the template may bypass it, and absent otherwise.
	ConditionProtected ConditionType = "Protected"
	// ConditionBypassed is true if the template of a release bypassed admission, so that
	// its first pods were created before Weir held the workload.
	ConditionBypassed ConditionType = "AdmissionBypassed"
	// ConditionRoutable is false while the Service or a router that a step needs belongs
	// to somebody else, or somebody undoes Weir's changes of it, and absent otherwise.
	ConditionRoutable ConditionType = "Routable"
	// ConditionMeasurable is false where a check of the plan measures nothing, or would have
	// failed the stable version.
	ConditionMeasurable ConditionType = "Measurable"
	// ConditionRevertible is false while abort and rollback cannot restore the stable
	// revision of a release in progress, and absent otherwise.
	ConditionRevertible ConditionType = "Revertible"
)

// ConditionTypes are all of the above.
var ConditionTypes = []ConditionType{
	ConditionProgressing, ConditionSucceeded, ConditionTerminating, ConditionReconciling, ConditionStalled,
	ConditionWritable, ConditionProtected, ConditionBypassed, ConditionRoutable, ConditionMeasurable,
	ConditionRevertible, ConditionFailing,
}

// StallReason is the reason of a condition Stalled that Weir writes. Others use other
// reasons.
type StallReason string

// Reasons of being stalled.
const (
	// StalledAborted: the release was aborted and waits for retry, rollback or another template.
	StalledAborted StallReason = "Aborted"
	// StalledStableGone: the stable revision of an abort does not exist any more.
	StalledStableGone StallReason = "StableGone"
	// StalledStableEdited: somebody has edited the object with the stable template.
	StalledStableEdited StallReason = "StableEdited"
	// StalledUnsupported: Weir does not support the kind, style or settings of the workload.
	StalledUnsupported StallReason = "Unsupported"
	// StalledRefused: another template was set during a blue-green release.
	StalledRefused StallReason = "RevisionRefused"
	// StalledOccupied: a BatchRelease of another owner has the name of the Rollout.
	StalledOccupied StallReason = "BatchReleaseOccupied"
	// StalledDeadline: there was no progress within the progress deadline.
	StalledDeadline StallReason = "ProgressDeadlineExceeded"
)

// stallReasons are all of the above.
var stallReasons = []StallReason{
	StalledAborted, StalledStableGone, StalledStableEdited, StalledUnsupported, StalledRefused, StalledOccupied, StalledDeadline,
}

// Known reports whether the reason is one of Weir's.
func (r StallReason) Known() bool { return slices.Contains(stallReasons, r) }

// FailingReason is the reason of the condition Failing.
type FailingReason string

// Reasons of failing.
const (
	// FailingImagePull: the image of a container cannot be pulled.
	FailingImagePull FailingReason = "ImagePullFailed"
	// FailingCrashing: a container ends with an error each time it is started.
	FailingCrashing FailingReason = "Crashing"
	// FailingNotStarted: a container cannot be started, for example because a Secret is missing.
	FailingNotStarted FailingReason = "ContainerNotStarted"
	// FailingPodsRefused: the server refuses to create pods, for example because of a quota.
	FailingPodsRefused FailingReason = "PodsRefused"
	// FailingObjectMissing: a Service, router or TrafficRouting of the plan does not exist.
	FailingObjectMissing FailingReason = "ObjectMissing"
	// FailingRouteBlocked: a router or a Service of another owner prevents the traffic of the step.
	FailingRouteBlocked FailingReason = "RouteBlocked"
	// FailingWriteRefused: the server refuses a write of Weir, for example because of a webhook.
	FailingWriteRefused FailingReason = "WriteRefused"
)

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
	// ViaAnnotation is a decision by the annotation rollouts.kruise.io/decide.
	ViaAnnotation Via = "annotation"
	// ViaAnalysis is a decision of the checks of the plan.
	ViaAnalysis Via = "analysis"
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
	// AnnotationRefused passes, within one request, the reason why another template cannot
	// be held from the policies that hold workloads to weir-fit.
	AnnotationRefused = "rollouts.kruise.io/refused"
	// AnnotationHash on a Rollout identifies its plan.
	AnnotationHash = "rollouts.kruise.io/hash"
	// AnnotationRollbackInBatch on a Rollout, when "true", takes the stable template
	// for a release of its own, step by step.
	AnnotationRollbackInBatch = "rollouts.kruise.io/rollback-in-batch"
	// AnnotationContact on a Rollout says whom to ask about its releases.
	AnnotationContact = "rollouts.kruise.io/contact"
	// AnnotationRollingStyle names the style in v1alpha1.
	AnnotationRollingStyle = "rollouts.kruise.io/rolling-style"
	// AnnotationTrafficRouting names a TrafficRouting object in v1alpha1.
	AnnotationTrafficRouting = "rollouts.kruise.io/trafficrouting"
	// AnnotationControlInfo on a workload holds the owner reference of the BatchRelease that drives it.
	AnnotationControlInfo = "batchrelease.rollouts.kruise.io/control-info"
	// AnnotationDeploymentStrategy on a Deployment says which share of it may be upgraded.
	AnnotationDeploymentStrategy = "rollouts.kruise.io/deployment-strategy"
	// AnnotationDeploymentExtraStatus on a Deployment has what its status has no field for.
	AnnotationDeploymentExtraStatus = "rollouts.kruise.io/deployment-extra-status"
	// AnnotationOriginalStrategy on a workload keeps the strategy of its owner while a
	// blue-green release needs another one.
	AnnotationOriginalStrategy = "rollouts.kruise.io/original-deployment-strategy"
	// AnnotationAskedAgain on a held workload is when Weir last made its native controller
	// reconcile it, to create a deleted ControllerRevision again.
	AnnotationAskedAgain = "rollouts.kruise.io/asked-again"
	// AnnotationDistinctRevision is set on the pod template of an extra Deployment if another
	// template has the same short hash. Its value is the revision name. The annotation changes
	// the hash, so that the pods of both templates have different labels.
	AnnotationDistinctRevision = "rollouts.kruise.io/distinct-revision"
	// AnnotationWantedSpec on a held workload keeps what its owner wrote to fields that the
	// policies keep, until Weir applies it.
	AnnotationWantedSpec = "rollouts.kruise.io/wanted-spec"
	// AnnotationOriginalSpec on a router keeps the spec of its owner while a release needs
	// another one.
	AnnotationOriginalSpec = "rollouts.kruise.io/original-spec-configuration"
	// AnnotationDecide decides about the release in progress, for clients that can not send a
	// verb. It is taken off and never stored.
	AnnotationDecide = "rollouts.kruise.io/decide"
	// AnnotationRouted on a router is its current route, in the form of a step.
	AnnotationRouted = "rollouts.kruise.io/routed"
	// AnnotationRoutedBy on a router names the user's script that has routed it.
	AnnotationRoutedBy = "rollouts.kruise.io/routed-by"
	// LabelWorkloadType on a workload lets admission see it.
	LabelWorkloadType = "rollouts.kruise.io/workload-type"
	// LabelStableRevision on a Deployment names its stable ReplicaSet.
	LabelStableRevision = "rollouts.kruise.io/stable-revision"
	// LabelControlled on a Deployment means that Weir scales its ReplicaSets.
	LabelControlled = "rollouts.kruise.io/controlled-by-advanced-deployment-controller"
	// LabelCanaryDeployment on an extra Deployment names the one it belongs to.
	LabelCanaryDeployment = "rollouts.kruise.io/canary-deployment"
	// LabelOwnedByRelease on a Deployment or Ingress means that Weir created it for a release. While
	// an APIService is missing, weir-guard-collection denies the deletion of these objects. Canary
	// Services do not have it: clients of OpenKruise expect the labels of the stable Service.
	LabelOwnedByRelease = "rollouts.kruise.io/owned-by-release"
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

	// FinalizerRollout keeps a Rollout until its workload is restored.
	FinalizerRollout = "rollouts.kruise.io/rollout"
	// FinalizerBatchRelease keeps a BatchRelease until its workload is restored.
	FinalizerBatchRelease = "rollouts.kruise.io/batch-release-finalizer"
	// FinalizerCanaryDeployment is on extra Deployments that OpenKruise made.
	FinalizerCanaryDeployment = "finalizer.rollouts.kruise.io/batch-release"
	// FinalizerTrafficRouting keeps a TrafficRouting until its routes are taken back.
	FinalizerTrafficRouting = "rollouts.kruise.io/trafficrouting"
	// FinalizerProgressing, a slash and the name of a Rollout on a TrafficRouting mean
	// that the Rollout has a release in progress.
	FinalizerProgressing = "progressing.rollouts.kruise.io"

	// CanarySuffix names the canary Service and Ingress after the stable ones.
	CanarySuffix = "-canary"
	// ConfigurationName is the ConfigMap with scripts of users.
	ConfigurationName = "kruise-rollout-configuration"
	// IndexName is the ConfigMap that says which Rollout holds which workload.
	IndexName = "rollouts-index"
)
