// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// disableRollout restores the workload, Services and routes of a Rollout that is disabled, as far as one pass can.
// The Rollout becomes Disabled when all are restored.
func disableRollout(d *draft) {
	if d.status.Phase == rollouts.PhaseDisabled {
		removeFromAdmission(d) // an earlier pass may have read the label or the index entry from a stale cache
		return
	}
	if d.status.Phase != rollouts.PhaseDisabling {
		d.status.Phase = rollouts.PhaseDisabling
		d.progress().FinalisingStep = ""
	}
	setTeardownMessage(d, "Disabling rollout, release resources")
	if done := tearDownRollout(d); !done {
		return
	}
	removeFromAdmission(d)
	if isVisibleToAdmission(d.facts) {
		return
	}
	d.supersedeDecisions()
	closeRecord(d, rollouts.ReleaseDisabled)
	d.status.RemoveCondition(rollouts.ConditionStalled)
	d.status.RemoveCondition(rollouts.ConditionBypassed)
	d.status.Phase = rollouts.PhaseDisabled
	d.status.WorkloadUID = ""
	d.status.Message = "Rollout is disabled"
	switch {
	case !d.isAbortingOrAborted():
		setAtRest(d, d.status.Message)
	case d.isDoing(rollouts.ActivityAborting):
		// The abort is kept in the status. Otherwise the aborted template would be released when the Rollout is
		// enabled again.
		d.setActivity(rollouts.ActivityAborted, d.status.Message)
	}
	d.announce("RolloutDisabled", "the workload was returned to its native controller")
}

// deleteRollout restores the workload, Services and routes of a Rollout that is being deleted, as far as one pass
// can. It removes the finalizer when all are restored.
func deleteRollout(d *draft) {
	const message = "Rollout is in terminating"
	if d.status.Phase != rollouts.PhaseTerminating {
		d.status.Phase = rollouts.PhaseTerminating
		d.progress().FinalisingStep = ""
		d.setCondition(rollouts.ConditionTerminating, metav1.ConditionTrue, "InTerminating", message)
	}
	setTeardownMessage(d, message)
	if done := tearDownRollout(d); !done {
		return
	}
	closeRecord(d, rollouts.ReleaseDeleted)
	d.status.WorkloadUID = ""
	if others := rollouts.FinalizersOf(d.Rollout, rollouts.FinalizerRollout); others != "" {
		d.status.Message = "Rollout has restored everything, and stays until a user removes these finalizers: " + others
	}
	d.setCondition(rollouts.ConditionTerminating, metav1.ConditionFalse, "Completed", message)
	removeFromAdmission(d)
	d.act(RemoveFinalizer{})
}

// tearDownRollout runs the teardown of a Rollout that is disabled or deleted, as far as one pass can. It reports
// whether the teardown is complete.
//
// The pods of an aborted version are replaced by stable pods first. The version must not be released because the
// Rollout is removed, so the workload is restored but stays paused. The same holds for a template that the
// blue-green style refused before the abort (v2 is released, v3 is refused, abort, the Rollout is deleted).
func tearDownRollout(d *draft) (done bool) {
	switch {
	case d.w == nil:
		if done := restoreNetwork(d); !done || d.remade == nil {
			return done
		}
		// The workload was created again, and may have been labelled and held since then.
		clearRelease(d)
		continueWithRemade(d)
		return tearDownRollout(d)
	case abortTargetsTemplate(d.facts):
		if runTeardown(d, replacedTeardown, rollouts.ReleasePlan{}) {
			carryAbortOver(d)
		}
		return false
	case d.isAbortingOrAborted() && revisionUnknown(d.facts):
		requeueWorkload(d) // without its revision, it is not known whether the template is the aborted one
		return false
	case d.isAbortingOrAborted() && (d.hasReleasedTemplate() || d.style == rollouts.StyleBlueGreen) && !d.w.HasStableTemplate:
		return continueAbort(d) && restoreWorkloadPaused(d)
	default:
		return runTeardown(d, disableTeardown, restorePlan(d.facts, rollouts.Immediate, Revision{}, false))
	}
}

// runTeardown runs a teardown as far as one pass can, and reports whether it is complete.
func runTeardown(d *draft, rows []rollouts.FinalisingStep, last rollouts.ReleasePlan) (done bool) {
	left := remainingTeardown(d.facts, rows, last)
	d.applyRemaining(left)
	return left.isDone()
}

// restoreWorkloadPaused runs the teardown that restores the workload but leaves it paused, and reports whether the
// teardown is complete.
func restoreWorkloadPaused(d *draft) (done bool) {
	if d.w.HasManagedFields && d.progress().FinalisingStep == "" && d.w.LiveRevision != d.w.StableRevision {
		d.warn("WorkloadKeptPaused", "the release was aborted, so the workload stays paused; change its template, then "+d.w.ResumeHint)
	}
	return runTeardown(d, disableTeardown, restorePlan(d.facts, rollouts.Immediate, Revision{}, true))
}

// continueAbort continues an abort before the workload is restored, and reports whether the abort is complete or
// cannot continue. After a rollback, it first sets the stable template, so that the workload need not stay paused.
func continueAbort(d *draft) (done bool) {
	if d.isDoing(rollouts.ActivityAborted) {
		setStableTemplate(d)
		return !d.hasAction(SetStableTemplate{})
	}
	abort(d)
	if d.hasAction(SetStableTemplate{}) {
		return false
	}
	if d.isStalledFor(rollouts.StalledStableGone, rollouts.StalledStableEdited) {
		// The stable revision cannot be restored, so the workload is restored as it is, and paused.
		d.setActivity(rollouts.ActivityAborted, d.status.Message)
	}
	if d.isDoing(rollouts.ActivityAborting) {
		return false
	}
	d.progress().FinalisingStep = ""
	return true
}
