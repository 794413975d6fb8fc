// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/traffic"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// act carries out one action: on our own objects here, on others by what the
// adapters and providers want changed.
func (r *Reconciler) act(ctx context.Context, obs *observation, action planner.Action) error {
	switch a := action.(type) {
	case planner.RunBatch:
		return r.runBatch(ctx, obs, a.Plan)
	case planner.ReleaseBatch:
		return r.Server.DeleteBatchRelease(ctx, obs.batch)
	case planner.DropFinalizer:
		return r.Server.ReleaseRollout(ctx, obs.rollout)
	case planner.Link:
		return r.Server.Link(ctx, obs.rollout, a.Name)
	case planner.Index:
		return r.Server.Enter(ctx, obs.entry)
	case planner.Unindex:
		return r.Server.Remove(ctx, obs.entry)
	case planner.Unlink:
		return r.Server.Unlink(ctx, obs.rollout, a.Name)
	}
	if _, ok := action.(planner.Unroute); ok {
		return r.Server.Unroute(ctx, obs.objects)
	}
	changes, ok := onWorkload(obs, action)
	var err error
	if !ok {
		changes, err = onNetwork(obs, action)
	}
	return errors.Join(r.Server.Write(ctx, changes), err)
}

// onWorkload is what an action changes on the workload; false when it is not
// about the workload.
func onWorkload(obs *observation, action planner.Action) ([]object.Change, bool) {
	w := obs.workload
	changes, ok := onMetadata(obs, action)
	if ok {
		return w.Changes(changes), true
	}
	switch a := action.(type) {
	case planner.RestoreWorkload:
		changes = w.Row.Restore(w.Object, w.Owned, a)
	case planner.SetStable:
		changes = w.Row.SetStable(w.Object, w.Owned)
	default:
		return nil, false
	}
	return w.Changes(changes), true
}

// onMetadata is what it changes of its labels and annotations, and with them of its
// strategy.
func onMetadata(obs *observation, action planner.Action) ([]object.Change, bool) {
	w := obs.workload
	switch a := action.(type) {
	case planner.Label:
		return w.Row.Label(w.Object), true
	case planner.Unlabel:
		return w.Row.Unlabel(w.Object), true
	case planner.Hold:
		return w.Row.Take(w.Object, obs.rollout.Name, a.Again), true
	case planner.ApplyPendingEdit:
		return w.Row.ApplyPendingEdit(w.Object), true
	case planner.AskAgain:
		return workload.AskAgain(w.Object, a), true
	case planner.PutRight:
		return nil, true
	default:
		return nil, false
	}
}

// onNetwork is what an action changes on Services and routers.
func onNetwork(obs *observation, action planner.Action) ([]object.Change, error) {
	o := obs.objects
	switch a := action.(type) {
	case planner.Pin:
		return traffic.Pin(o, a.Revision)
	case planner.Unpin:
		return traffic.Unpin(o), nil
	case planner.ServeCanary:
		return traffic.CanaryService(o, a.Revision)
	case planner.RouteTo:
		return traffic.Route(o, a.Revision, a.Want)
	case planner.RemoveCanaryService:
		return traffic.RemoveCanaryService(o), nil
	default:
		return nil, fmt.Errorf("no effect for %q", action)
	}
}

// runBatch creates the BatchRelease or gives it another plan.
func (r *Reconciler) runBatch(ctx context.Context, obs *observation, plan rollouts.ReleasePlan) error {
	ro := obs.rollout
	b := &rollouts.BatchRelease{ObjectMeta: metav1.ObjectMeta{
		Namespace: ro.Namespace, Name: ro.Name,
		Finalizers:      []string{rollouts.FinalizerBatchRelease},
		OwnerReferences: []metav1.OwnerReference{cluster.OwnedByRollout(ro)},
	}}
	if obs.batch != nil {
		b = obs.batch.DeepCopy()
	}
	b.Spec.WorkloadRef, b.Spec.Plan = ro.Spec.WorkloadRef.DeepCopy(), plan
	return r.Server.PutBatchRelease(ctx, b)
}
