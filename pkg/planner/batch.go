// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// BatchFacts returns the facts of a BatchRelease that the decision about its Rollout needs.
func BatchFacts(b *rollouts.BatchRelease) *Batch {
	s := b.Status
	return &Batch{
		Plan:     b.Spec.Plan,
		Observed: s.ObservedGeneration >= b.Generation && s.ObservedReleasePlanHash == BatchPlanHash(b.Spec.Plan),
		Phase:    s.Phase, State: s.BatchState, Index: s.CurrentBatch,
		UpdatedReplicas: s.UpdatedReplicas, UpdatedReadyReplicas: s.UpdatedReadyReplicas,
		Message:     s.Message,
		Terminating: b.DeletionTimestamp != nil && HasBatchFinalizer(b), KeptByOtherFinalizers: b.DeletionTimestamp != nil && !HasBatchFinalizer(b),
	}
}

// HasBatchFinalizer reports whether a BatchRelease has the finalizer of its controller.
func HasBatchFinalizer(b *rollouts.BatchRelease) bool {
	return slices.Contains(b.Finalizers, rollouts.FinalizerBatchRelease)
}

// ToleratedUnready returns how many of the updated pods may be unready. In a blue-green release all requests
// move to the updated pods at once, so all of them must be ready.
func ToleratedUnready(style rollouts.Style, threshold *intstr.IntOrString, updated int32) int32 {
	if threshold == nil || style == rollouts.StyleBlueGreen {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(threshold, int(updated), true)
	if err != nil {
		return 0
	}
	return max(int32(n), 0) //nolint:gosec // bounded by updated
}

// BlocksRestore returns what prevents the workload from being restored; empty if nothing does. At the end of
// a release, the restore also waits for the pods of a deleted ReplicaSet, which nobody scales any more.
func (w *Workload) BlocksRestore(wait, keepPaused bool) string {
	switch {
	case w.AdoptableSet != "" && !keepPaused:
		return w.AdoptableSet
	case wait:
		return w.DeletedPodsRun
	default:
		return ""
	}
}

// The effects of a BatchRelease. HoldWorkload, RestoreWorkload and RemoveFinalizer are effects of both a
// BatchRelease and a Rollout.
type (
	// SetTarget sets how many pods of the workload may run the update revision. Metadata is for the pods
	// of an extra Deployment.
	SetTarget struct {
		Target
		Metadata *rollouts.PodTemplateMetadata
	}
	// DeleteExtraWorkload deletes the extra Deployment of the canary style.
	DeleteExtraWorkload struct{}
	// EnableScalers enables the autoscalers of a workload that does not exist.
	EnableScalers struct{}
	// RestoreStrategy restores the owner's strategy of an aborted workload, which stays paused.
	RestoreStrategy struct{}
	// UpdateExtraStatus writes to the workload how many of its pods are updated and ready.
	UpdateExtraStatus struct{}
	// StoreBatchStatus stores the status of the BatchRelease.
	StoreBatchStatus struct{ Status rollouts.BatchReleaseStatus }
	// LabelPods labels pods with the number of their batch.
	LabelPods struct{ Labels []PodLabel }
)

func (SetTarget) effect()           {}
func (DeleteExtraWorkload) effect() {}
func (EnableScalers) effect()       {}
func (RestoreStrategy) effect()     {}
func (UpdateExtraStatus) effect()   {}
func (LabelPods) effect()           {}
func (StoreBatchStatus) effect()    {}

func (DeleteExtraWorkload) String() string { return "delete extra Deployment" }
func (EnableScalers) String() string       { return "enable autoscalers" }
func (RestoreStrategy) String() string     { return "restore owner's strategy" }
func (StoreBatchStatus) String() string    { return "store batch status" }
func (UpdateExtraStatus) String() string   { return "publish pod counts on workload" }
func (m LabelPods) String() string {
	return fmt.Sprintf("label %d pods with their batch", len(m.Labels))
}
func (d SetTarget) String() string {
	if d.Abort {
		return "return workload to stable, keeping " + d.Partition.String()
	}
	return "set target of workload: " + d.Partition.String()
}

// PodLabel has the labels that a pod gets.
type PodLabel struct {
	Pod       string
	UID       types.UID
	RolloutID string
	Batch     int32
	// Revision is the update revision of the release.
	Revision string
}
