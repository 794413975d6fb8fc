// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The stable revision may lose its set in the middle of a release: somebody
// deletes it, or the native controller, as too old. The native controller fills
// the gap within milliseconds, with whatever version it finds. The set is made
// anew from the history of the release, and the sizes go back from there.

// StableLost names the stable revision of a release whose set does not exist, or has
// another template by now; empty if it does, or if nothing depends on it any more.
func StableLost(r *rollouts.Rollout, w *Workload) string {
	p := r.Status.Active()
	if w == nil || p == nil || !w.Held || p.StableRevision == "" || slices.Contains(w.Revisions, p.StableRevision) && !exchanged(*p, w) {
		return ""
	}
	switch r.Status.Phase {
	case rollouts.PhaseProgressing, rollouts.PhaseTerminating, rollouts.PhaseDisabling, rollouts.PhaseInitial, rollouts.PhaseDisabled:
		return p.StableRevision
	default:
		return ""
	}
}

// judgeKept leaves out what is on file if the store says that it is another template;
// and where the native controller decides sizes, while the set that was edited is
// there: of two sets it would take the pods of the one that serves.
func (x *pass) judgeKept() {
	if x.Kept != nil && x.w != nil && (x.w.Native || !x.replaces()) && exchanged(x.was(), x.w) {
		x.Kept = nil
	}
	if digest := x.was().StableTemplate; x.Kept != nil && digest != "" && x.Kept.Template != digest {
		x.Kept = nil
	}
}

// stableLost reports whether the stable set has to be made anew before anything else. Where
// that takes the stable template itself, only an abort may.
func (x *pass) stableLost() bool {
	switch {
	case !x.w.StableGone || x.Kept == nil:
		return false
	case x.w.BackByTemplate:
		return x.aborted()
	default:
		return x.stableMissed()
	}
}

// stableMissed reports whether pods of the stable set are wanted. Where the native
// controller sizes, and every pod runs the live template, it would take them at once.
func (x *pass) stableMissed() bool {
	if x.w.Native && !x.aborted() && !x.Kept.Live && x.w.LiveReadyReplicas >= x.w.Replicas {
		return false
	}
	return !x.doing(rollouts.ActivityFinalising) && (x.Kept.Live || x.aborted() || x.stableShare() > 0) &&
		(x.Kept.Live || x.w.Replicas > 0)
}

// stableShare is how many pods of stable there should be in the workload.
func (x *pass) stableShare() int32 {
	if x.replaces() {
		return x.w.Replicas - x.given()
	}
	return x.w.Replicas
}

// remake makes the stable set anew. Traffic does not wait for its pods where
// only others serve. A release that was aborted already is brought back again,
// since the pods are not those of stable any more.
func (x *pass) remake() {
	if !x.w.BackByTemplate && x.Kept.Revision != "" {
		x.followStable() // of a Rollout that leaves
		return
	}
	revision := x.progress().StableRevision
	message := x.remade(revision)
	if x.doing(rollouts.ActivityAborted) {
		x.status.RemoveCondition(rollouts.ConditionStalled)
		x.become(rollouts.ActivityAborting, aborting)
	}
	x.status.Message = message
	if r := x.Route; r != nil && r.Pinned != "" && x.onlyUpdate() {
		x.act(Unpin{})
	}
	remake := RemakeStable{Revision: revision}
	if x.w.BackByTemplate {
		if remake.SetAsideRevision = x.w.LiveRevision; !x.batchBack() {
			return
		}
	}
	x.act(remake)
}

// remade says that the stable set is made anew, and why.
func (x *pass) remade(revision string) string {
	what := "was deleted"
	if x.edited() {
		what = "has another template"
	}
	message := fmt.Sprintf("The %s of the stable revision %s %s, and is made anew from the history of the release", x.w.RevisionKind, revision, what)
	if x.Rollout.Status.Message != message {
		x.warn("StableRecreated", message)
	}
	return message
}

// batchBack reports whether no batch is about to set the template of the release again.
func (x *pass) batchBack() bool {
	if b := x.Batch; b != nil && !b.Plan.Abort {
		x.back(0, x.abortOf())
		return false
	}
	return x.Batch == nil || x.Batch.Observed
}

// stableRenamed reports whether another set has the template of the stable revision
// that is on file: it was made anew, and its own label was taken.
func (x *pass) stableRenamed() bool {
	return x.w.StableGone && x.renamedStable() != "" && x.status.Phase == rollouts.PhaseProgressing
}

// renamedStable is the name that it has now, or empty.
func (x *pass) renamedStable() string {
	switch {
	case x.Kept == nil:
		return ""
	case x.w.BackByTemplate && x.Kept.Live:
		return x.w.LiveRevision
	default:
		return x.Kept.Revision
	}
}

// followStable goes on with that one. What is known of the workload was read for
// the one that is gone, so that all else is left to the next pass.
func (x *pass) followStable() { x.progress().StableRevision = x.renamedStable() }

// tellStable has the batch of a step that waits know which set is stable by now: it
// would take it for gone.
func (x *pass) tellStable() {
	b, p := x.Batch, x.progress()
	if b == nil || b.Terminating || b.Plan.BatchPartition == nil || b.Plan.Abort || !stageOf(p.State).routed && p.State != rollouts.StepTrafficRouting {
		return
	}
	if plan := b.Plan; plan.StableRevision != "" && p.StableRevision != "" && plan.StableRevision != p.StableRevision {
		plan.StableRevision = p.StableRevision
		x.act(RunBatch{Plan: plan})
	}
}

// keptFrom says what keeps the workload from being given back; empty if nothing does.
// Who waits for the end of a release waits for pods that nobody sizes any more, too.
func (w *Workload) keptFrom(wait, keepPaused bool) string {
	switch {
	case w.TakenFor != "" && !keepPaused:
		return w.TakenFor
	case wait:
		return w.RunsOn
	default:
		return ""
	}
}

// EventBatchMade announces that the BatchRelease of a step that waits was deleted.
const EventBatchMade = "BatchReleaseMadeAgain"

// batchGone reports whether somebody deleted the BatchRelease of a step whose pods are
// there: nobody keeps their sizes. Another plan, or another template, has it made as
// that wants it. A blue-green release refuses other templates only while it is there.
func (x *pass) batchGone() bool {
	if x.Batch != nil || x.aborted() || x.ending() || !Controls(x.Rollout) || x.planChanged() {
		return false
	}
	if x.superseded() && x.style != rollouts.StyleBlueGreen {
		return false
	}
	switch x.progress().State {
	case rollouts.StepTrafficRouting, rollouts.StepMetricsAnalysis, rollouts.StepPaused, rollouts.StepReady:
		return x.progress().FinalisingStep == ""
	default:
		return false
	}
}

// makeBatch makes it again from what the Rollout knows, before anything moves.
func (x *pass) makeBatch() {
	x.act(RunBatch{Plan: x.plan(x.progress().CurrentStepIndex)})
	x.warn(EventBatchMade, fmt.Sprintf("somebody deleted the BatchRelease of step(%d); it was made again, and goes no further than that step", x.progress().CurrentStepIndex))
}
