// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/reconcile"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Act carries out one action. It writes Weir's own objects itself; the packages workload and traffic
// compute the changes of all others.
func (p *Pass) Act(ctx context.Context, action planner.Action) error {
	switch a := action.Effect.(type) {
	case planner.StoreBatchStatus:
		stored, err := p.CommitBatchRelease(ctx, p.Batch.Release, a.Status)
		if err == nil {
			p.Batch.Release = stored
		}
		return err
	case planner.RunBatch:
		return p.runBatch(ctx, a)
	case planner.OnBatch:
		return reconcile.ApplyBatchEffect(ctx, p, p.Batch, a.Effect)
	case planner.DeleteBatchRelease:
		return p.DeleteBatchRelease(ctx, p.Batch.Release)
	case planner.ScaleReplicaSets:
		return reconcile.ScaleReplicaSets(ctx, p, p.workload.ForScaling(a.Hold), a.Scale)
	case planner.RemoveFinalizer:
		return p.RemoveFinalizer(ctx, p.Rollout, rollouts.FinalizerRollout)
	case planner.LinkTrafficRouting:
		return p.linkTrafficRouting(ctx, p.Rollout, a.Name)
	case planner.UnlinkTrafficRouting:
		return p.unlinkTrafficRouting(ctx, p.Rollout, a.Name)
	case planner.AddToIndex:
		return p.AddToIndex(ctx, p.entry)
	case planner.RemoveFromIndex:
		return p.RemoveFromIndex(ctx, p.entry)
	}
	if changes, ok := p.workloadChanges(action.Effect); ok {
		return p.Write(ctx, changes)
	}
	return reconcile.ApplyNetworkEffect(ctx, p, p.objects, action.Effect)
}

// workloadChanges returns the changes that an effect makes to the workload. It reports false if the effect
// does not concern the workload.
func (p *Pass) workloadChanges(effect planner.Effect) ([]object.Change, bool) {
	w := p.workload
	var changes []object.Change
	switch a := effect.(type) {
	case planner.LabelWorkload:
		changes = w.Row.AddTypeLabel(w.Object, w.Hold)
	case planner.UnlabelWorkload:
		changes = w.Row.RemoveTypeLabel(w.Object, w.Hold)
	case planner.HoldWorkload:
		changes = w.Row.HoldMissed(w.Object, w.Hold, p.Rollout.Name, a.Again)
	case planner.ApplyPendingEdit:
		changes = w.Row.ApplyPendingEdit(w.Object, w.Hold)
	case planner.RequeueWorkload:
		changes = workload.Requeue(w.Object, w.Hold, a)
	case planner.RepairRecords: // WithRepair adds the repair
	case planner.RestoreWorkload:
		changes = w.Row.Restore(w.Object, w.Owned, w.Hold, a)
	case planner.SetStableTemplate:
		changes = w.Row.SetStable(w.Object, w.Owned, w.Hold)
	default:
		return nil, false
	}
	return w.WithRepair(changes), true
}

// runBatch creates the BatchRelease, or stores the new plan in it together with the status from which the
// new plan starts.
func (p *Pass) runBatch(ctx context.Context, a planner.RunBatch) error {
	ro := p.Rollout
	b := &rollouts.BatchRelease{ObjectMeta: metav1.ObjectMeta{
		Namespace: ro.Namespace, Name: ro.Name,
		Finalizers:      []string{rollouts.FinalizerBatchRelease},
		OwnerReferences: []metav1.OwnerReference{cluster.OwnerReferenceTo(ro)},
	}}
	was := p.batchRelease()
	if was != nil {
		b = was.DeepCopy()
	}
	b.Spec.WorkloadRef, b.Spec.Plan = ro.Spec.WorkloadRef.DeepCopy(), a.Plan
	if a.Status != nil {
		b.Status = *a.Status
	}
	stored, err := p.CreateOrUpdateBatchRelease(ctx, was, b)
	if err == nil && was != nil {
		p.Batch.Release = stored
	}
	return err
}

// linkTrafficRouting adds the finalizer of a Rollout to a TrafficRouting, unless the TrafficRouting is
// being deleted. Such an object must not get new finalizers.
func (p *Pass) linkTrafficRouting(ctx context.Context, r *rollouts.Rollout, name string) error {
	found, err := p.LiveTrafficRouting(ctx, types.NamespacedName{Namespace: r.Namespace, Name: name})
	if found == nil || err != nil || found.DeletionTimestamp != nil {
		return err
	}
	return p.AddFinalizer(ctx, found, planner.ProgressingFinalizer(r.Name))
}

// unlinkTrafficRouting removes the finalizer of a Rollout from a TrafficRouting.
func (p *Pass) unlinkTrafficRouting(ctx context.Context, r *rollouts.Rollout, name string) error {
	finalizer := planner.ProgressingFinalizer(r.Name)
	found, err := p.LiveTrafficRouting(ctx, types.NamespacedName{Namespace: r.Namespace, Name: name})
	if found == nil || err != nil || !slices.Contains(found.Finalizers, finalizer) {
		return err
	}
	return p.RemoveFinalizer(ctx, found, finalizer)
}
