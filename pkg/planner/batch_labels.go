// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"slices"
)

// missingLabels returns the labels that pods still have to get. Each batch has as many pods as it adds
// to the batch before it, according to the plan and the pods that existed already. Pods that have the
// label of a batch with room keep it. Of the others, the youngest belong to the last batch.
func (d *batchDraft) missingLabels() []PodLabel {
	if !d.labelsPods() {
		return nil
	}
	// While pods of a rollback in batches are on their way back, the youngest pods do not exist yet.
	// They belong to the batch rather than the pods that never left.
	if d.status.NoNeedUpdateReplicas != nil && int32(len(d.Pods)) < d.batchLimit(d.plan.Batches[d.status.CurrentBatch].CanaryReplicas) { //nolint:gosec // of the size of a workload
		return nil
	}
	room := d.podsPerBatch()
	pods := slices.SortedFunc(slices.Values(d.Pods), func(a, b UpdatedPod) int {
		return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), cmp.Compare(b.Name, a.Name))
	})
	unlabelled := slices.DeleteFunc(pods, func(p UpdatedPod) bool {
		labelled := p.RolloutID == d.plan.RolloutID && p.Batch >= 1 && int(p.Batch) <= len(room) && room[p.Batch-1] > 0
		if labelled {
			room[p.Batch-1]--
		}
		return labelled
	})
	slices.Reverse(unlabelled)
	var labels []PodLabel
	for i := len(room) - 1; i >= 0; i-- {
		for ; room[i] > 0 && len(labels) < len(unlabelled); room[i]-- {
			p := unlabelled[len(labels)]
			labels = append(labels, PodLabel{
				Pod: p.Name, UID: p.UID, RolloutID: d.plan.RolloutID, Batch: int32(i) + 1, //nolint:gosec // batches are few
				Revision: cmp.Or(p.Revision, d.workload.UpdateRevision),
			})
		}
	}
	return labels
}

func (d *batchDraft) labelsPods() bool {
	return !d.plan.Abort && d.plan.RolloutID != "" && LabelsPods(d.Labels, d.plan.RollingStyle, d.workload)
}

// allPodsLabelled reports whether every pod that the native controller counts was observed and has its
// label.
func (d *batchDraft) allPodsLabelled(missing []PodLabel) bool {
	return !d.labelsPods() || int32(len(d.Pods)) >= d.workload.UpdatedReplicas && len(missing) == 0 //nolint:gosec // of the size of a workload
}

// podsPerBatch returns how many pods each batch up to the current one adds according to the plan.
func (d *batchDraft) podsPerBatch() []int32 {
	var added []int32
	var before int32
	for i := range d.plan.Batches[:d.status.CurrentBatch+1] {
		upTo := max(d.workload.Limit(d.plan.RollingStyle, d.plan.Batches[i].CanaryReplicas), before)
		added = append(added, upTo-before)
		before = upTo
	}
	return added
}
