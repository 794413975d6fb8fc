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

// Act carries out one action: on our own objects here, on others by what the
// adapters and providers want changed.
func (p *Pass) Act(ctx context.Context, action planner.Action) error {
	switch a := action.Effect.(type) {
	case planner.StoreBatchStatus, planner.RunBatch, planner.OnBatch, planner.DeleteBatchRelease:
		return p.onBatch(ctx, a)
	case planner.ScaleReplicaSets:
		return reconcile.OnSizes(ctx, p, p.workload, a)
	case planner.RemoveFinalizer:
		return p.DropFinalizer(ctx, p.Rollout, rollouts.FinalizerRollout)
	case planner.LinkTrafficRouting:
		return p.link(ctx, p.Rollout, a.Name)
	case planner.UnlinkTrafficRouting:
		return p.unlink(ctx, p.Rollout, a.Name)
	case planner.AddToIndex:
		return p.Enter(ctx, p.entry)
	case planner.RemoveFromIndex:
		return p.Remove(ctx, p.entry)
	}
	if changes, ok := p.onWorkload(action.Effect); ok {
		return p.Write(ctx, changes)
	}
	return reconcile.OnNetwork(ctx, p, p.objects, action.Effect)
}

// onBatch carries out an effect on the BatchRelease, or one of its own.
func (p *Pass) onBatch(ctx context.Context, effect planner.Effect) error {
	switch a := effect.(type) {
	case planner.StoreBatchStatus:
		return p.judgeBatch(ctx, p.Batch, a.Status)
	case planner.RunBatch:
		return p.runBatch(ctx, a)
	case planner.OnBatch:
		return reconcile.OnBatch(ctx, p, p.Batch, a.Effect)
	default:
		return p.DeleteBatchRelease(ctx, p.Batch.Release)
	}
}

// onWorkload returns what an effect changes on the workload; false if it does not concern
// the workload.
func (p *Pass) onWorkload(effect planner.Effect) ([]object.Change, bool) {
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
	case planner.RepairRecords: // Repaired adds the repair
	case planner.RestoreWorkload:
		changes = w.Row.Restore(w.Object, w.Owned, w.Hold, a)
	case planner.SetStableTemplate:
		changes = w.Row.SetStable(w.Object, w.Owned, w.Hold)
	default:
		return nil, false
	}
	return w.Repaired(changes), true
}

// judgeBatch stores what was found out of the batch.
func (p *Pass) judgeBatch(ctx context.Context, b *reconcile.Batch, status rollouts.BatchReleaseStatus) error {
	stored, err := p.CommitBatchRelease(ctx, b.Release, status)
	if err == nil {
		b.Release = stored
	}
	return err
}

// runBatch creates the BatchRelease or gives it another plan, and the status with which
// that is taken up.
func (p *Pass) runBatch(ctx context.Context, a planner.RunBatch) error {
	ro := p.Rollout
	b := &rollouts.BatchRelease{ObjectMeta: metav1.ObjectMeta{
		Namespace: ro.Namespace, Name: ro.Name,
		Finalizers:      []string{rollouts.FinalizerBatchRelease},
		OwnerReferences: []metav1.OwnerReference{cluster.OwnedBy(ro)},
	}}
	was := p.release()
	if was != nil {
		b = was.DeepCopy()
	}
	b.Spec.WorkloadRef, b.Spec.Plan = ro.Spec.WorkloadRef.DeepCopy(), a.Plan
	if a.Status != nil {
		b.Status = *a.Status
	}
	stored, err := p.PutBatchRelease(ctx, was, b)
	if err == nil && was != nil {
		p.Batch.Release = stored
	}
	return err
}

// link marks a TrafficRouting as needed by a Rollout. One that is being deleted
// takes no more marks.
func (p *Pass) link(ctx context.Context, r *rollouts.Rollout, name string) error {
	found, err := p.LiveTrafficRouting(ctx, types.NamespacedName{Namespace: r.Namespace, Name: name})
	if found == nil || err != nil || found.DeletionTimestamp != nil {
		return err
	}
	return p.AddFinalizer(ctx, found, planner.ProgressingFinalizer(r.Name))
}

// unlink takes the finalizer of a Rollout off a TrafficRouting.
func (p *Pass) unlink(ctx context.Context, r *rollouts.Rollout, name string) error {
	finalizer := planner.ProgressingFinalizer(r.Name)
	found, err := p.LiveTrafficRouting(ctx, types.NamespacedName{Namespace: r.Namespace, Name: name})
	if found == nil || err != nil || !slices.Contains(found.Finalizers, finalizer) {
		return err
	}
	return p.DropFinalizer(ctx, found, finalizer)
}
