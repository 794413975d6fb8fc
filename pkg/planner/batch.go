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
		Terminating: b.DeletionTimestamp != nil && BatchGuarded(b), Kept: b.DeletionTimestamp != nil && !BatchGuarded(b),
	}
}

// BatchGuarded reports whether a BatchRelease has the finalizer of its controller.
func BatchGuarded(b *rollouts.BatchRelease) bool {
	return slices.Contains(b.Finalizers, rollouts.FinalizerBatchRelease)
}

// Tolerance is how many of the updated pods may be unready. In a blue-green
// release all requests move to them at once, so all must be ready.
func Tolerance(style rollouts.Style, threshold *intstr.IntOrString, updated int32) int32 {
	if threshold == nil || style == rollouts.StyleBlueGreen {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(threshold, int(updated), true)
	if err != nil {
		return 0
	}
	return max(int32(n), 0) //nolint:gosec // bounded by updated
}

// KeptFrom says what keeps the workload from being given back; empty if nothing does. A
// give-back that waits for the end of a release waits for pods that nobody sizes any more, too.
func (w *Workload) KeptFrom(wait, keepPaused bool) string {
	switch {
	case w.Adoptable != "" && !keepPaused:
		return w.Adoptable
	case wait:
		return w.StillRuns
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
	// Discard removes what was made beside the workload.
	Discard struct{}
	// EnableScalers enables the autoscalers of a workload that does not exist any more.
	EnableScalers struct{}
	// RestoreStrategy gives an aborted workload its owner's strategy back, still paused.
	RestoreStrategy struct{}
	// Tell writes to the workload how many pods are new and ready.
	Tell struct{}
	// JudgeBatch stores what was found out of a batch.
	JudgeBatch struct{ Status rollouts.BatchReleaseStatus }
	// MarkPods labels pods with the batch that brought them.
	MarkPods struct{ Marks []Mark }
)

func (SetTarget) effect()       {}
func (Discard) effect()         {}
func (EnableScalers) effect()   {}
func (RestoreStrategy) effect() {}
func (Tell) effect()            {}
func (MarkPods) effect()        {}
func (JudgeBatch) effect()      {}

func (Discard) String() string         { return "discard extra workload" }
func (EnableScalers) String() string   { return "enable autoscalers" }
func (RestoreStrategy) String() string { return "rest workload" }
func (JudgeBatch) String() string      { return "judge batch" }
func (Tell) String() string            { return "tell of pods on workload" }
func (m MarkPods) String() string      { return fmt.Sprintf("label %d pods with their batch", len(m.Marks)) }
func (d SetTarget) String() string {
	if d.Abort {
		return "drive workload back, keeping " + d.Partition.String()
	}
	return "drive workload to " + d.Partition.String()
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
