// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// What a release asks of its batches.

// planForStep is the release plan up to a step.
func planForStep(f *facts, step int32) rollouts.ReleasePlan {
	partition := step - 1
	plan := rollouts.ReleasePlan{
		BatchPartition:   &partition,
		RolloutID:        f.progress().ObservedRolloutID,
		FailureThreshold: f.release.FailureThreshold,
		RollingStyle:     f.style,
		StableRevision:   f.progress().StableRevision,
	}
	plan.Revision, plan.UpdateTemplate = f.revision().Name, f.revision().Template
	if f.style == rollouts.StyleCanary {
		plan.PodTemplateMetadata, plan.ExtraWorkload = f.release.PodTemplateMetadata, true
	}
	if s := f.release.Step(step); s != nil && f.w.Replicas == 0 {
		plan.Paused = pinsStable(f, s)
	}
	plan.Batches = BatchesOf(f.release)
	if f.progress().FullyPromoted && noPodsServe(f) {
		// The native controller gives the first ReplicaSet that has a pod all of them, so that
		// no step can be kept. Until somebody promotes in full, no pod is made.
		for i := range plan.Batches {
			plan.Batches[i].CanaryReplicas = allPods
		}
	}
	return plan
}

// BatchesOf are the batches of a release.
func BatchesOf(release *rollouts.Release) []rollouts.Batch {
	var batches []rollouts.Batch
	for _, s := range release.Steps {
		if s.Replicas != nil {
			batches = append(batches, rollouts.Batch{CanaryReplicas: *s.Replicas})
		}
	}
	return batches
}

// restorePlan gives the workload back: while its template is of the revision, or
// whatever it is when the Rollout leaves.
func restorePlan(f *facts, policy rollouts.FinalizingPolicy, revision Revision, keepPaused bool) rollouts.ReleasePlan {
	p := f.progress()
	plan := rollouts.ReleasePlan{RollingStyle: f.style, RolloutID: p.ObservedRolloutID}
	if f.Batch != nil {
		plan = f.Batch.Plan
	}
	plan.BatchPartition, plan.FinalizingPolicy, plan.Abort = nil, policy, keepPaused
	plan.Revision, plan.UpdateTemplate = revision.Name, revision.Template
	plan.StableRevision = p.StableRevision
	return plan
}

// abortPlan brings all pods of stable back, and keeps some of the update revision. With a
// revision it is meant for that template only.
func abortPlan(f *facts, keep int32, revision Revision) rollouts.ReleasePlan {
	p := f.progress()
	return rollouts.ReleasePlan{
		Batches: []rollouts.Batch{{CanaryReplicas: intstr.FromInt32(keep)}}, BatchPartition: new(int32), RolloutID: p.ObservedRolloutID,
		RollingStyle: f.style, Abort: true, Revision: revision.Name, UpdateTemplate: revision.Template, StableRevision: p.StableRevision,
	}
}

// remainingBatchAbort is what is left until the batches have brought all pods back.
func remainingBatchAbort(f *facts, plan rollouts.ReleasePlan) remainingWork {
	switch b := f.Batch; {
	case b != nil && b.Terminating:
		return remainingWork{waits: true}
	case b == nil || BatchPlanHash(b.Plan) != BatchPlanHash(plan):
		return remainingWork{action: RunBatch{Plan: plan}}
	default:
		return remainingWork{waits: !b.Observed || b.State != rollouts.BatchReady}
	}
}

// isForward reports whether a batch is there for a step, whether it is stopped or not.
func (b *Batch) isForward() bool {
	return b != nil && !b.Terminating && !b.Plan.Abort && b.Plan.BatchPartition != nil
}

// isRunning reports whether a batch brings up pods.
func (b *Batch) isRunning() bool {
	return b.isForward() && !b.Plan.Paused && (!b.Observed || b.State != rollouts.BatchReady)
}
