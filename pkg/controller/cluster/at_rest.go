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

// AtRest reports of a Rollout, by what caches show, whether it is at rest, and its workload
// is as it was when that was stored. A pass over it may come last.
func AtRest(ctx context.Context, s Reader) func(reconcile.Request) bool {
	return func(key reconcile.Request) bool {
		return recovered("ordering the request", key, func() bool { return atRest(ctx, s, key) })
	}
}

func atRest(ctx context.Context, s Reader, key reconcile.Request) bool {
	r, err := get(ctx, s, key.Namespace, key.Name, &v1beta1.Rollout{}, client.UnsafeDisableDeepCopy)
	if err != nil || r == nil {
		return false
	}
	rests := string(r.Status.Phase) == string(rollouts.PhaseHealthy) && r.DeletionTimestamp == nil && r.Status.ObservedGeneration == r.Generation
	return rests && workloadRests(ctx, s, r)
}

// workloadRests reports whether the workload of a Rollout is neither held nor changed.
func workloadRests(ctx context.Context, s Reader, r *v1beta1.Rollout) bool {
	ref := r.Spec.WorkloadRef
	row, ok := workload.Find(ref.APIVersion, ref.Kind, rollouts.StylePartition)
	if !ok || !s.Native(row) { // the cache of another group may never fill, and the queue waits for the answer
		return false
	}
	w, err := stored(ctx, s, row.GVK, r.Namespace, ref.Name)
	if err != nil || w == nil || workload.HasReleaseMark(w) {
		return false
	}
	seen := w.GetGeneration() // without a release nothing was stored of it
	switch {
	case r.Status.Canary != nil:
		seen = r.Status.Canary.ObservedWorkloadGeneration
	case r.Status.BlueGreen != nil:
		seen = r.Status.BlueGreen.ObservedWorkloadGeneration
	}
	return seen == w.GetGeneration()
}
