// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// size sizes the ReplicaSets by what the store says of the workload once the decision is
// stored. Where that says nothing new, the sizes follow from what is stored already.
func size(o Observed, d planner.Decision) planner.Decision {
	known, begun, ok := knownThen(o, d)
	if !ok || o.Sets == nil || known.Batch != "" && known.Target == nil || planner.HasEffect(d.Actions, resizes) {
		return d // it is about to be told, or was given back
	}
	facts, ours := o.Sets.Sizing(known)
	if !ours {
		return d
	}
	scale := sizes.Decide(facts)
	if len(scale.Steps) == 0 {
		return d
	}
	when := planner.FromStored
	if begun {
		when = planner.AfterStatus
	}
	d.Actions = append(d.Actions, planner.Action{Effect: planner.Size{Known: known, Scale: scale}, Reason: scale.Rule, When: when})
	return d
}

// knownThen is what the store says of the workload once the decision is stored, whether a
// plan is taken up with it, and whether that is known now. It is not where the next pass
// takes the plan up.
func knownThen(o Observed, d planner.Decision) (known planner.Known, begun, ok bool) {
	r := *o.Rollout
	r.Status = d.Status
	b := o.release()
	if i := begins(d.Actions); i >= 0 {
		run := d.Actions[i].Effect.(planner.RunBatch)
		if b == nil || run.Status == nil {
			return known, false, false
		}
		b = planned(o, run.Plan)
		b.Status = *run.Status
		return planner.KnownOf(&r, b), true, true
	}
	for _, a := range planner.At(planner.BeforeStatus, d.Actions) {
		judged := *b
		judged.Status = a.Effect.(planner.JudgeBatch).Status
		b = &judged
	}
	return planner.KnownOf(&r, b), false, true
}

func (o Observed) release() *rollouts.BatchRelease {
	if o.Batches == nil {
		return nil
	}
	return o.Batches.Release
}

// resizes reports whether an effect changes what the sizes are decided by, or lets the native
// controller decide them.
func resizes(effect planner.Effect) bool {
	if on, is := effect.(OnBatch); is {
		effect = on.Effect
	}
	switch effect.(type) {
	case planner.RestoreWorkload, planner.ApplyPendingEdit, planner.SetStable, planner.Hold:
		return true
	default:
		return false
	}
}
