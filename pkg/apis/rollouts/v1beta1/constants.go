// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

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

// Steps of teardowns. The strings are those of OpenKruise.
const (
	FinalisingRemoveRoute     FinalisingStep = "FinalisingStepRouteTrafficToStable"
	FinalisingUnpinService    FinalisingStep = "RestoreStableService"
	FinalisingRemoveCanary    FinalisingStep = "RemoveCanaryService"
	FinalisingRestoreWorkload FinalisingStep = "ResumeWorkload"
	FinalisingDeleteBatch     FinalisingStep = "ReleaseWorkloadControl"
	FinalisingEnd             FinalisingStep = "END"
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
	// ConditionFailing is true while a release makes no progress for a known cause that
	// does not go away by waiting, and is not there otherwise.
	ConditionFailing ConditionType = "Failing"
	// ConditionWritable is false while the server denies a write that a release
	// needs, and is not there otherwise.
	ConditionWritable ConditionType = "Writable"
)

// Reasons of the condition Progressing. Aborting and Aborted are Weir's own.
const (
	ReasonInitializing = "Initializing"
	ReasonInRolling    = "InRolling"
	ReasonPaused       = "Paused"
	ReasonAborting     = "Aborting"
	ReasonAborted      = "Aborted"
	ReasonFinalising   = "Finalising"
	ReasonCancelling   = "Cancelling"
	ReasonCompleted    = "Completed"
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
	ReleaseSucceeded  ReleaseOutcome = "succeeded"
	ReleaseCancelled  ReleaseOutcome = "cancelled"
	ReleaseAborted    ReleaseOutcome = "aborted"
	ReleaseSuperseded ReleaseOutcome = "superseded"
	ReleaseDisabled   ReleaseOutcome = "disabled"
	ReleaseDeleted    ReleaseOutcome = "deleted"
	ReleaseBypassed   ReleaseOutcome = "bypassed"
)
