// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// want is what the workload must be told. For one revision the share only
// grows: going back to an earlier step moves traffic, never pods.
func (x *batchPass) want() Target {
	want := x.batch()
	if told := x.w.Target; told != nil && x.sameTarget(*told, want) {
		if x.pods(*told) > x.pods(want) {
			want.Partition, want.KeepOne = told.Partition, told.KeepOne
		}
		want.Least = x.least(*told, want)
	}
	if x.plan.Paused && x.replaces() && !want.Abort {
		want.Partition = x.stopAt(want)
	}
	return want
}

// sameTarget reports whether both are steps of the same way forward.
func (x *batchPass) sameTarget(told, want Target) bool {
	return told.Owner == want.Owner && x.w.Is(told.Revision) && !told.Abort && !want.Abort
}

// least is how many pods an extra workload has had of this revision, where that is more
// than its share now: as in OpenKruise it grows with the workload, and shrinks to
// nothing only. The size at which it was told is the stored one.
func (x *batchPass) least(told, want Target) int32 {
	had := max(told.Least, Limit(rollouts.StyleCanary, told.Partition, x.Release.Status.ObservedWorkloadReplicas))
	if x.plan.RollingStyle != rollouts.StyleCanary || x.w.Replicas == 0 || had <= x.pods(want) {
		return 0
	}
	return had
}

// batch is what the current batch is by itself.
func (x *batchPass) batch() Target {
	share := x.share(x.plan.Batches[x.status.CurrentBatch].CanaryReplicas)
	return Target{Partition: share, KeepOne: x.keepsOne(share), Abort: x.plan.Abort, Owner: x.Release.UID, Revision: x.plan.Revision}
}

// keepsOne reports whether a share is a number of pods which was not all of them at some
// time in this batch. It is none of a smaller size either, as a percentage is not:
// the last stable pod goes when somebody has said so, not when the size changes.
func (x *batchPass) keepsOne(share intstr.IntOrString) bool {
	if !x.replaces() || x.plan.Abort || share.Type == intstr.String {
		return false
	}
	told := x.status.Drive
	kept := !x.another && told != nil && told.KeepOne && !told.Abort && x.w.Is(told.Revision)
	return kept || share.IntVal < x.w.Replicas || x.w.Replicas <= 1
}

// stopAt is how many new pods there were when the release was paused in the middle
// of a batch, which is where it stays; at size 0 there were none.
func (x *batchPass) stopAt(want Target) intstr.IntOrString {
	if told := x.w.Target; !x.begins && x.w.Replicas > 0 && told != nil && told.Revision == want.Revision && !told.Abort {
		return told.Partition
	}
	return intstr.FromInt32(min(x.w.UpdatedReplicas, x.pods(want)))
}

// reached reports whether the pods are as the batch wants them.
func (x *batchPass) reached() bool {
	if x.plan.Abort {
		return x.back()
	}
	if x.w.Replicas == 0 {
		return true
	}
	desired := x.pods(x.batch())
	updated, ready := x.w.UpdatedReplicas, x.w.UpdatedReadyReplicas
	tolerated := tolerance(x.plan.RollingStyle, x.plan.FailureThreshold, updated)
	return updated >= desired && ready+tolerated >= desired && (desired == 0 || ready > 0) && (tolerated > 0 || x.madeRoom(desired))
}

// madeRoom reports whether no more pods of other revisions are asked for than are to
// stay. Where stable cannot get ready, more must.
func (x *batchPass) madeRoom(desired int32) bool {
	others := x.w.Replicas - desired
	return !x.replaces() || x.w.StableReplicas <= others || x.w.StableReadyReplicas < others && !x.w.AtStable
}

// replaces reports whether update pods take the place of stable ones.
func (x *batchPass) replaces() bool {
	return x.plan.RollingStyle == rollouts.StylePartition || x.plan.RollingStyle == ""
}

func (x *batchPass) limit(share intstr.IntOrString) int32 {
	return x.w.Limit(x.plan.RollingStyle, x.share(share))
}

// pods is how many pods of the update revision a workload may have.
func (x *batchPass) pods(d Target) int32 {
	if x.replaces() {
		return d.LimitOf(x.w)
	}
	return x.w.Limit(x.plan.RollingStyle, d.Partition)
}

// share is a batch's share of all pods: on the way back in batches, those that
// are back already and a share of the rest.
func (x *batchPass) share(batch intstr.IntOrString) intstr.IntOrString {
	back := x.status.NoNeedUpdateReplicas
	if back == nil || x.plan.Abort || batch == intstr.FromString("100%") {
		return batch
	}
	n := min(*back, x.w.Replicas)
	return intstr.FromInt32(n + Limit(x.plan.RollingStyle, batch, x.w.Replicas-n))
}

// back reports whether an aborted workload runs stable pods only, all of them ready.
func (x *batchPass) back() bool {
	w := x.w
	return x.limit(x.plan.Batches[0].CanaryReplicas) == 0 &&
		w.UpdatedReplicas == 0 && (x.replaces() || w.SupersededReplicas == 0) && w.StableReplicas >= w.Replicas && w.StableReadyReplicas >= w.Replicas
}

// tolerance is how many of the updated pods may be unready. In a blue-green
// release all requests move to them at once, so all must be ready.
func tolerance(style rollouts.Style, threshold *intstr.IntOrString, updated int32) int32 {
	if threshold == nil || style == rollouts.StyleBlueGreen {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(threshold, int(updated), true)
	if err != nil {
		return 0
	}
	return max(int32(n), 0) //nolint:gosec // bounded by updated
}

// keptFrom says what keeps the workload from being given back; empty if nothing does.
// Who waits for the end of a release waits for pods that nobody sizes any more, too.
func (w *Workload) keptFrom(wait, keepPaused bool) string {
	switch {
	case w.TakenFor != "" && !keepPaused:
		return w.TakenFor
	case wait:
		return w.RunsOn
	default:
		return ""
	}
}
