// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// What follows from a verb by the store alone is in the write of the verb, so that the next
// pass has nothing to store for it. It is what a pass would do, by the same functions, and
// stops where a pass looks at the workload or at the network.

// PauseRelease has the next status paused.
func PauseRelease(r *rollouts.Rollout, next *rollouts.RolloutStatus, now time.Time) {
	changeStatus(r, next, now, setPaused)
}

// ResumeRelease has the next status go on in its step. Where an abort may have begun to go
// back, a pass finds out.
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

// LeaveStep has the next status at the step after one that is approved, up to where pods
// change.
func LeaveStep(r *rollouts.Rollout, next *rollouts.RolloutStatus, now time.Time) {
	changeStatus(r, next, now, func(d *draft) {
		if !continuesByStore(d.facts) {
			return
		}
		for d.progress().State != rollouts.StepUpgrade {
			s, p := stageOf(d.progress().State), d.progress()
			if s.pass != nil {
				s.pass(d, d.step())
			}
			enterNextStage(d, s, p)
		}
		startUpgrade(d)
	})
}

// startUpgrade says that pods change, and has their deadline run.
func startUpgrade(d *draft) {
	d.setStepMessage(upgradeMessage)
	setProgressMark(d, d.progress().UpdateReadyReplicas)
}

// continuesByStore reports whether nothing but the store decides how an approved step goes on:
// the plan is that of the release, nothing is routed, and no template takes over.
func continuesByStore(f *facts) bool {
	p := f.progress()
	return f.status.Phase == rollouts.PhaseProgressing && f.isDoing(rollouts.ActivityInRolling) &&
		p.State == rollouts.StepReady && p.FinalisingStep == "" && len(approvedGates) == 0 &&
		f.step() != nil && f.release.Next(p.CurrentStepIndex) > 0 && p.RolloutHash == f.planHash() &&
		len(f.release.TrafficRoutings) == 0 && f.status.Network == nil
}

// ApprovedBefore says who approved the step before the one under way; empty if nobody has.
func ApprovedBefore(r *rollouts.Rollout) string {
	p := r.Status.Active()
	if by := approver(&r.Status, p.CurrentStepIndex-1, rollouts.OutcomeApplied); by != "" {
		return fmt.Sprintf("; step %d was approved by %s", p.CurrentStepIndex-1, by)
	}
	return ""
}

// CompleteStatus has the next status say what follows from it: the record of the release and
// the conditions.
func CompleteStatus(r *rollouts.Rollout, next *rollouts.RolloutStatus, now time.Time) {
	changeStatus(r, next, now, func(d *draft) {
		updateRecord(d)
		setKstatusConditions(d)
	})
}

// changeStatus changes the next status of a Rollout, of which nothing but the store is known.
func changeStatus(r *rollouts.Rollout, next *rollouts.RolloutStatus, now time.Time, change func(*draft)) {
	_, release := r.Spec.Strategy.Active()
	d := &draft{facts: &facts{
		Input: Input{Rollout: r, Now: now}, release: release, status: *next,
		style: rollouts.StyleFor(&r.Spec.Strategy, r.Spec.WorkloadRef),
	}}
	change(d)
	*next = d.status
}
