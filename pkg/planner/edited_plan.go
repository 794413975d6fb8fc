// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// What an edit of the plan in the middle of a release means, and how many pods steps want.

// applyEditedPlan finds the step of an edited plan that has what was released so far.
func applyEditedPlan(d *draft) {
	p, given := d.progress(), plannedUpdatedReplicas(d.facts)
	target := stepForPods(d.facts, given)
	if d.Batch == nil {
		target = 1
	}
	if more := plannedPods(d.facts, target); more > given && p.State == rollouts.StepPaused && approver(&d.status, p.CurrentStepIndex, "") == "" {
		d.warn("StepPassedByEdit", fmt.Sprintf("the plan was edited while step(%d) waited for its approval; the release goes on at step(%d), with up to %d new pods instead of %d", p.CurrentStepIndex, target, more, given))
	}
	switch {
	case target == p.NextStepIndex:
		p.State = rollouts.StepReady
	case target == p.CurrentStepIndex && p.State == rollouts.StepReady:
		// It was approved as it is.
	default:
		p.CurrentStepIndex, p.State = target, rollouts.BeforeStepUpgrade
		if !p.FullyPromoted {
			d.setOutcome(rollouts.VerbPromote, rollouts.OutcomeSuperseded)
		}
	}
	p.NextStepIndex = d.release.Next(p.CurrentStepIndex)
	p.RolloutHash = d.planHash()
	d.startWait()
	d.continueWith(CaseInProgress)
}

// stepForPods returns the current step where it still wants what it wanted or what
// is there, or else the first one that wants at least so many pods, or the last.
func stepForPods(f *facts, have int32) int32 {
	current := f.progress().CurrentStepIndex
	if now := plannedPods(f, current); now >= 0 && (now == have || now == lastRequestedPods(f, current)) {
		return current
	}
	last := int32(len(f.release.Steps))
	for i := int32(1); i <= last; i++ {
		if plannedPods(f, i) >= have {
			return i
		}
	}
	return last
}

// plannedPods is how many pods a step of the plan asks for; -1 where it asks for none.
func plannedPods(f *facts, step int32) int32 {
	s := f.release.Step(step)
	if s == nil || s.Replicas == nil {
		return -1
	}
	return f.w.Limit(f.style, *s.Replicas)
}

// lastRequestedPods is what a step wanted when it was last asked for.
func lastRequestedPods(f *facts, step int32) int32 {
	if b := f.Batch; b != nil && step >= 1 && int(step) <= len(b.Plan.Batches) {
		return f.w.Limit(f.style, b.Plan.Batches[step-1].CanaryReplicas)
	}
	return -1
}
