// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Decide decides one pass over a Rollout: its next status, and the actions on its BatchRelease, its
// workload and the network that lead to it. Nothing else decides.
func Decide(in Input) Decision {
	if Finalized(in.Rollout) {
		return Decision{
			Case: CaseFinalized, Passed: []string{string(CaseFinalized)},
			State: StateOf(in.Rollout), Status: *in.Rollout.Status.DeepCopy(), Histories: HistoriesToStore(in.Rollout.Status, in.Histories),
		}
	}
	batch := evaluateBatch(in)
	if batch != nil {
		in.Batch = batch.facts
	}
	d := decideRollout(in)
	d = runBatchRelease(in, d, batch)
	d = scaleReplicaSets(in, d)
	d.Histories = HistoriesToStore(d.Status, in.Histories)
	return d
}

// decideRollout decides about the Rollout itself. If a batch must start, the decision has the effect RunBatch,
// which runBatchRelease completes.
func decideRollout(in Input) Decision {
	d := newDraft(newFacts(in))
	recordAbortedRevision(d)
	found := classify(d.facts)
	for d.next = found; d.next != ""; {
		row := cases[slices.IndexFunc(cases, func(c caseRow) bool { return c.name == d.next })]
		d.next, d.reason = "", string(row.name)
		d.trail = append(d.trail, d.reason)
		row.decide(d)
	}
	for _, project := range projections {
		d.reason = project.name
		project.run(d)
	}
	d.status.Clean()
	d.status.Fit()
	next := *in.Rollout
	next.Status = d.status
	return Decision{
		Case: found, Passed: d.trail, State: StateOf(&next), Verdicts: d.verdicts,
		Status: d.status, Actions: d.actions, Events: d.events, Wake: d.wake, MeasurementRequests: d.questions,
	}
}

// Case names what happened to a release since its status was stored.
type Case string

// The cases of a pass.
const (
	CaseDeleted               Case = "deleted"
	CaseDisabled              Case = "disabled"
	CaseWorkloadGone          Case = "workload gone"
	CaseUnsupported           Case = "unsupported"
	CaseRevisionUnknown       Case = "revision unknown"
	CaseBypassed              Case = "bypassed"
	CaseStillAborted          Case = "still aborted"
	CaseNotAdopted            Case = "not adopted"
	CaseHealthy               Case = "healthy"
	CaseStableTemplateSet     Case = "stable template set"
	CaseSupersededWhenAborted Case = "superseded when aborted"
	CaseAborted               Case = "aborted"
	CaseStableEdited          Case = "stable edited"
	CaseBatchGone             Case = "batch gone"
	CaseRefused               Case = "refused"
	CaseSupersededWhenEnding  Case = "superseded when ending"
	CaseEnding                Case = "ending"
	CaseCheckFailed           Case = "check failed"
	CasePaused                Case = "paused"
	CaseRollbackInBatches     Case = "rollback in batches"
	CaseSuperseded            Case = "superseded"
	CaseInitializing          Case = "waiting to start"
	CasePlanChanged           Case = "plan changed"
	CaseInProgress            Case = "in progress"
	// CaseCompleted applies to no observation: the case "in progress" continues with it.
	CaseCompleted Case = "completed"
	// CaseFinalized is a deleted Rollout that has restored everything. Only finalizers of others keep it.
	CaseFinalized Case = "finalized"
)

// caseRow is one case: whether it applies, and the function that decides then.
type caseRow struct {
	name    Case
	applies func(facts) bool
	decide  func(*draft)
}

// cases are in the order of precedence: the first case that applies decides. It may continue with another
// case in the same write.
var cases = []caseRow{
	// The Rollout ends: everything that it has changed is restored.
	{CaseDeleted, deleted, deleteRollout},
	{CaseDisabled, isDisabled, disableRollout},

	// The workload cannot be released now.
	{CaseWorkloadGone, func(f facts) bool { return f.w == nil }, endWithoutWorkload},
	{CaseUnsupported, unsupported, setUnsupported},
	{CaseRevisionUnknown, revisionUnknown, awaitRevision},
	{CaseBypassed, admissionBypassed, holdBypassed},

	// No release in progress.
	{CaseStillAborted, stillAborted, resumeAbort},
	{CaseNotAdopted, notAdopted, adopt},
	{CaseHealthy, facts.isHealthy, watchHealthy},

	// The release goes back, or another template takes its place.
	{CaseStableTemplateSet, rolledBack, startCancellation},
	{CaseSupersededWhenAborted, supersededWhenAborted, supersede},
	{CaseAborted, facts.isAbortingOrAborted, abort},
	{CaseStableEdited, hasEditedStable, stallStableEdited},
	{CaseBatchGone, batchGone, recreateBatchRelease},
	{CaseRefused, templateRefused, refuseTemplate},
	{CaseSupersededWhenEnding, supersededWhenEnding, supersede},
	{CaseEnding, facts.isEnding, tearDownRelease},
	{CaseCheckFailed, checkFailed, abortByCheck},
	{CasePaused, paused, pauseRelease},
	{CaseRollbackInBatches, rolledBackInBatches, startRollback},
	{CaseSuperseded, superseded, supersede},

	// The release goes forward.
	{CaseInitializing, initializing, initialize},
	{CasePlanChanged, planChanged, applyEditedPlan},
	{CaseCompleted, func(facts) bool { return false }, startTeardown}, // only continued with
	{CaseInProgress, func(facts) bool { return true }, runStep},
}

// classify returns the first case that applies.
func classify(f facts) Case {
	i := slices.IndexFunc(cases, func(c caseRow) bool { return c.applies(f) })
	return cases[i].name
}

// projections complete the status and the actions with what follows from the decision of the case. They run
// in this order after every case.
var projections = []struct {
	name string
	run  func(*draft)
}{
	{"workload in service", recordWorkloadUID},
	{"batch release of another", skipOccupiedBatch},
	{"batch release without a release", deleteLateBatchRelease},
	{"records on the workload", repairRecords},
	{"network", updateNetworkHold},
	{"admission", ensureAdmission},
	{"traffic routings", unlinkUnused},
	{"grace period", recordTrafficChange},
	{"write error", recordWriteError},
	{"batch", copyBatchProgress},
	{"record", updateRecord},
	{"analysis", storeAnalysis},
	{"measurable", keepMeasurable},
	{"failing", reportFailing},
	{"deadline", checkDeadline},
	{"revertible", reportRevertible},
	{"kstatus", setKstatusConditions},
}

// recordWorkloadUID stores the UID of the workload that the Rollout releases: a workload that is created
// later under the same name is another one.
func recordWorkloadUID(d *draft) {
	if d.w != nil && (d.status.Phase == rollouts.PhaseHealthy || d.status.Phase == rollouts.PhaseProgressing) {
		d.status.WorkloadUID = d.w.UID
	}
}

func deleted(f facts) bool { return f.Rollout.DeletionTimestamp != nil }

// isDisabled reports whether the Rollout is disabled, or its disabling has not ended. A restore that has
// begun is completed even if the Rollout is enabled again meanwhile: no release can continue with a workload
// that is half restored.
func isDisabled(f facts) bool {
	return f.Rollout.Spec.Disabled || f.status.Phase == rollouts.PhaseDisabling
}

func unsupported(f facts) bool {
	return unsupportedReason(f) != "" && f.status.Phase != rollouts.PhaseProgressing && !becameUnsupported(f)
}

// unsupportedReason returns why the workload cannot be released; empty if it can.
func unsupportedReason(f facts) string {
	if f.Unsupported == "" && f.w != nil {
		return f.w.UnsupportedReason
	}
	return f.Unsupported
}

// becameUnsupported reports whether an edit has made an adopted workload unsupported. The workload stays
// adopted, so that admission continues to refuse templates that could not be held.
func becameUnsupported(f facts) bool {
	return f.Unsupported == "" && f.isHealthy() && f.w != nil && f.w.UnsupportedReason != ""
}

func notAdopted(f facts) bool {
	return f.status.Phase != rollouts.PhaseHealthy && f.status.Phase != rollouts.PhaseProgressing
}

func stillAborted(f facts) bool {
	return notAdopted(f) && f.w.Held && f.w.Labelled && f.isAbortingOrAborted() && f.hasReleasedTemplate()
}

func rolledBack(f facts) bool {
	alreadyCancelled := f.isDoing(rollouts.ActivityCancelling, rollouts.ActivityCompleted)
	return f.w.Held && f.w.HasStableTemplate && !alreadyCancelled && !returnsInBatches(f) && !stableEdited(f)
}

// returnsInBatches reports whether the stable template is released step by step, too, instead of being
// restored at once.
func returnsInBatches(f facts) bool {
	started := f.hasReleasedTemplate() || f.isDoing(rollouts.ActivityInRolling, rollouts.ActivityPaused)
	return (backInBatches(f) && started || releasesStableAgain(f)) && !f.isAbortingOrAborted()
}

// releasesStableAgain reports whether the current release is about the stable revision itself, under another
// rollout ID: no pod is created or deleted for it.
func releasesStableAgain(f facts) bool {
	p := f.stored()
	same := p.StableRevision != "" && (p.StableRevision == p.UpdateRevision || p.StableRevision == p.PodTemplateHash)
	if !f.w.AbortSetsTemplate && p.StableTemplate != "" && p.UpdateTemplate != "" {
		same = p.StableTemplate == p.UpdateTemplate
	}
	return same && f.hasReleasedTemplate() && userRolloutID(f) != "" && f.w.StableReplicas == 0
}

// backInBatches reports whether the user wants rollbacks in batches. The annotation is ignored if traffic is
// routed: bad pods would receive requests during the batches.
func backInBatches(f facts) bool {
	requested := f.Rollout.Annotations[rollouts.AnnotationRollbackInBatch] == "true"
	return requested && f.replacesPods() && len(f.plan.TrafficRoutings) == 0
}

func rolledBackInBatches(f facts) bool {
	return f.w.Held && f.w.HasStableTemplate && returnsInBatches(f) && !f.hasReleasedTemplate()
}

func paused(f facts) bool { return f.Rollout.Spec.Strategy.Paused || f.stored().Paused }

func initializing(f facts) bool {
	return f.isDoing(rollouts.ActivityInitializing) || f.isDoing(rollouts.ActivityPaused) && retriesUnfinishedAbort(f)
}

// superseded reports whether the held template is neither the template of the current release nor the stable
// one.
func superseded(f facts) bool { return f.w.Held && !f.w.HasStableTemplate && !f.hasReleasedTemplate() }

// supersededWhenAborted reports whether another template may take the place of an aborted release. In the
// blue-green style it must wait for the end of the abort, because a third revision needs the room of the
// second one. An abort without a stable revision never ends, so nothing waits for it.
func supersededWhenAborted(f facts) bool {
	mayStart := f.isDoing(rollouts.ActivityAborted) || f.style != rollouts.StyleBlueGreen || f.w.StableRevisionGone
	return f.isAbortingOrAborted() && mayStart && superseded(f)
}

// templateRefused reports whether another template was set while a blue-green release has pods of two
// revisions, so that there is no room for a third. If the old pods are being deleted, the template waits
// instead.
func templateRefused(f facts) bool {
	return f.style == rollouts.StyleBlueGreen && f.Batch != nil && superseded(f) && !f.isEnding() && !f.isAbortingOrAborted()
}

// supersededWhenEnding reports whether the template changed between the last step and the restore of the
// workload: a restore would release it without approval. A release that is being cancelled is superseded by
// every template except the stable one.
func supersededWhenEnding(f facts) bool {
	switch f.activity() {
	case rollouts.ActivityFinalising:
		return superseded(f)
	case rollouts.ActivityCancelling:
		return f.w.Held && !f.w.HasStableTemplate
	default:
		return false
	}
}

func planChanged(f facts) bool { return f.stored().RolloutHash != f.planHash() }
