// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// BatchInput is everything that DecideBatch knows about one BatchRelease.
type BatchInput struct {
	Now     time.Time
	Release *rollouts.BatchRelease
	// OwnedByRollout reports whether the controller of the BatchRelease is, or was, a Rollout.
	OwnedByRollout bool
	// RolloutExists reports whether that Rollout still exists and uses this BatchRelease.
	RolloutExists bool
	// ReleasedBy is the name of another Rollout that releases the same workload; empty if there is
	// none.
	ReleasedBy string
	// Workload is nil if the object does not exist.
	Workload *Workload
	// DisabledScalers reports whether autoscalers of the workload are disabled.
	DisabledScalers bool
	// PodProblem is why pods that the batch waits for are not ready.
	PodProblem PodProblem
	// Labels selects the releases whose pods get labels.
	Labels PodLabels
	// Pods are the pods of the update revision, if LabelsPods reports that they get labels.
	Pods []UpdatedPod
}

// PodProblem is why pods are not ready. The zero value means that no cause is known.
type PodProblem struct {
	// Message counts the pods by cause.
	Message string
	// Failing is the reason of the condition Failing; empty if the cause may go away by waiting.
	Failing rollouts.FailingReason
}

// BatchDecision is the next status of a BatchRelease and what must be done to reach it.
type BatchDecision struct {
	Status  rollouts.BatchReleaseStatus
	Effects []Effect
	Events  []Event
	// Rule names the case that decided, for logs and transcripts.
	Rule string
}

// UpdatedPod is a pod of the update revision.
type UpdatedPod struct {
	Name string
	UID  types.UID
	// UpdatedAt is when the pod was created, or was updated in place to the update revision.
	UpdatedAt time.Time
	// RolloutID and Batch are the values of the labels of the pod; empty and 0 without labels.
	RolloutID string
	Batch     int32
	// Revision is the revision label that the native controller has set; empty if it has set none.
	Revision string
}

// PodLabels selects the releases whose pods are labelled with the number of their batch.
type PodLabels string

const (
	// LabelAlways labels the pods of every release, as OpenKruise does.
	LabelAlways PodLabels = "always"
	// LabelNamed saves one write per pod. It labels the pods of a release that has a rollout ID on
	// its workload, and of every blue-green release, because clients distinguish the two versions
	// of a blue-green release by the labels.
	LabelNamed PodLabels = "named"
)

// LabelsPods reports whether the pods of a release are labelled with the number of their batch.
func LabelsPods(labels PodLabels, style rollouts.Style, w *Workload) bool {
	return w != nil && (labels != LabelNamed || style == rollouts.StyleBlueGreen || w.RolloutID != "")
}

// AwaitedPods returns the revision whose pods a BatchRelease waits for, as a label value, and
// whether these pods are "new" or "stable". It returns empty strings if the BatchRelease waits for no
// pods.
func AwaitedPods(b *rollouts.BatchRelease, w *Workload) (revision, version string) {
	const newPods, stablePods = "new", "stable"
	switch plan := b.Spec.Plan; {
	case plan.BatchPartition == nil && (plan.FinalizingPolicy != rollouts.WaitResume || w.LiveReadyReplicas >= w.Replicas):
		return "", ""
	case plan.BatchPartition == nil && w.HasStableTemplate:
		return w.LiveRevision, stablePods
	case plan.BatchPartition == nil:
		return w.LiveRevision, newPods
	case b.Status.BatchState == rollouts.BatchReady:
		return "", ""
	case !plan.Abort:
		return w.PodTemplateHash, newPods
	case w.StableReadyReplicas < w.Replicas:
		return w.StableRevision, stablePods
	default:
		return "", ""
	}
}
