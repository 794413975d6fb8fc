// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// What an edit of the plan in the middle of a release means.

// applyEditedPlan finds the step of an edited plan that has what was released so far.
func (x *pass) applyEditedPlan() {
	p := x.progress()
	target := x.stepWith(x.given())
	if x.Batch == nil {
		target = 1
	}
	if more := x.wants(target); more > x.given() && p.State == rollouts.StepPaused && x.approver() == "" {
		x.warn("StepPassedByEdit", fmt.Sprintf("the plan was edited while step(%d) waited for its approval; the release goes on at step(%d), with up to %d new pods instead of %d", p.CurrentStepIndex, target, more, x.given()))
	}
	switch {
	case target == p.NextStepIndex:
		p.State = rollouts.StepReady
	case target == p.CurrentStepIndex && p.State == rollouts.StepReady:
		// It was approved as it is.
	default:
		p.CurrentStepIndex, p.State = target, rollouts.BeforeStepUpgrade
		if !p.FullyPromoted {
			x.settle(rollouts.VerbPromote, rollouts.OutcomeSuperseded)
		}
	}
	p.NextStepIndex = x.release.Next(p.CurrentStepIndex)
	p.RolloutHash = x.planHash()
	x.stamp()
	x.step()
}

// given is how many pods the batches may bring up already.
func (x *pass) given() int32 {
	b := x.Batch
	if b == nil || b.Plan.Abort || b.Plan.BatchPartition == nil || int(*b.Plan.BatchPartition) >= len(b.Plan.Batches) {
		return 0
	}
	return x.kept(*b.Plan.BatchPartition, x.w.Limit(x.style, b.Plan.Batches[*b.Plan.BatchPartition].CanaryReplicas))
}

// kept is so many pods of a batch, but for the stable one that the batch keeps
// whatever the size is.
func (x *pass) kept(batch, pods int32) int32 {
	b, d := x.Batch, x.w.Target
	if b != nil && b.Observed && b.Index == batch && d != nil && d.KeepOne && !d.Abort && x.w.Replicas > 1 {
		return min(pods, x.w.Replicas-1)
	}
	return pods
}

// driven is how many pods the workload was told to bring up, which a step to
// which the release has gone back does not take away.
func (x *pass) driven() int32 {
	if d := x.w.Target; d != nil && !d.Abort {
		if x.replaces() {
			return d.LimitOf(x.w)
		}
		return x.w.Limit(x.style, d.Partition)
	}
	return 0
}

// stepWith returns the current step where it still wants what it wanted or what
// is there, or else the first one that wants at least so many pods, or the last.
func (x *pass) stepWith(have int32) int32 {
	current := x.progress().CurrentStepIndex
	if now := x.wants(current); now >= 0 && (now == have || now == x.wanted(current)) {
		return current
	}
	last := int32(len(x.release.Steps))
	for i := int32(1); i <= last; i++ {
		if x.wants(i) >= have {
			return i
		}
	}
	return last
}

// wants is how many pods a step of the plan asks for; -1 where it asks for none.
func (x *pass) wants(step int32) int32 {
	s := x.release.Step(step)
	if s == nil || s.Replicas == nil {
		return -1
	}
	return x.w.Limit(x.style, *s.Replicas)
}

// wanted is what a step wanted when it was last asked for.
func (x *pass) wanted(step int32) int32 {
	if b := x.Batch; b != nil && step >= 1 && int(step) <= len(b.Plan.Batches) {
		return x.w.Limit(x.style, b.Plan.Batches[step-1].CanaryReplicas)
	}
	return -1
}
