// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// HoldState is what the store says of a workload. Labels and annotations of the
// workload repeat some of it, for people and for clients of OpenKruise. Whoever may
// write the workload writes those too, so nothing of them is believed (ADR 19).
type HoldState struct {
	// UID is the workload that is released; empty while the store names none.
	UID types.UID
	// Holder is the Rollout whose release under way holds the workload, or empty.
	Holder string
	// Releasing reports whether something of a release is still to be done, or undone.
	Releasing bool
	// Stable is the stable revision; empty where only the pods show which it is.
	Stable string
	// StableTemplate is the digest of its template. It is known also at rest, where it is that
	// of the last revision that was released, or gone back to; empty if nothing was yet.
	StableTemplate string
	// Update is the revision that is released, or empty.
	Update Revision
	// Pinned is the revision that the Service of the release selects, or empty.
	Pinned string
	// Style is how pods are replaced.
	Style rollouts.Style
	// Batch is the uid of the BatchRelease; empty where there is none.
	Batch types.UID
	// Extra is the uid of the Deployment that was made beside the workload, or empty,
	// and Metadata is what its pods have besides the template.
	Extra    types.UID
	Metadata *rollouts.PodTemplateMetadata
	// Target is how far the workload may go; nil where it was not told.
	Target *Target
	// Unrecorded reports whether the workload may not say yet how far it may go: its batch is
	// not ready.
	Unrecorded bool
	// Restoring reports whether the workload is being given back.
	Restoring bool
}

// TargetRevision returns the revision of the target that was last written to the workload; empty if
// there is no target.
func (k HoldState) TargetRevision() Revision {
	if k.Target == nil {
		return Revision{}
	}
	return k.Target.Revision
}

// HoldStateOf is what the store says by a Rollout and its BatchRelease. Either may be
// nil: a BatchRelease says by itself all that its own passes need.
func HoldStateOf(r *rollouts.Rollout, b *rollouts.BatchRelease) HoldState {
	k := HoldState{Style: rollouts.StylePartition}
	if b != nil && (r == nil || Owns(r, b)) {
		k.addBatchRelease(b)
	}
	if r != nil {
		k.addRollout(r)
	}
	return k
}

// Owns reports whether the BatchRelease is that of the Rollout: its controller is the
// very object, by uid. The name alone says nothing: anybody may have made one of it
// before. The server lets nobody else write that reference.
func Owns(r *rollouts.Rollout, b *rollouts.BatchRelease) bool {
	return r != nil && b != nil && metav1.IsControlledBy(b, r)
}

// IsExtraWorkloadOf reports whether an object was made for the BatchRelease, beside a workload: the
// store has its uid or, until then, the BatchRelease controls it.
func IsExtraWorkloadOf(b *rollouts.BatchRelease, o metav1.Object) bool {
	return b.Status.ExtraUID != "" && b.Status.ExtraUID == o.GetUID() || metav1.IsControlledBy(o, b)
}

// BatchNameConflict says that a BatchRelease is in the way of the Rollout's own.
func BatchNameConflict(b *rollouts.BatchRelease) string {
	return fmt.Sprintf("batchrelease %s (uid %s) exists and is not this Rollout's, so that it is left alone and nothing is released; delete it if nobody needs it, or give the Rollout another name", b.Name, b.UID)
}

// Finalized reports whether a Rollout that is deleted has given everything back, and only
// finalizers of others keep it. It acts no more, and counts as gone.
func Finalized(r *rollouts.Rollout) bool {
	return HasRestoredWorkload(r) && !slices.Contains(r.Finalizers, rollouts.FinalizerRollout)
}

// HasRestoredWorkload reports whether a Rollout that is deleted has given its workload back.
func HasRestoredWorkload(r *rollouts.Rollout) bool {
	return r.DeletionTimestamp != nil && r.Status.Phase == rollouts.PhaseTerminating && r.Status.WorkloadUID == ""
}

func (k *HoldState) addBatchRelease(b *rollouts.BatchRelease) {
	plan, status := b.Spec.Plan, b.Status
	k.UID, k.Batch, k.Style = status.WorkloadUID, b.UID, cmp.Or(plan.RollingStyle, k.Style)
	k.Extra, k.Metadata = status.ExtraUID, plan.PodTemplateMetadata
	if k.Update = RevisionOfPlan(plan); k.Update == (Revision{}) {
		k.Update = Revision{status.UpdateRevision, status.UpdateTemplate}
	}
	k.Restoring, k.Releasing = plan.BatchPartition == nil, status.Phase != rollouts.PhaseCompleted
	if ref := metav1.GetControllerOf(b); ref != nil && ref.Kind == "Rollout" && !k.Restoring {
		k.Holder = ref.Name
	}
	if d := status.Drive; d != nil && status.Phase != rollouts.PhaseCompleted {
		k.Unrecorded = status.BatchState != rollouts.BatchReady
		k.Target = &Target{Partition: d.Partition, KeepOne: d.KeepOne, Least: d.Least, Abort: d.Abort, Revision: Revision{d.Revision, d.UpdateTemplate}, Owner: b.UID}
	}
	if k.Stable = plan.StableRevision; k.Stable == "" && status.Phase != rollouts.PhaseCompleted {
		k.Stable = status.StableRevision
	}
}

func (k *HoldState) addRollout(r *rollouts.Rollout) {
	k.UID = r.Status.WorkloadUID
	k.Style = rollouts.StyleFor(&r.Spec.Strategy, r.Spec.WorkloadRef)
	k.Holder = ""
	if hold := r.Status.Network; hold != nil {
		k.Pinned = hold.Pinned
	}
	p := r.Status.Active()
	if k.Releasing = p != nil && releasing(r); !k.Releasing {
		// A workload that goes back goes to the stable revision of its BatchRelease until it is given
		// back, also if the Rollout is deleted meanwhile.
		if k.Target == nil || !k.Target.Abort {
			k.Stable = ""
		}
		if p != nil && r.Status.Phase == rollouts.PhaseHealthy && p.State == rollouts.StepCompleted {
			k.StableTemplate = p.UpdateTemplate
		}
		return
	}
	k.Stable, k.StableTemplate = p.StableRevision, p.StableTemplate
	if p.UpdateRevision != "" {
		k.Update = updateRevision(*p)
	}
	if HoldsWorkload(r) {
		k.Holder = r.Name
	} else if k.Batch == "" {
		k.Restoring = true
	}
}

// releasing reports whether the status is about a release that is not over, which
// a Rollout that leaves may still have to undo.
func releasing(r *rollouts.Rollout) bool {
	switch r.Status.Phase {
	case rollouts.PhaseProgressing:
		return true
	case rollouts.PhaseDisabling, rollouts.PhaseTerminating, rollouts.PhaseInitial, rollouts.PhaseDisabled:
		return r.Status.Active().State != rollouts.StepCompleted
	default:
		return false
	}
}

// HoldsWorkload reports whether a release of the Rollout is under way, and its end has
// not begun: its workload is held, whatever is written on it.
func HoldsWorkload(r *rollouts.Rollout) bool {
	if r.Status.Phase != rollouts.PhaseProgressing {
		return false
	}
	switch r.Status.Activity() {
	case rollouts.ActivityFinalising, rollouts.ActivityCancelling, rollouts.ActivityCompleted:
		return false
	default:
		return true
	}
}
