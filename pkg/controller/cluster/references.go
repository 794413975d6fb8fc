// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// BatchReleaseHoldState returns the hold state of a workload according to its BatchRelease, and reports
// whether a BatchRelease references the workload.
func (s Reader) BatchReleaseHoldState(ctx context.Context, gk schema.GroupKind, workload types.NamespacedName) (k planner.HoldState, named bool, err error) {
	batches, err := listReferencing(ctx, s, NewBatchReleaseList(), gk, workload)
	if err != nil || len(batches) == 0 {
		return k, false, err
	}
	b, err := s.BatchRelease(ctx, client.ObjectKeyFromObject(batches[0]))
	if err != nil || b == nil {
		return k, false, err
	}
	return planner.HoldStateOf(nil, b), true, nil
}

// RolloutExists reports whether the Rollout of a BatchRelease exists and still runs it. A stale cache does
// no harm, because the uid of a Rollout never changes.
func (s Reader) RolloutExists(ctx context.Context, b *rollouts.BatchRelease) (bool, error) {
	found, err := get(ctx, s, b.Namespace, b.Name, &v1beta1.Rollout{}, client.UnsafeDisableDeepCopy)
	if found == nil || err != nil {
		return false, err
	}
	return planner.Owns(&rollouts.Rollout{ObjectMeta: found.ObjectMeta}, b) && !isFinalized(found), nil
}

// isFinalized reports whether a Rollout has restored its workload for good.
func isFinalized(r *v1beta1.Rollout) bool {
	return planner.Finalized(&rollouts.Rollout{ObjectMeta: r.ObjectMeta, Status: rollouts.RolloutStatus{
		Phase: rollouts.Phase(r.Status.Phase), WorkloadUID: r.Status.WorkloadUID,
	}})
}

// RolloutOfWorkload returns the name of the Rollout that releases a workload; empty if none does.
func (s Reader) RolloutOfWorkload(ctx context.Context, gk schema.GroupKind, workload types.NamespacedName) (string, error) {
	found, err := listReferencing(ctx, s, NewRolloutList(), gk, workload)
	for _, r := range found {
		if ManagesWorkload(r) {
			return r.GetName(), nil
		}
	}
	return "", err
}

// listReferencing returns the objects of a list that reference a workload.
func listReferencing(ctx context.Context, s Reader, list client.ObjectList, gk schema.GroupKind, workload types.NamespacedName) ([]object.Object, error) {
	key := WorkloadKey(gk, workload.Name)
	found, err := listObjects(ctx, s, list, client.InNamespace(workload.Namespace), client.MatchingFields{ByWorkload: key}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing what names %s: %w", key, err)
	}
	return found, nil
}

// ReplicaSetNameConflict returns the ReplicaSet with the name if the owner does not own it; nil if it does
// or if there is none.
func (s Reader) ReplicaSetNameConflict(ctx context.Context, owner object.Object, name string) (object.Object, error) {
	found, err := get(ctx, s, owner.GetNamespace(), name, &appsv1.ReplicaSet{})
	if found == nil || err != nil || metav1.IsControlledBy(found, owner) {
		return nil, err
	}
	return found, nil
}

// readExtraWorkloads returns the extra workloads (canary Deployments) of a workload. It first lists the
// objects that the BatchRelease owns. It lists the whole namespace only if the extra workload that the store
// has recorded is not among them: somebody has removed the owner reference.
func readExtraWorkloads(ctx context.Context, s Reader, row workload.Row, obj object.Object, known planner.HoldState) ([]object.Object, error) {
	found, err := listInNamespaceOf(ctx, s, row.GVK, obj, client.MatchingFields{ByOwner: string(known.Batch)})
	if err != nil {
		return nil, err
	}
	is := func(o object.Object) bool { return o.GetUID() == known.Extra }
	if known.Extra != "" && !slices.ContainsFunc(found, is) {
		if found, err = listInNamespaceOf(ctx, s, row.GVK, obj); err != nil {
			return nil, err
		}
	}
	return row.ExtraDeployments(obj, found, known), nil
}

// isExtraWorkload reports whether the object is the extra workload of a BatchRelease.
func isExtraWorkload(ctx context.Context, s Reader, o object.Object) (bool, error) {
	var batches v1beta1.BatchReleaseList
	if err := s.List(ctx, &batches, client.InNamespace(o.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing who has made %s: %w", o.GetName(), err)
	}
	return slices.ContainsFunc(batches.Items, func(b v1beta1.BatchRelease) bool {
		return planner.IsExtraWorkloadOf(&rollouts.BatchRelease{ObjectMeta: b.ObjectMeta, Status: rollouts.BatchReleaseStatus{ExtraUID: b.Status.ExtraUID}}, o)
	}), nil
}
