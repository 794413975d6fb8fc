// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// A Rollout that is disabled or deleted gives everything back.

// disableRollout gives everything back and leaves the workload to its owner.
func disableRollout(d *draft) {
	if d.status.Phase == rollouts.PhaseDisabled {
		removeFromAdmission(d) // label and entry may have been seen too late
		return
	}
	if d.status.Phase != rollouts.PhaseDisabling {
		d.status.Phase = rollouts.PhaseDisabling
		d.progress().FinalisingStep = ""
	}
	setTeardownMessage(d, "Disabling rollout, release resources")
	if tearDownRollout(d); d.waits {
		return
	}
	if removeFromAdmission(d); isVisibleToAdmission(d.facts) {
		return
	}
	d.supersedeDecisions()
	closeRecord(d, rollouts.ReleaseDisabled)
	d.status.RemoveCondition(rollouts.ConditionStalled)
	d.status.RemoveCondition(rollouts.ConditionBypassed)
	d.status.Phase = rollouts.PhaseDisabled
	d.status.WorkloadUID = ""
	switch d.status.Message = "Rollout is disabled"; {
	case !d.isAborted():
		setAtRest(d, d.status.Message)
	case d.isDoing(rollouts.ActivityAborting):
		d.setActivity(rollouts.ActivityAborted, d.status.Message) // it is remembered, or enabling would release it
	}
	d.announce("RolloutDisabled", "the workload was given back to its own controller")
}

// deleteRollout gives everything back and lets the Rollout go.
func deleteRollout(d *draft) {
	const message = "Rollout is in terminating"
	if d.status.Phase != rollouts.PhaseTerminating {
		d.status.Phase = rollouts.PhaseTerminating
		d.progress().FinalisingStep = ""
		d.setCondition(rollouts.ConditionTerminating, metav1.ConditionTrue, "InTerminating", message)
	}
	setTeardownMessage(d, message)
	if tearDownRollout(d); d.waits {
		return
	}
	closeRecord(d, rollouts.ReleaseDeleted)
	d.status.WorkloadUID = ""
	if others := rollouts.FinalizersOf(d.Rollout, rollouts.FinalizerRollout); others != "" {
		d.status.Message = "Rollout has given everything back, and stays until somebody takes these finalizers off: " + others
	}
	d.setCondition(rollouts.ConditionTerminating, metav1.ConditionFalse, "Completed", message)
	removeFromAdmission(d)
	d.act(RemoveFinalizer{})
}

// tearDownRollout runs the teardown of a Rollout that leaves. A version that was
// aborted is brought back first and is never released by leaving: everything
// is restored then but the pause. The same holds for a template that the blue-green style
// refused before the abort (v2 is released, v3 is refused, abort, the Rollout is deleted).
func tearDownRollout(d *draft) {
	d.waits = true
	switch {
	case d.w == nil:
		if restoreNetwork(d); d.waits || d.remade == nil {
			return
		}
		// The workload was made again, and may have been labelled and held since.
		clearRelease(d)
		continueWithRemade(d)
		tearDownRollout(d)
	case abortTargetsTemplate(d.facts):
		if runTeardown(d, replacedTeardown, rollouts.ReleasePlan{}); !d.waits {
			carryAbortOver(d)
			d.waits = true
		}
	case d.isAborted() && revisionUnknown(d.facts):
		requeueWorkload(d) // whether it is what was aborted
	case d.isAborted() && (d.hasReleasedTemplate() || d.style == rollouts.StyleBlueGreen) && !d.w.HasStableTemplate:
		if continueAbort(d); !d.waits {
			restoreWorkloadPaused(d)
		}
	default:
		runTeardown(d, disableTeardown, restorePlan(d.facts, rollouts.Immediate, Revision{}, false))
	}
}

// runTeardown runs a teardown as far as one pass can go.
func runTeardown(d *draft, rows []rollouts.FinalisingStep, last rollouts.ReleasePlan) {
	left := remainingTeardown(d.facts, rows, last)
	d.applyRemaining(left)
	d.waits = !left.isDone()
}

// restoreWorkloadPaused gives the workload back, and its pause with it.
func restoreWorkloadPaused(d *draft) {
	if d.w.HasManagedFields && d.progress().FinalisingStep == "" && d.w.LiveRevision != d.w.StableRevision {
		d.warn("WorkloadKeptPaused", "the release was aborted, so the workload is given back paused; release another template, then resume it")
	}
	runTeardown(d, disableTeardown, restorePlan(d.facts, rollouts.Immediate, Revision{}, true))
}

// continueAbort waits for the end of an abort, as far as it can come to one. After a rollback the
// stable template is set first, and then the workload is not left paused.
func continueAbort(d *draft) {
	if d.waits = false; d.isDoing(rollouts.ActivityAborted) {
		setStableTemplate(d)
		d.waits = d.hasAction(SetStableTemplate{})
		return
	}
	abort(d)
	if d.hasAction(SetStableTemplate{}) {
		d.waits = true
		return
	}
	if d.isStalledFor(rollouts.StalledStableGone, rollouts.StalledStableEdited) {
		// Then it can only be left as it is, and paused.
		d.setActivity(rollouts.ActivityAborted, d.status.Message)
	}
	if d.waits = d.isDoing(rollouts.ActivityAborting); !d.waits {
		d.progress().FinalisingStep = ""
	}
}
