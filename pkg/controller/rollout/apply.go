// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/traffic"
)

// act carries out one action.
func (r *Reconciler) act(ctx context.Context, obs *observation, action planner.Action) error {
	w, o := obs.workload, obs.objects
	var changes []object.Change
	var err error
	switch a := action.(type) {
	case planner.RunBatch:
		return r.runBatch(ctx, obs, a.Plan)
	case planner.ReleaseBatch:
		return r.Server.DeleteBatchRelease(ctx, obs.batch)
	case planner.DropFinalizer:
		wire := &v1beta1.Rollout{ObjectMeta: *obs.rollout.ObjectMeta.DeepCopy()}
		return r.Server.DropFinalizer(ctx, wire, rollouts.FinalizerRollout)
	case planner.Label:
		changes = w.Row.Adapter.Label(w.Object)
	case planner.Unlabel:
		changes = w.Row.Unlabel(w.Object)
	case planner.RestoreWorkload:
		changes = w.Row.Restore(w.Object, w.Owned, a.KeepPaused)
	case planner.Pin:
		changes, err = traffic.Pin(o, a.Revision)
	case planner.Unpin:
		changes = traffic.Unpin(o)
	case planner.RouteTo:
		changes, err = routed(*obs.routing, o, a)
	case planner.Unroute:
		changes, err = unrouted(*obs.routing, o)
	case planner.RemoveCanaryService:
		changes = traffic.RemoveCanaryService(o)
	default:
		return fmt.Errorf("no effect for %q", action)
	}
	if err != nil {
		return err
	}
	return r.Server.Write(ctx, changes)
}

// runBatch creates the BatchRelease or gives it another plan.
func (r *Reconciler) runBatch(ctx context.Context, obs *observation, plan rollouts.ReleasePlan) error {
	ro := obs.rollout
	b := &rollouts.BatchRelease{ObjectMeta: metav1.ObjectMeta{
		Namespace: ro.Namespace, Name: ro.Name,
		Finalizers:      []string{rollouts.FinalizerBatchRelease},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ro, v1beta1.SchemeGroupVersion.WithKind("Rollout"))},
	}}
	if obs.batch != nil {
		b = obs.batch.DeepCopy()
	}
	b.Spec.WorkloadRef, b.Spec.Plan = ro.Spec.WorkloadRef.DeepCopy(), plan
	return r.Server.PutBatchRelease(ctx, b)
}

// routed makes the canary Service select the update revision before routers
// send it traffic.
func routed(ref rollouts.TrafficRoutingRef, o traffic.Objects, a planner.RouteTo) ([]object.Change, error) {
	provider, err := traffic.Find(ref)
	if err != nil {
		return nil, err
	}
	changes, err := traffic.CanaryService(o, a.Revision)
	if err != nil {
		return nil, err
	}
	routes, err := provider.Route(o, a.Want)
	return append(changes, routes...), err
}

func unrouted(ref rollouts.TrafficRoutingRef, o traffic.Objects) ([]object.Change, error) {
	provider, err := traffic.Find(ref)
	if err != nil {
		return nil, err
	}
	return provider.Restore(o)
}
