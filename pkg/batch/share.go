// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// target is what the workload must be told. For one revision the share only
// grows: going back to an earlier step moves traffic, never pods.
func target(f *facts) planner.Target {
	want := batchTarget(f)
	if told := f.w.Target; told != nil && sameTarget(f, *told, want) {
		if pods(f, *told) > pods(f, want) {
			want.Partition, want.KeepOne = told.Partition, told.KeepOne
		}
		want.Least = least(f, *told, want)
	}
	if f.plan.Paused && replaces(f) && !want.Abort {
		want.Partition = stopAt(f, want)
	}
	return want
}

// sameTarget reports whether both are steps of the same way forward.
func sameTarget(f *facts, told, want planner.Target) bool {
	return told.Owner == want.Owner && f.w.Is(told.Revision) && !told.Abort && !want.Abort
}

// least is how many pods an extra workload has had of this revision, where that is more
// than its share now: as in OpenKruise it grows with the workload, and shrinks to
// nothing only. The size at which it was told is the stored one.
func least(f *facts, told, want planner.Target) int32 {
	had := max(told.Least, planner.Limit(rollouts.StyleCanary, told.Partition, f.Release.Status.ObservedWorkloadReplicas))
	if f.plan.RollingStyle != rollouts.StyleCanary || f.w.Replicas == 0 || had <= pods(f, want) {
		return 0
	}
	return had
}

// batchTarget is what the current batch is by itself.
func batchTarget(f *facts) planner.Target {
	share := shareOf(f, f.plan.Batches[f.status.CurrentBatch].CanaryReplicas)
	return planner.Target{Partition: share, KeepOne: keepsOne(f, share), Abort: f.plan.Abort, Owner: f.Release.UID, Revision: planner.Planned(f.plan)}
}

// keepsOne reports whether a share is a number of pods which was not all of them at some
// time in this batch. It is none of a smaller size either, as a percentage is not:
// the last stable pod goes when somebody has said so, not when the size changes.
func keepsOne(f *facts, share intstr.IntOrString) bool {
	if !replaces(f) || f.plan.Abort || share.Type == intstr.String {
		return false
	}
	told := f.status.Drive
	kept := !f.another && told != nil && told.KeepOne && !told.Abort && f.w.Is(planner.Revision{Name: told.Revision, Template: told.UpdateTemplate})
	return kept || share.IntVal < f.w.Replicas || f.w.Replicas <= 1
}

// stopAt is how many new pods there were when the release was paused in the middle
// of a batch, which is where it stays; at size 0 there were none.
func stopAt(f *facts, want planner.Target) intstr.IntOrString {
	if told := f.w.Target; !f.begins && f.w.Replicas > 0 && told != nil && told.Revision == want.Revision && !told.Abort {
		return told.Partition
	}
	return intstr.FromInt32(min(f.w.UpdatedReplicas, pods(f, want)))
}

// reached reports whether the pods are as the batch wants them.
func reached(f *facts) bool {
	if f.plan.Abort {
		return isBack(f)
	}
	if f.w.Replicas == 0 {
		return true
	}
	desired := pods(f, batchTarget(f))
	updated, ready := f.w.UpdatedReplicas, f.w.UpdatedReadyReplicas
	tolerated := planner.Tolerance(f.plan.RollingStyle, f.plan.FailureThreshold, updated)
	return updated >= desired && ready+tolerated >= desired && (desired == 0 || ready > 0) && (tolerated > 0 || madeRoom(f, desired))
}

// madeRoom reports whether no more pods of other revisions are asked for than are to
// stay. Where stable cannot get ready, more must.
func madeRoom(f *facts, desired int32) bool {
	others := f.w.Replicas - desired
	return !replaces(f) || f.w.StableReplicas <= others || f.w.StableReadyReplicas < others && !f.w.AtStable
}

// replaces reports whether update pods take the place of stable ones.
func replaces(f *facts) bool {
	return f.plan.RollingStyle == rollouts.StylePartition || f.plan.RollingStyle == ""
}

func limit(f *facts, share intstr.IntOrString) int32 {
	return f.w.Limit(f.plan.RollingStyle, shareOf(f, share))
}

// pods is how many pods of the update revision a workload may have.
func pods(f *facts, d planner.Target) int32 {
	if replaces(f) {
		return d.LimitOf(f.w)
	}
	return f.w.Limit(f.plan.RollingStyle, d.Partition)
}

// shareOf is a batch's share of all pods: on the way back in batches, those that
// are back already and a share of the rest.
func shareOf(f *facts, batch intstr.IntOrString) intstr.IntOrString {
	back := f.status.NoNeedUpdateReplicas
	if back == nil || f.plan.Abort || batch == intstr.FromString("100%") {
		return batch
	}
	n := min(*back, f.w.Replicas)
	return intstr.FromInt32(n + planner.Limit(f.plan.RollingStyle, batch, f.w.Replicas-n))
}

// isBack reports whether an aborted workload runs stable pods only, all of them ready.
func isBack(f *facts) bool {
	w := f.w
	return limit(f, f.plan.Batches[0].CanaryReplicas) == 0 &&
		w.UpdatedReplicas == 0 && (replaces(f) || w.SupersededReplicas == 0) && w.StableReplicas >= w.Replicas && w.StableReadyReplicas >= w.Replicas
}
