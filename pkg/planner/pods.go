// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "github.com/weir-rollouts/weir/pkg/apis/rollouts"

// This file counts the pods that a step plans, and tells which revisions have ready pods.

// plannedUpdatedReplicas returns how many pods of the update revision the plan of the BatchRelease allows.
func plannedUpdatedReplicas(f facts) int32 {
	b := f.Batch
	if b == nil || b.Plan.Abort || b.Plan.BatchPartition == nil || int(*b.Plan.BatchPartition) >= len(b.Plan.Batches) {
		return 0
	}
	return withoutLastStablePod(f, *b.Plan.BatchPartition, f.w.Limit(f.style, b.Plan.Batches[*b.Plan.BatchPartition].CanaryReplicas))
}

// withoutLastStablePod returns pods, the number of updated pods of a batch, reduced so that one stable pod
// stays if the stored target of this batch demands it (Target.KeepOne).
func withoutLastStablePod(f facts, batch, pods int32) int32 {
	b, target := f.Batch, f.w.Target
	if b != nil && b.Observed && b.Index == batch && target != nil && target.KeepOne && !target.Abort && f.w.Replicas > 1 {
		return min(pods, f.w.Replicas-1)
	}
	return pods
}

// targetReplicas returns how many pods of the update revision the target of the workload allows. A jump
// back to an earlier step does not reduce the target.
func targetReplicas(f facts) int32 {
	target := f.w.Target
	switch {
	case target == nil || target.Abort:
		return 0
	case f.replacesPods():
		return target.LimitFor(f.w)
	default:
		return f.w.Limit(f.style, target.Partition)
	}
}

// replacesAllPods reports whether no stable pod is left after the step. This is also so for a workload of
// size 0.
func replacesAllPods(f facts, step *rollouts.Step) bool {
	if f.w.Replicas == 0 {
		return true
	}
	return f.replacesPods() && step.Replicas != nil &&
		withoutLastStablePod(f, f.progress().CurrentStepIndex-1, f.w.Limit(f.style, *step.Replicas)) >= f.w.Replicas
}

// allPodsUpdated reports whether the new version gets every pod of the workload, either at this step or
// at a later step from which the release has jumped back.
func allPodsUpdated(f facts, step *rollouts.Step) bool {
	return f.replacesPods() && f.w.Replicas > 0 && !f.w.HasStableTemplate && (replacesAllPods(f, step) || max(plannedUpdatedReplicas(f), targetReplicas(f)) >= f.w.Replicas)
}

// onlyStablePodKept reports whether the step has no pod of the new version, because the workload has one
// pod, and this last stable pod stays.
func onlyStablePodKept(f facts, step *rollouts.Step) bool {
	return keepsOnlyStablePod(f, step) && f.w.Replicas == 1 && f.w.UpdatedReplicas == 0
}

// keepsOnlyStablePod reports whether the step would replace every pod, but the last stable pod stays.
func keepsOnlyStablePod(f facts, step *rollouts.Step) bool {
	return f.replacesPods() && step.Replicas != nil && f.w.Limit(f.style, *step.Replicas) < Limit(f.style, *step.Replicas, f.w.Replicas)
}

// stableEmpty reports whether a workload with a size above 0 has no ready stable pod.
func stableEmpty(f facts) bool { return f.w.StableReadyReplicas == 0 && f.w.Replicas > 0 }

// scaledToZero reports whether the workload has size 0 and no pod is left.
func scaledToZero(f facts) bool {
	return f.w.Replicas == 0 && !f.w.hasPods() && !f.w.HasSurplusPods && f.w.DeletedPodsRun == ""
}

// onlyStableReady reports whether only the stable revision has ready pods, so that requests to the update
// revision would fail. It is false while pods of a deleted ReplicaSet run.
func onlyStableReady(f facts) bool {
	return f.w.StableReadyReplicas > 0 && servingRevision(f) == "" && f.w.DeletedPodsRun == ""
}

// onlyUpdateReady reports whether only the update revision has ready pods, so that a Service pinned to the
// stable revision would fail every request.
func onlyUpdateReady(f facts) bool {
	return f.w.StableReadyReplicas == 0 && f.w.UpdatedReadyReplicas > 0
}

// extraPodsServe reports whether requests still need the pods of the extra Deployment, of whatever template.
func extraPodsServe(f facts) bool { return f.w != nil && f.w.Extra.Needed != "" }

// onlyOtherReady reports whether the stable revision has no ready pod, and another revision has some.
func onlyOtherReady(f facts) bool {
	return onlyUpdateReady(f) || f.w.StableReadyReplicas == 0 && extraPodsServe(f) || f.w.StableReadyReplicas == 0 && (f.w.StableRevisionGone || !f.hasReleasedTemplate()) && f.w.SupersededReplicas > 0
}

// servingRevision returns the revision to which routers may send requests of the step; empty while it has no pods.
func servingRevision(f facts) string {
	switch {
	case f.hasReleasedTemplate() && f.w.UpdatedReadyReplicas > 0:
		return f.w.PodTemplateHash
	case !f.hasReleasedTemplate() && (f.w.SupersededReplicas > 0 || f.w.Extra.Exists):
		return f.progress().PodTemplateHash
	default:
		return ""
	}
}

// updateShare returns the smallest percentage of requests that must stay on the update revision, because
// the stable revision has too few ready pods for the rest.
func updateShare(f facts) int32 {
	w := f.w
	if w.Replicas <= 0 {
		return 0
	}
	stableShare := 100 * min(w.StableReadyReplicas+w.MaxUnavailable+w.SupersededKept, w.Replicas) / w.Replicas
	return 100 - stableShare
}
