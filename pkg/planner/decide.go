// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Decide decides one pass over a Rollout: its next status, and the actions on its BatchRelease, its
// workload and the network that lead to it. Nothing else decides.
func Decide(in Observed) Decision {
	if Over(in.Rollout) {
		return Decision{Case: CaseOver, Passed: []string{string(CaseOver)}, State: StateOf(in.Rollout), Status: *in.Rollout.Status.DeepCopy(), Histories: Filings(in.Rollout.Status, in.Histories)}
	}
	batch := evaluateBatch(in)
	if batch != nil {
		in.Batch = batch.facts
	}
	d := decideRollout(in)
	d = runBatchRelease(in, d, batch)
	d = scaleReplicaSets(in, d)
	d.Histories = Filings(d.Status, in.Histories)
	return d
}

// decideRollout decides about the Rollout itself. It requests a batch by the effect RunBatch.
func decideRollout(in Observed) Decision {
	d := &draft{facts: factsOf(in)}
	bindAbort(d)
	found := classify(d.facts)
	for d.next = found; d.next != ""; {
		row := cases[slices.IndexFunc(cases, func(c caseRow) bool { return c.name == d.next })]
		d.next, d.reason = "", string(row.name)
		d.passed = append(d.passed, d.reason)
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
		Case: found, Passed: d.passed, State: StateOf(&next), Verdicts: d.verdicts,
		Status: d.status, Actions: d.actions, Events: d.events, Wake: d.wake, Questions: d.questions,
	}
}

// Case is what a pass found: what happened to a release since its status was stored.
type Case string

// The cases.
const (
	CaseDeleted          Case = "deleted"
	CaseDisabled         Case = "disabled"
	CaseWorkloadGone     Case = "workload gone"
	CaseUnsupported      Case = "unsupported"
	CaseNotNamed         Case = "not named"
	CaseBypassed         Case = "bypassed"
	CaseStillAborted     Case = "still aborted"
	CaseNotAdopted       Case = "not adopted"
	CaseHealthy          Case = "healthy"
	CaseRolledBack       Case = "rolled back"
	CaseAbortSuperseded  Case = "superseded when aborted"
	CaseAborted          Case = "aborted"
	CaseStableEdited     Case = "stable edited"
	CaseBatchGone        Case = "batch gone"
	CaseRefused          Case = "refused"
	CaseEndingSuperseded Case = "superseded when ending"
	CaseEnding           Case = "ending"
	CaseCheckFailed      Case = "check failed"
	CasePaused           Case = "paused"
	CaseRollback         Case = "rolled back in batches"
	CaseSuperseded       Case = "superseded"
	CaseInitializing     Case = "waiting to start"
	CasePlanChanged      Case = "plan changed"
	CaseInProgress       Case = "in progress"
	// CaseCompleted is never found, but gone on with.
	CaseCompleted Case = "completed"
	// CaseOver is a Rollout that is deleted, has given everything back and acts no more.
	CaseOver Case = "over"
)

// caseRow is one case and what it leads to.
type caseRow struct {
	name    Case
	applies func(*facts) bool
	decide  func(*draft)
}

// cases in the order of precedence: the first that applies decides. A case may go on with
// another one in the same write.
var cases = []caseRow{
	{CaseDeleted, deleted, terminate},
	{CaseDisabled, leaves, disable},
	{CaseWorkloadGone, func(f *facts) bool { return f.w == nil }, reset},
	{CaseUnsupported, unsupported, setUnsupported},
	{CaseNotNamed, notNamed, awaitName},
	{CaseBypassed, bypassed, catch},
	{CaseStillAborted, stillAborted, resumeAbort},
	{CaseNotAdopted, notAdopted, adopt},
	{CaseHealthy, (*facts).healthy, watch},
	{CaseRolledBack, rolledBack, cancel},
	{CaseAbortSuperseded, supersededWhenAborted, supersede},
	{CaseAborted, (*facts).aborted, abort},
	{CaseStableEdited, atEdited, stallStableEdited},
	{CaseBatchGone, batchGone, makeBatch},
	{CaseRefused, refused, refuse},
	{CaseEndingSuperseded, supersededWhenEnding, supersede},
	{CaseEnding, (*facts).ending, end},
	{CaseCheckFailed, checkFailed, abortByCheck},
	{CasePaused, paused, pauseRelease},
	{CaseRollback, rolledBackInBatches, startRollback},
	{CaseSuperseded, superseded, supersede},
	{CaseInitializing, initializing, initialize},
	{CasePlanChanged, planChanged, applyEditedPlan},
	{CaseCompleted, func(*facts) bool { return false }, finish},
	{CaseInProgress, func(*facts) bool { return true }, inStep},
}

// classify finds the case.
func classify(f *facts) Case {
	i := slices.IndexFunc(cases, func(c caseRow) bool { return c.applies(f) })
	return cases[i].name
}

// projections complete a decision by what follows from it.
var projections = []struct {
	name string
	run  func(*draft)
}{
	{"workload in service", bind},
	{"batch release of another", yield},
	{"records on the workload", putRight},
	{"network", keepNetwork},
	{"admission", ensureAdmission},
	{"traffic routings", forgetRoutings},
	{"grace period", keepGrace},
	{"write error", recordWriteError},
	{"batch", mirrorBatch},
	{"record", keepRecord},
	{"analysis", keepAnalysis},
	{"measurable", keepMeasurable},
	{"deadline", keepDeadline},
	{"revertible", reportRevertible},
	{"kstatus", setKstatusConditions},
}

// bind notes which workload is in service.
func bind(d *draft) {
	if d.w != nil && (d.status.Phase == rollouts.PhaseHealthy || d.status.Phase == rollouts.PhaseProgressing) {
		d.status.WorkloadUID = d.w.UID
	}
}

// The questions of the cases.

func deleted(f *facts) bool { return f.Rollout.DeletionTimestamp != nil }

// leaves reports whether the Rollout is disabled, or was. A give-back that has begun comes
// to its end first: the workload is half given back, and no release could go on from there.
func leaves(f *facts) bool {
	return f.Rollout.Spec.Disabled || f.status.Phase == rollouts.PhaseDisabling
}

func unsupported(f *facts) bool {
	return unsuited(f) != "" && f.status.Phase != rollouts.PhaseProgressing && !unfitInService(f)
}

// unsuited says why the workload cannot be released; empty if it can.
func unsuited(f *facts) string {
	if f.Unsupported == "" && f.w != nil {
		return f.w.UnsupportedReason
	}
	return f.Unsupported
}

// unfitInService reports whether a workload in service was made unfit. It stays in
// service, so that admission goes on refusing templates that could not be held.
func unfitInService(f *facts) bool {
	return f.Unsupported == "" && f.healthy() && f.w != nil && f.w.UnsupportedReason != ""
}

func notAdopted(f *facts) bool {
	return f.status.Phase != rollouts.PhaseHealthy && f.status.Phase != rollouts.PhaseProgressing
}

func stillAborted(f *facts) bool {
	return notAdopted(f) && f.w.Held && f.w.Labelled && f.aborted() && f.live()
}

func rolledBack(f *facts) bool {
	over := f.doing(rollouts.ActivityCancelling, rollouts.ActivityCompleted)
	return f.w.Held && f.w.AtStable && !over && !returning(f) && !edited(f)
}

// returning reports whether the way back to the stable template is a release too, or
// is going to be one.
func returning(f *facts) bool {
	started := f.live() || f.doing(rollouts.ActivityInRolling, rollouts.ActivityPaused)
	return (backInBatches(f) && started || repeats(f)) && !f.aborted()
}

// repeats reports whether the release under way is of the revision that serves already,
// under a name of its own: no pod comes or goes for it.
func repeats(f *facts) bool {
	p := f.was()
	same := p.StableRevision != "" && (p.StableRevision == p.UpdateRevision || p.StableRevision == p.PodTemplateHash)
	if !f.w.BackByTemplate && p.StableTemplate != "" && p.UpdateTemplate != "" {
		same = p.StableTemplate == p.UpdateTemplate
	}
	return same && f.live() && named(f) != "" && f.w.StableReplicas == 0
}

// backInBatches reports whether its user wants that. Where traffic is routed, bad pods
// would go on getting requests meanwhile.
func backInBatches(f *facts) bool {
	asked := f.Rollout.Annotations[rollouts.AnnotationRollbackInBatch] == "true"
	return asked && f.replaces() && len(f.release.TrafficRoutings) == 0
}

func rolledBackInBatches(f *facts) bool {
	return f.w.Held && f.w.AtStable && returning(f) && !f.live()
}

func paused(f *facts) bool { return f.Rollout.Spec.Strategy.Paused || f.was().Paused }

func initializing(f *facts) bool {
	return f.doing(rollouts.ActivityInitializing) || f.doing(rollouts.ActivityPaused) && halfBack(f)
}

// superseded reports whether the held template is neither that of this release nor
// the stable one. The hash label recognises the template when the way of
// hashing has changed since the release began.
func superseded(f *facts) bool { return f.w.Held && !f.w.AtStable && !f.live() }

// supersededWhenAborted waits for the end of the abort where two revisions may
// not make room for a third. One that cannot go back does not come to its end.
func supersededWhenAborted(f *facts) bool {
	over := f.doing(rollouts.ActivityAborted) || f.style != rollouts.StyleBlueGreen || f.w.StableGone
	return f.aborted() && over && superseded(f)
}

// refused reports whether another template was set while a blue-green release has
// pods: there is no room for those of a third revision. Where the old ones are
// on their way out, it waits for that.
func refused(f *facts) bool {
	return f.style == rollouts.StyleBlueGreen && f.Batch != nil && superseded(f) && !f.ending() && !f.aborted()
}

// supersededWhenEnding covers a template that changes between the last step
// and the give-back: giving back would release it unasked. A release being
// cancelled is superseded by every template but the stable one.
func supersededWhenEnding(f *facts) bool {
	switch f.activity() {
	case rollouts.ActivityFinalising:
		return superseded(f)
	case rollouts.ActivityCancelling:
		return f.w.Held && !f.w.AtStable
	default:
		return false
	}
}

func planChanged(f *facts) bool { return f.was().RolloutHash != f.planHash() }
