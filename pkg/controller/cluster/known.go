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

// Known is what the store says of a workload by a BatchRelease, and whether one names it.
func (s Reader) Known(ctx context.Context, gk schema.GroupKind, workload types.NamespacedName) (k planner.HoldState, named bool, err error) {
	batches, err := naming(ctx, s, BatchReleases(), gk, workload)
	if err != nil || len(batches) == 0 {
		return k, false, err
	}
	b, err := s.BatchRelease(ctx, client.ObjectKeyFromObject(batches[0]))
	if err != nil || b == nil {
		return k, false, err
	}
	return planner.HoldStateOf(nil, b), true, nil
}

// Wanted reports whether the Rollout of a BatchRelease is there. Its uid never changes, so
// that nothing is waited for that the cache does not show yet.
func (s Reader) Wanted(ctx context.Context, b *rollouts.BatchRelease) (bool, error) {
	found, err := get(ctx, s, b.Namespace, b.Name, &v1beta1.Rollout{}, client.UnsafeDisableDeepCopy)
	if found == nil || err != nil {
		return false, err
	}
	return planner.Owns(&rollouts.Rollout{ObjectMeta: found.ObjectMeta}, b) && !over(found), nil
}

func over(r *v1beta1.Rollout) bool {
	return planner.Finalized(&rollouts.Rollout{ObjectMeta: r.ObjectMeta, Status: rollouts.RolloutStatus{
		Phase: rollouts.Phase(r.Status.Phase), WorkloadUID: r.Status.WorkloadUID,
	}})
}

// RolloutNaming is the Rollout that releases a workload; empty if none does.
func (s Reader) RolloutNaming(ctx context.Context, gk schema.GroupKind, workload types.NamespacedName) (string, error) {
	found, err := naming(ctx, s, Rollouts(), gk, workload)
	for _, r := range found {
		if Live(r) {
			return r.GetName(), nil
		}
	}
	return "", err
}

// naming are the objects of a list that release a workload.
func naming(ctx context.Context, s Reader, list client.ObjectList, gk schema.GroupKind, workload types.NamespacedName) ([]object.Object, error) {
	key := WorkloadKey(gk, workload.Name)
	found, err := items(ctx, s, list, client.InNamespace(workload.Namespace), client.MatchingFields{ByWorkload: key}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing what names %s: %w", key, err)
	}
	return found, nil
}

// Taken is the ReplicaSet of a name that does not belong to the owner; nil if there is
// none.
func (s Reader) Taken(ctx context.Context, owner object.Object, name string) (object.Object, error) {
	found, err := get(ctx, s, owner.GetNamespace(), name, &appsv1.ReplicaSet{})
	if found == nil || err != nil || metav1.IsControlledBy(found, owner) {
		return nil, err
	}
	return found, nil
}

// extrasOf are what was made beside a workload. All of the namespace are looked through
// only where the BatchRelease does not own any more what the store names.
func extrasOf(ctx context.Context, s Reader, row workload.Row, obj object.Object, known planner.HoldState) ([]object.Object, error) {
	found, err := listed(ctx, s, row.GVK, obj, client.MatchingFields{ByOwner: string(known.Batch)})
	if err != nil {
		return nil, err
	}
	is := func(o object.Object) bool { return o.GetUID() == known.Extra }
	if known.Extra != "" && !slices.ContainsFunc(found, is) {
		if found, err = listed(ctx, s, row.GVK, obj); err != nil {
			return nil, err
		}
	}
	return row.ExtraDeployments(obj, found, known), nil
}

// madeBeside reports whether a BatchRelease has made the object.
func madeBeside(ctx context.Context, s Reader, o object.Object) (bool, error) {
	var batches v1beta1.BatchReleaseList
	if err := s.List(ctx, &batches, client.InNamespace(o.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing who has made %s: %w", o.GetName(), err)
	}
	return slices.ContainsFunc(batches.Items, func(b v1beta1.BatchRelease) bool {
		return planner.IsExtraWorkloadOf(&rollouts.BatchRelease{ObjectMeta: b.ObjectMeta, Status: rollouts.BatchReleaseStatus{ExtraUID: b.Status.ExtraUID}}, o)
	}), nil
}
