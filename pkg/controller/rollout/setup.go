// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/queue"
)

// SetupWithManager registers the watches: everything that a pass observes wakes
// the next one, so nothing is polled.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	options := queue.OptionsWithRestingLast(r.Concurrency, r.AtRest)
	r.noLater = queue.BackoffLimiter(options)
	b := ctrl.NewControllerManagedBy(mgr).Named("rollout").
		For(cluster.NewRollout()).
		Watches(cluster.NewRollout(), cluster.OnRollout(r.Metrics.Changed)).
		// It has the name of its Rollout, and so has one that is in the way of it.
		Watches(cluster.NewBatchRelease(), &handler.EnqueueRequestForObject{}).
		Watches(cluster.NewTrafficRouting(), cluster.EnqueueUsers(r.Server)).
		Watches(&corev1.Pod{}, cluster.PodsOf(r.Server, cluster.Rollouts), builder.WithPredicates(cluster.TroubleChanged(), cluster.SinceStart())).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, cluster.Enqueue(r.Server, cluster.Rollouts, cluster.ByWorkload, cluster.ScaledBy),
			builder.WithPredicates(cluster.TargetChanged(), cluster.SinceStart())).
		WatchesRawSource(cluster.WatchIndexes(r.Server, r.Beside)).
		WithOptions(options)
	if r.Measured != nil {
		b = b.WatchesRawSource(source.Channel(r.Measured, &handler.EnqueueRequestForObject{}))
	}
	for _, object := range r.AdmissionStatus.Objects() {
		b = b.WatchesRawSource(cluster.WatchAdmission(r.Server, r.Beside, object))
	}
	c, err := cluster.WatchNetwork(b, r.Server.Reader, cluster.Rollouts).Build(r)
	if err != nil {
		return err
	}
	r.network = cluster.NewNetwork(r.Server.Reader, c, mgr.GetCache(), cluster.Rollouts, r.Configuration)
	r.kinds = cluster.Kinds{Controller: c, Cache: mgr.GetCache(), Releases: cluster.Rollouts}
	return r.kinds.WatchNative(r.Server.Reader)
}
