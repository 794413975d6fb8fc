// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package batchrelease

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/queue"
)

// SetupWithManager registers the watches: the rows of the workload table say
// which kinds are workloads and what they own.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	options := queue.Options(r.Concurrency)
	r.noLater = queue.BackoffLimiter(options)
	b := ctrl.NewControllerManagedBy(mgr).Named("batchrelease").
		For(cluster.NewBatchRelease(), builder.WithPredicates(cluster.Lone())).
		Watches(&corev1.Pod{}, cluster.PodsOf(r.Server, cluster.BatchReleases), builder.WithPredicates(cluster.TroubleChanged(), cluster.SinceStart())).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, cluster.Enqueue(r.Server, cluster.BatchReleases, cluster.ByWorkload, cluster.ScaledBy),
			builder.WithPredicates(cluster.TargetChanged(), cluster.SinceStart())).
		Watches(cluster.Definitions(), cluster.EnqueueDefined(r.Server, cluster.BatchReleases)).
		WithOptions(options)
	c, err := b.Build(r)
	if err != nil {
		return err
	}
	r.kinds = cluster.Kinds{Controller: c, Cache: mgr.GetCache(), Releases: cluster.BatchReleases}
	return r.kinds.WatchNative(r.Server.Reader)
}
