// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// A verb writes the status of the Rollout. The functions in this file add to this write everything that the
// next reconcile would derive from the stored status alone, so that the reconcile needs no write of its own.
// They use the functions of the reconcile, and stop where it needs observations of the workload or the network.

// PauseRelease pauses the release in the next status.
func PauseRelease(r *rollouts.Rollout, next *rollouts.RolloutStatus, now time.Time) {
	changeStatus(r, next, now, setPaused)
}

// ResumeRelease resumes the current step in the next status. It changes nothing if the release is between two
// steps, because an abort may have begun there: the next reconcile decides.
func ResumeRelease(r *rollouts.Rollout, next *rollouts.RolloutStatus, now time.Time) {
	changeStatus(r, next, now, func(d *draft) {
		p := d.progress()
		if !d.isDoing(rollouts.ActivityPaused) || betweenSteps(d.facts) || d.isStalledFor(rollouts.StalledRefused) || d.step() == nil {
			return
		}
		clearPaused(d)
		switch p.State {
		case rollouts.StepUpgrade:
			startUpgrade(d)
		case rollouts.StepPaused:
			setPlannedPauseMessage(d, d.step())
		}
	})
}

// LeaveStep moves the next status from an approved step to the following step, up to the stage in which pods
// change.
func LeaveStep(r *rollouts.Rollout, next *rollouts.RolloutStatus, now time.Time) {
	changeStatus(r, next, now, func(d *draft) {
		if !continuesWithoutObservation(d.facts) {
			return
		}
		for d.progress().State != rollouts.StepUpgrade {
			leaveStage(d, stageOf(d.progress().State), d.step())
		}
		startUpgrade(d)
	})
}

// startUpgrade sets the message of the stage in which pods change, and starts the progress deadline.
func startUpgrade(d *draft) {
	d.setStepMessage(upgradeMessage)
	setProgressMark(d, d.progress().UpdateReadyReplicas)
}

// continuesWithoutObservation reports whether an approved step can be left without observations: the plan is
// unchanged, nothing is routed, and no other template replaces the release.
func continuesWithoutObservation(f facts) bool {
	p := f.progress()
	return f.status.Phase == rollouts.PhaseProgressing && f.isDoing(rollouts.ActivityInRolling) &&
		p.State == rollouts.StepReady && p.FinalisingStep == "" && len(approvedGates) == 0 &&
		f.step() != nil && f.plan.Next(p.CurrentStepIndex) > 0 && p.RolloutHash == f.planHash() &&
		len(f.plan.TrafficRoutings) == 0 && f.status.Network == nil
}

// ApprovedBefore returns a message about the user who approved the previous step; empty if nobody did.
func ApprovedBefore(r *rollouts.Rollout) string {
	p := r.Status.Active()
	if user := approver(&r.Status, p.CurrentStepIndex-1, rollouts.OutcomeApplied); user != "" {
		return fmt.Sprintf("; step %d was approved by %s", p.CurrentStepIndex-1, user)
	}
	return ""
}

// CompleteStatus updates the parts of the next status that follow from the rest: the record of the release and
// the conditions.
func CompleteStatus(r *rollouts.Rollout, next *rollouts.RolloutStatus, now time.Time) {
	changeStatus(r, next, now, func(d *draft) {
		updateRecord(d)
		setKstatusConditions(d)
	})
}

// changeStatus applies a change to the next status of a Rollout. Its facts have no observations.
func changeStatus(r *rollouts.Rollout, next *rollouts.RolloutStatus, now time.Time, change func(*draft)) {
	_, plan := r.Spec.Strategy.Active()
	d := newDraft(facts{
		Input: Input{Rollout: r, Now: now}, plan: plan, status: *next,
		style: rollouts.StyleFor(&r.Spec.Strategy, r.Spec.WorkloadRef),
	})
	change(d)
	*next = d.status
}
