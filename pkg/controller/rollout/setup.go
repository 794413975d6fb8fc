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

// SetupWithManager registers the watches. The controller watches everything that a pass observes, so that
// it does not poll.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	options := queue.OptionsWithRestingLast(r.Concurrency, r.IsResting)
	r.limitBackoff = queue.BackoffLimiter(options)
	b := ctrl.NewControllerManagedBy(mgr).Named("rollout").
		For(cluster.NewRollout()).
		Watches(cluster.NewRollout(), cluster.ObserveReleases(r.Metrics.ObserveSteps)).
		// A BatchRelease has the name of its Rollout. One of another owner with this name blocks the Rollout.
		Watches(cluster.NewBatchRelease(), &handler.EnqueueRequestForObject{}).
		Watches(cluster.NewTrafficRouting(), cluster.EnqueueRolloutsOfRouting(r.Server)).
		Watches(&corev1.Pod{}, cluster.EnqueueOwnersOfPods(r.Server, cluster.NewRolloutList), builder.WithPredicates(cluster.PodHealthChanged(), cluster.SkipInitialList())).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, cluster.EnqueueByIndex(r.Server, cluster.NewRolloutList, cluster.ByWorkload, cluster.ScaleTargetKeys),
			builder.WithPredicates(cluster.ScaleTargetChanged(), cluster.SkipInitialList())).
		WatchesRawSource(cluster.WatchIndexes(r.Server, r.AdmissionCache)).
		WithOptions(options)
	if r.MeasurementEvents != nil {
		b = b.WatchesRawSource(source.Channel(r.MeasurementEvents, &handler.EnqueueRequestForObject{}))
	}
	for _, object := range r.AdmissionStatus.WatchedObjects() {
		b = b.WatchesRawSource(cluster.WatchAdmission(r.Server, r.AdmissionCache, object))
	}
	c, err := cluster.WatchNetwork(b, r.Server.Reader, cluster.NewRolloutList).Build(r)
	if err != nil {
		return err
	}
	r.network = cluster.NewNetwork(r.Server.Reader, c, mgr.GetCache(), cluster.NewRolloutList, r.ScriptNamespaces)
	r.workloadKinds = cluster.WorkloadKinds{Controller: c, Cache: mgr.GetCache(), Releases: cluster.NewRolloutList}
	return r.workloadKinds.WatchNative(r.Server.Reader)
}
