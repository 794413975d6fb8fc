// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// target returns the target to write to the workload for the current batch. For one revision the
// number of new pods only grows: going back to an earlier step moves traffic, never pods.
func (d *batchDraft) target() Target {
	target, previous := d.batchTarget(), d.workload.Target
	if previous != nil && previous.Owner == target.Owner && d.workload.HasTemplateOf(previous.Revision) && !previous.Abort && !target.Abort {
		if d.updatedLimit(*previous) > d.updatedLimit(target) {
			target.Partition, target.KeepOne = previous.Partition, previous.KeepOne
		}
		target.MinExtraReplicas = d.leastExtraPods(*previous, target)
	}
	if d.plan.Paused && d.replacesPods() && !target.Abort {
		target.Partition = d.pausedPartition(target)
	}
	return target
}

// batchTarget returns the target of the current batch, regardless of earlier targets.
func (d *batchDraft) batchTarget() Target {
	share := d.remainingShare(d.plan.Batches[d.status.CurrentBatch].CanaryReplicas)
	return Target{Partition: share, KeepOne: d.keepsOne(share), Abort: d.plan.Abort, Owner: d.Release.UID, Revision: RevisionOfPlan(d.plan)}
}

// leastExtraPods returns how many pods the extra Deployment has had, if that is more than its share
// now. As in OpenKruise, the extra Deployment grows with the workload and shrinks only to zero. The
// size for which the earlier target was written is the stored one.
func (d *batchDraft) leastExtraPods(previous, target Target) int32 {
	had := max(previous.MinExtraReplicas, Limit(rollouts.StyleCanary, previous.Partition, d.Release.Status.ObservedWorkloadReplicas))
	if d.plan.RollingStyle != rollouts.StyleCanary || d.workload.Replicas == 0 || had <= d.updatedLimit(target) {
		return 0
	}
	return had
}

// keepsOne reports whether one stable pod must stay after a scale-down. The share is a number of pods
// that was less than all pods at some time in this batch. After a scale-down the same number may be
// all pods, but the last stable pod goes only when a step says so, not because the size changed.
func (d *batchDraft) keepsOne(share intstr.IntOrString) bool {
	if !d.replacesPods() || d.plan.Abort || share.Type == intstr.String {
		return false
	}
	drive := d.status.Drive
	kept := !d.batchChanges && drive != nil && drive.KeepOne && !drive.Abort && d.workload.HasTemplateOf(Revision{Name: drive.Revision, Template: drive.UpdateTemplate})
	return kept || share.IntVal < d.workload.Replicas || d.workload.Replicas <= 1
}

// pausedPartition returns how many pods were updated when the plan was paused during a batch. The
// release stays there. A workload of size 0 has no updated pods.
func (d *batchDraft) pausedPartition(target Target) intstr.IntOrString {
	if previous := d.workload.Target; !d.planStarts && d.workload.Replicas > 0 && previous != nil && previous.Revision == target.Revision && !previous.Abort {
		return previous.Partition
	}
	return intstr.FromInt32(min(d.workload.UpdatedReplicas, d.updatedLimit(target)))
}

// targetReached reports whether the pods of the workload are as the current batch requires.
func (d *batchDraft) targetReached() bool {
	w := d.workload
	if d.plan.Abort {
		return d.isBackToStable()
	}
	if w.Replicas == 0 {
		return true
	}
	desired := d.updatedLimit(d.batchTarget())
	updated, ready := w.UpdatedReplicas, w.UpdatedReadyReplicas
	tolerated := ToleratedUnready(d.plan.RollingStyle, d.plan.FailureThreshold, updated)
	enoughReady := updated >= desired && ready+tolerated >= desired && (desired == 0 || ready > 0)
	// The old pods that the new ones replace must be gone, too, unless unready pods are tolerated or
	// the stable revision cannot get its remaining pods ready.
	others := w.Replicas - desired
	oldPodsGone := tolerated > 0 || !d.replacesPods() || w.StableReplicas <= others || w.StableReadyReplicas < others && !w.HasStableTemplate
	return enoughReady && oldPodsGone
}

// updatedLimit returns how many pods of the workload may run the update revision under a target.
func (d *batchDraft) updatedLimit(target Target) int32 {
	if d.replacesPods() {
		return target.LimitFor(d.workload)
	}
	return d.workload.Limit(d.plan.RollingStyle, target.Partition)
}

// batchLimit returns how many pods of the workload a batch of the plan allows.
func (d *batchDraft) batchLimit(batch intstr.IntOrString) int32 {
	return d.workload.Limit(d.plan.RollingStyle, d.remainingShare(batch))
}

// remainingShare returns the share of all pods that a batch means. In a rollback in batches it is the
// pods that were already back, and the batch's share of the rest.
func (d *batchDraft) remainingShare(batch intstr.IntOrString) intstr.IntOrString {
	back := d.status.NoNeedUpdateReplicas
	if back == nil || d.plan.Abort || batch == intstr.FromString("100%") {
		return batch
	}
	n := min(*back, d.workload.Replicas)
	return intstr.FromInt32(n + Limit(d.plan.RollingStyle, batch, d.workload.Replicas-n))
}

// isBackToStable reports whether an aborted workload runs only stable pods, all of them ready.
func (d *batchDraft) isBackToStable() bool {
	w := d.workload
	return d.batchLimit(d.plan.Batches[0].CanaryReplicas) == 0 && w.UpdatedReplicas == 0 &&
		(d.replacesPods() || w.SupersededReplicas == 0) && w.StableReplicas >= w.Replicas && w.StableReadyReplicas >= w.Replicas
}
