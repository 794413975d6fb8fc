// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// ReplicaSetScaler are the ReplicaSets of a workload that Weir scales itself.
type ReplicaSetScaler interface {
	// Sizing returns the input for sizes.Decide under a state in the store, and reports whether Weir
	// scales the ReplicaSets.
	Sizing(HoldState) (sizes.Scaling, bool)
}

// scaleReplicaSets adds the next sizes of the ReplicaSets to a decision, according to what the store
// will say when the decision is stored.
func scaleReplicaSets(in Input, d Decision) Decision {
	if in.ReplicaSets == nil || HasEffect(d.Actions, changesReplicaSets) {
		return d
	}
	known, when, ok := knownAfter(in, d)
	if !ok || known.Batch != "" && known.Target == nil {
		return d // the workload has no target yet, or was restored
	}
	scaling, ours := in.ReplicaSets.Sizing(known)
	if !ours {
		return d
	}
	if scale := sizes.Decide(scaling); len(scale.Steps) > 0 {
		d.Actions = append(d.Actions, Action{Effect: ScaleReplicaSets{Hold: known, Scale: scale}, Reason: scale.Rule, When: when})
	}
	return d
}

// knownAfter returns what the store will say about the workload after a decision is stored, and when
// the ReplicaSets may be scaled according to it. It reports false if the BatchRelease is created by this decision,
// or gets a plan that the next pass starts.
func knownAfter(in Input, d Decision) (known HoldState, when When, ok bool) {
	rollout := *in.Rollout
	rollout.Status = d.Status
	var batch *rollouts.BatchRelease
	if in.BatchInput != nil {
		batch = in.BatchInput.Release
	}
	for _, a := range d.Actions {
		switch effect := a.Effect.(type) {
		case RunBatch:
			if batch == nil || effect.Status == nil {
				return HoldState{}, FromStored, false
			}
			started := batchReleaseWith(in, effect.Plan)
			started.Status = *effect.Status
			return HoldStateOf(&rollout, started), AfterStatus, true
		case StoreBatchStatus:
			judged := *batch
			judged.Status = effect.Status
			batch = &judged
		}
	}
	return HoldStateOf(&rollout, batch), FromStored, true
}

// changesReplicaSets reports whether an effect changes the sizes of ReplicaSets, or whose they are.
func changesReplicaSets(effect Effect) bool {
	if on, is := effect.(OnBatch); is {
		effect = on.Effect
	}
	switch effect.(type) {
	case RestoreWorkload, ApplyPendingEdit, SetStableTemplate, HoldWorkload:
		return true
	default:
		return false
	}
}
