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

// BatchFacts is what a Rollout reads of a BatchRelease.
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

// ToleratedUnready is how many of the updated pods may be unready. In a blue-green
// release all requests move to them at once, so all must be ready.
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

// BlocksRestore says what keeps the workload from being given back; empty if nothing does. A
// give-back that waits for the end of a release waits for pods that nobody sizes any more, too.
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

// The actions of a BatchRelease, beside Hold, RestoreWorkload and DropFinalizer.
type (
	// SetTarget tells the workload how far it may go. Metadata is for the pods of
	// an extra workload.
	SetTarget struct {
		Target
		Metadata *rollouts.PodTemplateMetadata
	}
	// DeleteExtraWorkload removes what was made beside the workload.
	DeleteExtraWorkload struct{}
	// EnableScalers enables the autoscalers of a workload that does not exist any more.
	EnableScalers struct{}
	// RestoreStrategy gives an aborted workload its owner's strategy back, still paused.
	RestoreStrategy struct{}
	// UpdateExtraStatus writes to the workload how many pods are new and ready.
	UpdateExtraStatus struct{}
	// StoreBatchStatus stores what was found out of a batch.
	StoreBatchStatus struct{ Status rollouts.BatchReleaseStatus }
	// LabelPods labels pods with the batch that brought them.
	LabelPods struct{ Labels []PodLabel }
)

func (SetTarget) effect()           {}
func (DeleteExtraWorkload) effect() {}
func (EnableScalers) effect()       {}
func (RestoreStrategy) effect()     {}
func (UpdateExtraStatus) effect()   {}
func (LabelPods) effect()           {}
func (StoreBatchStatus) effect()    {}

func (DeleteExtraWorkload) String() string { return "discard extra workload" }
func (EnableScalers) String() string       { return "enable autoscalers" }
func (RestoreStrategy) String() string     { return "rest workload" }
func (StoreBatchStatus) String() string    { return "judge batch" }
func (UpdateExtraStatus) String() string   { return "tell of pods on workload" }
func (m LabelPods) String() string {
	return fmt.Sprintf("label %d pods with their batch", len(m.Labels))
}
func (d SetTarget) String() string {
	if d.Abort {
		return "drive workload back, keeping " + d.Partition.String()
	}
	return "drive workload to " + d.Partition.String()
}

// PodLabel is the labels that a pod is to get.
type PodLabel struct {
	Pod       string
	UID       types.UID
	RolloutID string
	Batch     int32
	// Revision is that of the release.
	Revision string
}
