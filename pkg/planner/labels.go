// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Pod is the facts of a pod of the update revision.
type Pod struct {
	Name string
	UID  types.UID
	// Came is when it was made, or brought to its revision in place.
	Came time.Time
	// RolloutID and Batch are what its labels say; empty, or 0, if nothing.
	RolloutID string
	Batch     int32
	// Revision is what its native controller has named it, if it has.
	Revision string
}

// Mark is the labels that a pod is to get.
type Mark struct {
	Pod       string
	UID       types.UID
	RolloutID string
	Batch     int32
	// Revision is that of the release.
	Revision string
}

// MarkPods labels pods with the batch that brought them.
type MarkPods struct{ Marks []Mark }

func (MarkPods) action() {}

func (m MarkPods) String() string {
	return fmt.Sprintf("label %d pods with their batch", len(m.Marks))
}

// PodLabels says of which releases the pods are labelled with their batch.
type PodLabels string

const (
	// LabelAlways is of every release, as clients of OpenKruise expect it.
	LabelAlways PodLabels = "always"
	// LabelNamed saves a write for each pod: it is of releases that the workload
	// names, and of the blue-green style, whose clients tell the two colours apart
	// by it.
	LabelNamed PodLabels = "named"
)

// Marks reports whether the pods of a release are labelled with their batch.
func Marks(labels PodLabels, style rollouts.Style, w *Workload) bool {
	return w != nil && (labels != LabelNamed || style == rollouts.StyleBlueGreen || w.RolloutID != "")
}

// marks are the labels still to be written. Each batch has as many pods as it
// adds to the one before, by the plan and whatever is there already; pods that have
// a batch with room keep it, and of the others the youngest belong to the last one.
func (x *batchPass) marks() []Mark {
	if !x.marking() || x.comesBack() {
		return nil
	}
	room := x.additions()
	pods := slices.SortedFunc(slices.Values(x.Pods), func(a, b Pod) int { return cmp.Or(a.Came.Compare(b.Came), cmp.Compare(b.Name, a.Name)) })
	bare := slices.DeleteFunc(pods, func(p Pod) bool {
		has := p.RolloutID == x.plan.RolloutID && p.Batch >= 1 && int(p.Batch) <= len(room) && room[p.Batch-1] > 0
		if has {
			room[p.Batch-1]--
		}
		return has
	})
	slices.Reverse(bare)
	var marks []Mark
	for i := len(room) - 1; i >= 0; i-- {
		for ; room[i] > 0 && len(marks) < len(bare); room[i]-- {
			p := bare[len(marks)]
			marks = append(marks, Mark{
				Pod: p.Name, UID: p.UID, RolloutID: x.plan.RolloutID, Batch: int32(i) + 1, //nolint:gosec // batches are few
				Revision: cmp.Or(p.Revision, x.w.UpdateRevision),
			})
		}
	}
	return marks
}

func (x *batchPass) marking() bool {
	return !x.plan.Abort && x.plan.RolloutID != "" && Marks(x.Labels, x.plan.RollingStyle, x.w)
}

// comesBack reports whether pods of the batch are still on their way back to the stable
// revision. They belong to it before those that never left, and are the youngest.
func (x *batchPass) comesBack() bool {
	return x.status.NoNeedUpdateReplicas != nil && int32(len(x.Pods)) < x.limit(x.plan.Batches[x.status.CurrentBatch].CanaryReplicas) //nolint:gosec // of the size of a workload
}

// marked reports whether every pod is known and has its label. One that the native
// controller counts may be on its way to here.
func (x *batchPass) marked() bool {
	return !x.marking() || int32(len(x.Pods)) >= x.w.UpdatedReplicas && len(x.marks()) == 0 //nolint:gosec // of the size of a workload
}

// additions is how many pods each batch up to the current one adds by the plan.
func (x *batchPass) additions() []int32 {
	var adds []int32
	var before int32
	for i := range x.plan.Batches[:x.status.CurrentBatch+1] {
		upTo := max(x.w.Limit(x.plan.RollingStyle, x.plan.Batches[i].CanaryReplicas), before)
		adds = append(adds, upTo-before)
		before = upTo
	}
	return adds
}
