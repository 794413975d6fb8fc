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

// HoldState is the state of a held workload according to the stored status of its Rollout and
// BatchRelease. Labels and annotations of the workload repeat some of it for people and for
// clients of OpenKruise. Every user who may write the workload can change them, so Weir never
// reads decisions from them (ADR 19).
type HoldState struct {
	// UID is the UID of the workload that is released; empty until it is stored.
	UID types.UID
	// Holder is the name of the Rollout whose current release holds the workload; empty if none does.
	Holder string
	// Releasing reports whether a release is unfinished, or has to be undone.
	Releasing bool
	// Stable is the stable revision; empty if no status has it. Then the pods show which it is.
	Stable string
	// StableTemplate is the digest of the template of the stable revision. Between releases, it is
	// the digest of the last revision that was released or restored; empty before the first release.
	StableTemplate string
	// Update is the revision that is released; empty if there is none.
	Update Revision
	// Pinned is the revision that the stable Service selects; empty if it selects every revision.
	Pinned string
	// Style is the release style: partition, canary or blue-green.
	Style rollouts.Style
	// Batch is the UID of the BatchRelease; empty if there is none.
	Batch types.UID
	// Extra is the UID of the extra (canary) Deployment; empty if there is none.
	Extra types.UID
	// Metadata is added to the pods of the extra Deployment.
	Metadata *rollouts.PodTemplateMetadata
	// Target is how many pods may run the update revision; nil if no target is stored.
	Target *Target
	// Unrecorded reports whether the annotations of the workload may lack Target, because the
	// batch is not ready.
	Unrecorded bool
	// Restoring reports whether the workload is being returned to its native controller.
	Restoring bool
}

// TargetRevision returns the revision of the target that was last written to the workload; empty if
// there is no target.
func (h HoldState) TargetRevision() Revision {
	if h.Target == nil {
		return Revision{}
	}
	return h.Target.Revision
}

// HoldStateOf returns the hold state that a Rollout and its BatchRelease store. Either may be nil:
// reconciles of a BatchRelease need nothing from the Rollout.
func HoldStateOf(r *rollouts.Rollout, b *rollouts.BatchRelease) HoldState {
	h := HoldState{Style: rollouts.StylePartition}
	if b != nil && (r == nil || Owns(r, b)) {
		h.addBatchRelease(b)
	}
	if r != nil {
		h.addRollout(r)
	}
	return h
}

// Owns reports whether the BatchRelease belongs to the Rollout, by the UID in its controller
// reference. The name is not enough: a user may have created a BatchRelease with this name
// before. The API server lets only Weir write the controller reference.
func Owns(r *rollouts.Rollout, b *rollouts.BatchRelease) bool {
	return r != nil && b != nil && metav1.IsControlledBy(b, r)
}

// IsExtraWorkloadOf reports whether an object is the extra Deployment of the BatchRelease: the status
// has its UID or, before the UID is stored, the BatchRelease is its controller.
func IsExtraWorkloadOf(b *rollouts.BatchRelease, o metav1.Object) bool {
	return b.Status.ExtraUID != "" && b.Status.ExtraUID == o.GetUID() || metav1.IsControlledBy(o, b)
}

// BatchNameConflict returns the message that another BatchRelease has the name which the Rollout needs.
func BatchNameConflict(b *rollouts.BatchRelease) string {
	return fmt.Sprintf("batchrelease %s (uid %s) exists and belongs to another owner, so nothing is released; delete it if it is not needed, or give the Rollout another name", b.Name, b.UID)
}

// Finalized reports whether a deleted Rollout has restored everything, and only finalizers of others
// keep it. Weir no longer reconciles it and treats it as gone.
func Finalized(r *rollouts.Rollout) bool {
	return HasRestoredWorkload(r) && !slices.Contains(r.Finalizers, rollouts.FinalizerRollout)
}

// HasRestoredWorkload reports whether a deleted Rollout has returned its workload to the native controller.
func HasRestoredWorkload(r *rollouts.Rollout) bool {
	return r.DeletionTimestamp != nil && r.Status.Phase == rollouts.PhaseTerminating && r.Status.WorkloadUID == ""
}

// addBatchRelease sets the fields that the BatchRelease stores.
func (h *HoldState) addBatchRelease(b *rollouts.BatchRelease) {
	plan, status := b.Spec.Plan, b.Status
	h.UID, h.Batch, h.Style = status.WorkloadUID, b.UID, cmp.Or(plan.RollingStyle, h.Style)
	h.Extra, h.Metadata = status.ExtraUID, plan.PodTemplateMetadata
	if h.Update = RevisionOfPlan(plan); h.Update == (Revision{}) {
		h.Update = Revision{status.UpdateRevision, status.UpdateTemplate}
	}
	h.Restoring, h.Releasing = plan.BatchPartition == nil, status.Phase != rollouts.PhaseCompleted
	if ref := metav1.GetControllerOf(b); ref != nil && ref.Kind == "Rollout" && !h.Restoring {
		h.Holder = ref.Name
	}
	if drive := status.Drive; drive != nil && status.Phase != rollouts.PhaseCompleted {
		h.Unrecorded = status.BatchState != rollouts.BatchReady
		h.Target = &Target{Partition: drive.Partition, KeepOne: drive.KeepOne, MinExtraReplicas: drive.Least, Abort: drive.Abort, Revision: Revision{drive.Revision, drive.UpdateTemplate}, Owner: b.UID}
	}
	if h.Stable = plan.StableRevision; h.Stable == "" && status.Phase != rollouts.PhaseCompleted {
		h.Stable = status.StableRevision
	}
}

// addRollout sets the fields that the Rollout stores. They take precedence over the fields of the
// BatchRelease.
func (h *HoldState) addRollout(r *rollouts.Rollout) {
	h.UID = r.Status.WorkloadUID
	h.Style = rollouts.StyleFor(&r.Spec.Strategy, r.Spec.WorkloadRef)
	h.Holder = ""
	if hold := r.Status.Network; hold != nil {
		h.Pinned = hold.Pinned
	}
	p := r.Status.Active()
	if h.Releasing = p != nil && releasing(r); !h.Releasing {
		// An abort continues to the stable revision of its BatchRelease until the workload is restored,
		// even if the Rollout is deleted meanwhile.
		if h.Target == nil || !h.Target.Abort {
			h.Stable = ""
		}
		if p != nil && r.Status.Phase == rollouts.PhaseHealthy && p.State == rollouts.StepCompleted {
			h.StableTemplate = p.UpdateTemplate
		}
		return
	}
	h.Stable, h.StableTemplate = p.StableRevision, p.StableTemplate
	if p.UpdateRevision != "" {
		h.Update = updateRevision(*p)
	}
	if HoldsWorkload(r) {
		h.Holder = r.Name
	} else if h.Batch == "" {
		h.Restoring = true
	}
}

// releasing reports whether the status has a release that is not over. A Rollout that is being
// deleted or disabled may still have to undo such a release.
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

// HoldsWorkload reports whether a release of the Rollout is in progress and its teardown has not
// begun. The workload is then held, regardless of its annotations.
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
