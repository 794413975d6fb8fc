// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "github.com/weir-rollouts/weir/pkg/apis/rollouts"

// What pods a step has, and which serve.

// plannedUpdatedReplicas is how many pods the batches may bring up already.
func plannedUpdatedReplicas(f *facts) int32 {
	b := f.Batch
	if b == nil || b.Plan.Abort || b.Plan.BatchPartition == nil || int(*b.Plan.BatchPartition) >= len(b.Plan.Batches) {
		return 0
	}
	return withoutLastStablePod(f, *b.Plan.BatchPartition, f.w.Limit(f.style, b.Plan.Batches[*b.Plan.BatchPartition].CanaryReplicas))
}

// withoutLastStablePod is so many pods of a batch, but for the stable one that the batch keeps
// whatever the size is.
func withoutLastStablePod(f *facts, batch, pods int32) int32 {
	b, d := f.Batch, f.w.Target
	if b != nil && b.Observed && b.Index == batch && d != nil && d.KeepOne && !d.Abort && f.w.Replicas > 1 {
		return min(pods, f.w.Replicas-1)
	}
	return pods
}

// targetReplicas is how many pods the workload was told to bring up, which a step to
// which the release has gone back does not take away.
func targetReplicas(f *facts) int32 {
	d := f.w.Target
	switch {
	case d == nil || d.Abort:
		return 0
	case f.replacesPods():
		return d.LimitFor(f.w)
	default:
		return f.w.Limit(f.style, d.Partition)
	}
}

// replacesAllPods reports whether after the step no stable pod is left in the workload, or
// that there is none at all.
func replacesAllPods(f *facts, step *rollouts.Step) bool {
	if f.w.Replicas == 0 {
		return true
	}
	return f.replacesPods() && step.Replicas != nil &&
		withoutLastStablePod(f, f.progress().CurrentStepIndex-1, f.w.Limit(f.style, *step.Replicas)) >= f.w.Replicas
}

// allPodsUpdated reports whether the new version is to have every pod of a workload of this size,
// at a step or at one from which the release has gone back.
func allPodsUpdated(f *facts, step *rollouts.Step) bool {
	return f.replacesPods() && f.w.Replicas > 0 && !f.w.HasStableTemplate && (replacesAllPods(f, step) || max(plannedUpdatedReplicas(f), targetReplicas(f)) >= f.w.Replicas)
}

// onlyStablePodKept reports whether a step has no pod of the new version, since the last stable one stays.
func onlyStablePodKept(f *facts, step *rollouts.Step) bool {
	return keepsOnlyStablePod(f, step) && f.w.Replicas == 1 && f.w.UpdatedReplicas == 0
}

// keepsOnlyStablePod reports whether a step would have every pod if the last stable one did not stay.
func keepsOnlyStablePod(f *facts, step *rollouts.Step) bool {
	return f.replacesPods() && step.Replicas != nil && f.w.Limit(f.style, *step.Replicas) < Limit(f.style, *step.Replicas, f.w.Replicas)
}

// stableEmpty reports whether stable has no ready pod though there should be pods.
func stableEmpty(f *facts) bool { return f.w.StableReadyReplicas == 0 && f.w.Replicas > 0 }

// scaledToZero reports whether no pod is left of a workload of size 0.
func scaledToZero(f *facts) bool {
	return f.w.Replicas == 0 && !f.w.hasPods() && !f.w.HasSurplusPods && f.w.DeletedPodsRun == ""
}

// onlyStableReady reports whether stable has ready pods and the update revision has none, so that
// requests sent there would be lost. Pods of a set that was deleted may run on.
func onlyStableReady(f *facts) bool {
	return f.w.StableReadyReplicas > 0 && servingRevision(f) == "" && f.w.DeletedPodsRun == ""
}

// onlyUpdateReady reports whether only the update revision has ready pods, so that a
// Service pinned to stable would lose every request.
func onlyUpdateReady(f *facts) bool {
	return f.w.StableReadyReplicas == 0 && f.w.UpdatedReadyReplicas > 0
}

// extraServes reports whether requests still need the pods of an extra Deployment, of any
// template.
func extraServes(f *facts) bool { return f.w != nil && f.w.ExtraNeeded != "" }

// onlyOtherReady reports whether stable has no ready pod, and other revisions have some.
func onlyOtherReady(f *facts) bool {
	return onlyUpdateReady(f) || f.w.StableReadyReplicas == 0 && extraServes(f) || f.w.StableReadyReplicas == 0 && (f.w.StableRevisionGone || !f.hasReleasedTemplate()) && f.w.SupersededReplicas > 0
}

// servingRevision is the revision that routers may send to; empty while it has no pods.
func servingRevision(f *facts) string {
	switch {
	case f.hasReleasedTemplate() && f.w.UpdatedReadyReplicas > 0:
		return f.w.PodTemplateHash
	case !f.hasReleasedTemplate() && (f.w.SupersededReplicas > 0 || f.w.HasExtraWorkload):
		return f.progress().PodTemplateHash
	default:
		return ""
	}
}

// updateShare is the least share of traffic that must stay on the update
// revision, since stable cannot take more yet.
func updateShare(f *facts) int32 {
	w := f.w
	if w.Replicas <= 0 {
		return 0
	}
	able := 100 * min(w.StableReadyReplicas+w.MaxUnavailable+w.SupersededKept, w.Replicas) / w.Replicas
	return 100 - able
}
