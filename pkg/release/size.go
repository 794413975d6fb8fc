// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"slices"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// size sizes the ReplicaSets by what the store says of the workload once the decision is
// stored. Where that says nothing new, the sizes follow from what is stored already.
func size(o Observed, d Decision) Decision {
	known, begun, ok := knownThen(o, d)
	if !ok || o.Sets == nil || known.Batch != "" && known.Target == nil || slices.ContainsFunc(slices.Concat(d.Actions, d.Beside), resizes) {
		return d // it is about to be told, or was given back
	}
	facts, ours := o.Sets.Sizing(known)
	if !ours {
		return d
	}
	action := planner.Size{Known: known, Scale: sizes.Decide(facts)}
	switch {
	case len(action.Scale.Steps) == 0:
	case begun:
		d.Actions, d.Reasons = append(d.Actions, action), append(d.Reasons, action.Scale.Rule)
	default:
		d.Follow = append(d.Follow, action)
	}
	return d
}

// knownThen is what the store says of the workload once the decision is stored, whether a
// plan is taken up with it, and whether that is known now. It is not where the next pass
// takes the plan up.
func knownThen(o Observed, d Decision) (known planner.Known, begun, ok bool) {
	r := *o.Rollout
	r.Status = d.Status
	b := o.release()
	if i := begins(d.Actions); i >= 0 {
		run := d.Actions[i].(planner.RunBatch)
		if b == nil || run.Status == nil {
			return known, false, false
		}
		b = planned(o, run.Plan)
		b.Status = *run.Status
		return planner.KnownOf(&r, b), true, true
	}
	if len(d.First) > 0 {
		judged := *b
		judged.Status = d.First[0].(planner.JudgeBatch).Status
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

// resizes reports whether an action changes what the sizes are decided by, or has the
// native controller decide them.
func resizes(a planner.Effect) bool {
	if on, is := a.(OnBatch); is {
		a = on.Effect
	}
	switch a.(type) {
	case planner.RestoreWorkload, planner.ApplyPendingEdit, planner.SetStable, planner.Hold:
		return true
	default:
		return false
	}
}
