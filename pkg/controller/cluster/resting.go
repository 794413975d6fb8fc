// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// IsResting returns a function that reports whether the caches show a healthy Rollout whose workload has
// not changed since the status was stored. The pass over such a Rollout may wait behind others.
func IsResting(ctx context.Context, s Reader) func(reconcile.Request) bool {
	return func(key reconcile.Request) bool {
		return recoverPanic("ordering the request", key, func() bool { return isResting(ctx, s, key) })
	}
}

func isResting(ctx context.Context, s Reader, key reconcile.Request) bool {
	r, err := get(ctx, s, key.Namespace, key.Name, &v1beta1.Rollout{}, client.UnsafeDisableDeepCopy)
	if err != nil || r == nil {
		return false
	}
	rests := string(r.Status.Phase) == string(rollouts.PhaseHealthy) && r.DeletionTimestamp == nil && r.Status.ObservedGeneration == r.Generation
	return rests && isWorkloadResting(ctx, s, r)
}

// isWorkloadResting reports whether the workload of a Rollout is neither held nor changed.
func isWorkloadResting(ctx context.Context, s Reader, r *v1beta1.Rollout) bool {
	ref := r.Spec.WorkloadRef
	row, ok := workload.Find(ref.APIVersion, ref.Kind, rollouts.StylePartition)
	if !ok || !s.IsNative(row) { // the cache of an optional kind may never sync, and the queue would wait for it
		return false
	}
	w, err := getStored(ctx, s, row.GVK, r.Namespace, ref.Name)
	if err != nil || w == nil || workload.HasReleaseMark(w) {
		return false
	}
	observed := w.GetGeneration() // before the first release the status has no generation
	switch {
	case r.Status.Canary != nil:
		observed = r.Status.Canary.ObservedWorkloadGeneration
	case r.Status.BlueGreen != nil:
		observed = r.Status.BlueGreen.ObservedWorkloadGeneration
	}
	return observed == w.GetGeneration()
}
