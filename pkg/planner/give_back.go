// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// A Rollout that is disabled or deleted gives everything back.

// disable gives everything back and leaves the workload to its owner.
func disable(d *draft) {
	if d.status.Phase == rollouts.PhaseDisabled {
		withdraw(d) // label and entry may have been seen too late
		return
	}
	if d.status.Phase != rollouts.PhaseDisabling {
		d.status.Phase = rollouts.PhaseDisabling
		d.progress().FinalisingStep = ""
	}
	because(d, "Disabling rollout, release resources")
	if giveBack(d); d.waits {
		return
	}
	if withdraw(d); visible(d.facts) {
		return
	}
	d.settleAll()
	closeRecord(d, rollouts.ReleaseDisabled)
	d.status.RemoveCondition(rollouts.ConditionStalled)
	d.status.RemoveCondition(rollouts.ConditionBypassed)
	d.status.Phase = rollouts.PhaseDisabled
	d.status.WorkloadUID = ""
	switch d.status.Message = "Rollout is disabled"; {
	case !d.aborted():
		conclude(d, d.status.Message)
	case d.doing(rollouts.ActivityAborting):
		d.become(rollouts.ActivityAborted, d.status.Message) // it is remembered, or enabling would release it
	}
	d.announce("RolloutDisabled", "the workload was given back to its own controller")
}

// terminate gives everything back and lets the Rollout go.
func terminate(d *draft) {
	const message = "Rollout is in terminating"
	if d.status.Phase != rollouts.PhaseTerminating {
		d.status.Phase = rollouts.PhaseTerminating
		d.progress().FinalisingStep = ""
		d.set(rollouts.ConditionTerminating, metav1.ConditionTrue, "InTerminating", message)
	}
	because(d, message)
	if giveBack(d); d.waits {
		return
	}
	closeRecord(d, rollouts.ReleaseDeleted)
	d.status.WorkloadUID = ""
	if others := rollouts.FinalizersOf(d.Rollout, rollouts.FinalizerRollout); others != "" {
		d.status.Message = "Rollout has given everything back, and stays until somebody takes these finalizers off: " + others
	}
	d.set(rollouts.ConditionTerminating, metav1.ConditionFalse, "Completed", message)
	withdraw(d)
	d.act(DropFinalizer{})
}

// giveBack runs the teardown of a Rollout that leaves. A version that was
// aborted is brought back first and is never released by leaving: everything
// is restored then but the pause. The same holds for a template that the blue-green style
// refused before the abort (v2 is released, v3 is refused, abort, the Rollout is deleted).
func giveBack(d *draft) {
	d.waits = true
	switch {
	case d.w == nil:
		if tidyUp(d); d.waits || d.remade == nil {
			return
		}
		// The workload was made again, and may have been labelled and held since.
		forget(d)
		takeUpRemade(d)
		giveBack(d)
	case condemned(d.facts):
		if tearDown(d, replacedTeardown, rollouts.ReleasePlan{}); !d.waits {
			passOn(d)
			d.waits = true
		}
	case d.aborted() && notNamed(d.facts):
		askAgain(d) // whether it is what was aborted
	case d.aborted() && (d.live() || d.style == rollouts.StyleBlueGreen) && !d.w.AtStable:
		if awaitAbort(d); !d.waits {
			leavePaused(d)
		}
	default:
		tearDown(d, disableTeardown, lastPlan(d.facts, rollouts.Immediate, Revision{}, false))
	}
}

// tearDown runs a teardown as far as one pass can go.
func tearDown(d *draft, rows []rollouts.FinalisingStep, last rollouts.ReleasePlan) {
	left := remaining(d.facts, rows, last)
	d.pursue(left)
	d.waits = !left.done()
}

// leavePaused gives the workload back, and its pause with it.
func leavePaused(d *draft) {
	if d.w.HasManagedFields && d.progress().FinalisingStep == "" && d.w.LiveRevision != d.w.StableRevision {
		d.warn("WorkloadKeptPaused", "the release was aborted, so the workload is given back paused; release another template, then resume it")
	}
	tearDown(d, disableTeardown, lastPlan(d.facts, rollouts.Immediate, Revision{}, true))
}

// awaitAbort waits for the end of an abort, as far as it can come to one. After a rollback the
// stable template is set first, and then the workload is not left paused.
func awaitAbort(d *draft) {
	if d.waits = false; d.doing(rollouts.ActivityAborted) {
		setStable(d)
		d.waits = d.acts(SetStable{})
		return
	}
	abort(d)
	if d.acts(SetStable{}) {
		d.waits = true
		return
	}
	if d.stalledFor(rollouts.StalledStableGone, rollouts.StalledStableEdited) {
		// Then it can only be left as it is, and paused.
		d.become(rollouts.ActivityAborted, d.status.Message)
	}
	if d.waits = d.doing(rollouts.ActivityAborting); !d.waits {
		d.progress().FinalisingStep = ""
	}
}
