// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// applyEditedPlan continues a release whose plan the user has edited. It moves the release to the step of the
// edited plan that matches the number of new pods so far.
func applyEditedPlan(d *draft) {
	p, released := d.progress(), plannedUpdatedReplicas(d.facts)
	target := stepForPods(d.facts, released)
	if d.Batch == nil {
		target = 1
	}
	if more := plannedPods(d.facts, target); more > released && p.State == rollouts.StepPaused && approver(&d.status, p.CurrentStepIndex, "") == "" {
		d.warn("StepPassedByEdit", fmt.Sprintf("the plan was edited while step(%d) waited for its approval; the release continues at step(%d), with up to %d new pods instead of %d", p.CurrentStepIndex, target, more, released))
	}
	switch {
	case target == p.NextStepIndex:
		p.State = rollouts.StepReady
	case target == p.CurrentStepIndex && p.State == rollouts.StepReady:
		// The user has approved the current step, and the approval remains valid.
	default:
		p.CurrentStepIndex, p.State = target, rollouts.BeforeStepUpgrade
		if !p.FullyPromoted {
			d.setOutcome(rollouts.VerbPromote, rollouts.OutcomeSuperseded)
		}
	}
	p.NextStepIndex = d.plan.Next(p.CurrentStepIndex)
	p.RolloutHash = d.planHash()
	d.startWait()
	d.continueWith(CaseInProgress)
}

// stepForPods returns the step of the edited plan from which a release with this number of new pods continues.
// The result is the current step if it still asks for the same number of pods as before, or for exactly the
// released pods. Otherwise the result is the first step that asks for at least the released pods or, if there
// is none, the last step.
func stepForPods(f facts, released int32) int32 {
	current := f.progress().CurrentStepIndex
	if planned := plannedPods(f, current); planned >= 0 && (planned == released || planned == lastRequestedPods(f, current)) {
		return current
	}
	last := int32(len(f.plan.Steps))
	for i := int32(1); i <= last; i++ {
		if plannedPods(f, i) >= released {
			return i
		}
	}
	return last
}

// plannedPods returns the number of new pods of a step of the plan; -1 if the step does not set a number.
func plannedPods(f facts, step int32) int32 {
	s := f.plan.Step(step)
	if s == nil || s.Replicas == nil {
		return -1
	}
	return f.w.Limit(f.style, *s.Replicas)
}

// lastRequestedPods returns the number of new pods that a step has in the plan of the BatchRelease, which is the
// plan before the edit; -1 if the BatchRelease has no such step.
func lastRequestedPods(f facts, step int32) int32 {
	if b := f.Batch; b != nil && step >= 1 && int(step) <= len(b.Plan.Batches) {
		return f.w.Limit(f.style, b.Plan.Batches[step-1].CanaryReplicas)
	}
	return -1
}
