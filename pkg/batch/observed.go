// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package batch answers what one pass over a BatchRelease does: how far the workload is
// told to go, and whether its pods are as the current batch wants them. It is pure. It must
// not know about traffic, steps or approvals.
package batch

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Observed is all that one pass over a BatchRelease knows.
type Observed struct {
	Now     time.Time
	Release *rollouts.BatchRelease
	// Owned reports whether its controller is, or was, a Rollout, and Wanted that it is the
	// one of its name, which exists.
	Owned, Wanted bool
	// Taken is the Rollout that releases the workload of a BatchRelease that is not
	// its own; empty if none does.
	Taken string
	// Workload is nil when the object does not exist.
	Workload *planner.Workload
	// DisabledScalers reports whether autoscalers of the workload are disabled.
	DisabledScalers bool
	// Trouble names pods that will not become ready, and why.
	Trouble string
	// Labels says which releases' pods are labelled.
	Labels PodLabels
	// Pods are those of the update revision, where Marks asks for them.
	Pods []Pod
}

// Plan is everything one pass over a BatchRelease decided.
type Plan struct {
	Status  rollouts.BatchReleaseStatus
	Actions []planner.Effect
	Events  []planner.Event
	// Rule names the case that decided, for logs and transcripts.
	Rule string
}

// Pod is the facts of a pod of the update revision.
type Pod struct {
	Name string
	UID  types.UID
	// Came is when it was made, or brought to its revision in place.
	Came time.Time
	// RolloutID and Batch are what its labels say; empty, or 0, if nothing.
	RolloutID string
	Batch     int32
	// Revision is what its native controller has named it, if it has.
	Revision string
}

// PodLabels says of which releases the pods are labelled with their batch.
type PodLabels string

const (
	// LabelAlways is of every release, as clients of OpenKruise expect it.
	LabelAlways PodLabels = "always"
	// LabelNamed saves a write for each pod: it is of releases that the workload
	// names, and of the blue-green style, whose clients tell the two colours apart
	// by it.
	LabelNamed PodLabels = "named"
)

// Marks reports whether the pods of a release are labelled with their batch.
func Marks(labels PodLabels, style rollouts.Style, w *planner.Workload) bool {
	return w != nil && (labels != LabelNamed || style == rollouts.StyleBlueGreen || w.RolloutID != "")
}

// Awaits names the revision whose pods a BatchRelease waits for, by its label
// value, and what they are; empty when it waits for none.
func Awaits(b *rollouts.BatchRelease, w *planner.Workload) (revision, whose string) {
	const newPods, stablePods = "new", "stable"
	switch plan := b.Spec.Plan; {
	case plan.BatchPartition == nil && (plan.FinalizingPolicy != rollouts.WaitResume || w.LiveReadyReplicas >= w.Replicas):
		return "", ""
	case plan.BatchPartition == nil && w.AtStable:
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
