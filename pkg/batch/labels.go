// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"cmp"
	"slices"

	"github.com/weir-rollouts/weir/pkg/planner"
)

// marks are the labels still to be written. Each batch has as many pods as it
// adds to the one before, by the plan and whatever is there already; pods that have
// a batch with room keep it, and of the others the youngest belong to the last one.
func marks(f *facts) []planner.Mark {
	if !marking(f) || comesBack(f) {
		return nil
	}
	room := additions(f)
	pods := slices.SortedFunc(slices.Values(f.Pods), func(a, b Pod) int { return cmp.Or(a.Came.Compare(b.Came), cmp.Compare(b.Name, a.Name)) })
	bare := slices.DeleteFunc(pods, func(p Pod) bool {
		has := p.RolloutID == f.plan.RolloutID && p.Batch >= 1 && int(p.Batch) <= len(room) && room[p.Batch-1] > 0
		if has {
			room[p.Batch-1]--
		}
		return has
	})
	slices.Reverse(bare)
	var due []planner.Mark
	for i := len(room) - 1; i >= 0; i-- {
		for ; room[i] > 0 && len(due) < len(bare); room[i]-- {
			p := bare[len(due)]
			due = append(due, planner.Mark{
				Pod: p.Name, UID: p.UID, RolloutID: f.plan.RolloutID, Batch: int32(i) + 1, //nolint:gosec // batches are few
				Revision: cmp.Or(p.Revision, f.w.UpdateRevision),
			})
		}
	}
	return due
}

func marking(f *facts) bool {
	return !f.plan.Abort && f.plan.RolloutID != "" && Marks(f.Labels, f.plan.RollingStyle, f.w)
}

// comesBack reports whether pods of the batch are still on their way back to the stable
// revision. They belong to it before those that never left, and are the youngest.
func comesBack(f *facts) bool {
	return f.status.NoNeedUpdateReplicas != nil && int32(len(f.Pods)) < limit(f, f.plan.Batches[f.status.CurrentBatch].CanaryReplicas) //nolint:gosec // of the size of a workload
}

// marked reports whether every pod is known and has its label. One that the native
// controller counts may be on its way to here.
func marked(f *facts) bool {
	return !marking(f) || int32(len(f.Pods)) >= f.w.UpdatedReplicas && len(marks(f)) == 0 //nolint:gosec // of the size of a workload
}

// additions is how many pods each batch up to the current one adds by the plan.
func additions(f *facts) []int32 {
	var adds []int32
	var before int32
	for i := range f.plan.Batches[:f.status.CurrentBatch+1] {
		upTo := max(f.w.Limit(f.plan.RollingStyle, f.plan.Batches[i].CanaryReplicas), before)
		adds = append(adds, upTo-before)
		before = upTo
	}
	return adds
}
