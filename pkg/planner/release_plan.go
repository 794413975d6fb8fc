// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// This file makes the plans that a Rollout writes into its BatchRelease.

// planForStep returns the plan of the BatchRelease that brings the workload to a step.
func planForStep(f facts, step int32) rollouts.ReleasePlan {
	partition := step - 1
	plan := rollouts.ReleasePlan{
		BatchPartition:   &partition,
		RolloutID:        f.progress().ObservedRolloutID,
		FailureThreshold: f.plan.FailureThreshold,
		RollingStyle:     f.style,
		StableRevision:   f.progress().StableRevision,
	}
	plan.Revision, plan.UpdateTemplate = f.revision().Name, f.revision().Template
	if f.style == rollouts.StyleCanary {
		plan.PodTemplateMetadata, plan.ExtraWorkload = f.plan.PodTemplateMetadata, true
	}
	if s := f.plan.Step(step); s != nil && f.w.Replicas == 0 {
		plan.Paused = pinsStable(f, s)
	}
	plan.Batches = BatchesOf(f.plan)
	if f.progress().FullyPromoted && noPodsServe(f) {
		// No pod serves, so the native controller would scale the first ReplicaSet that has a pod to the whole
		// size of the workload. No step could limit that, so no pod was created until a user has now promoted the
		// release with full: true. Every batch is all pods.
		for i := range plan.Batches {
			plan.Batches[i].CanaryReplicas = allPods
		}
	}
	return plan
}

// BatchesOf returns the batches of the steps of a release.
func BatchesOf(release *rollouts.Release) []rollouts.Batch {
	var batches []rollouts.Batch
	for _, s := range release.Steps {
		if s.Replicas != nil {
			batches = append(batches, rollouts.Batch{CanaryReplicas: *s.Replicas})
		}
	}
	return batches
}

// restorePlan returns the plan that returns the workload to its native controller. The plan applies only while
// the workload has the template of the revision. The empty revision stands for any template. In this plan Abort
// means that the workload stays paused.
func restorePlan(f facts, policy rollouts.FinalizingPolicy, revision Revision, keepPaused bool) rollouts.ReleasePlan {
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

// abortPlan returns the plan that returns all pods to the stable revision, except keep pods of the update
// revision. The plan applies only while the workload has the template of the revision. The empty
// revision stands for any template.
func abortPlan(f facts, keep int32, revision Revision) rollouts.ReleasePlan {
	p := f.progress()
	return rollouts.ReleasePlan{
		Batches: []rollouts.Batch{{CanaryReplicas: intstr.FromInt32(keep)}}, BatchPartition: new(int32), RolloutID: p.ObservedRolloutID,
		RollingStyle: f.style, Abort: true, Revision: revision.Name, UpdateTemplate: revision.Template, StableRevision: p.StableRevision,
	}
}

// remainingBatchAbort returns the work that remains until the BatchRelease has returned all pods.
func remainingBatchAbort(f facts, plan rollouts.ReleasePlan) remainingWork {
	switch b := f.Batch; {
	case b != nil && b.Terminating:
		return remainingWork{waits: true}
	case b == nil || BatchPlanHash(b.Plan) != BatchPlanHash(plan):
		return remainingWork{action: RunBatch{Plan: plan}}
	default:
		return remainingWork{waits: !b.Observed || b.State != rollouts.BatchReady}
	}
}

// isForward reports whether the BatchRelease brings the workload to a step. It may be paused.
func (b *Batch) isForward() bool {
	return b != nil && !b.Terminating && !b.Plan.Abort && b.Plan.BatchPartition != nil
}

// isRunning reports whether the current batch is incomplete and not paused.
func (b *Batch) isRunning() bool {
	return b.isForward() && !b.Plan.Paused && (!b.Observed || b.State != rollouts.BatchReady)
}
