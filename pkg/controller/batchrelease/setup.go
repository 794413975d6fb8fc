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

// SetupWithManager registers the watches. workload.Table has the kinds of workloads and of the objects that
// they own.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	options := queue.Options(r.Concurrency)
	r.limitBackoff = queue.BackoffLimiter(options)
	b := ctrl.NewControllerManagedBy(mgr).Named("batchrelease").
		For(cluster.NewBatchRelease(), builder.WithPredicates(cluster.WithoutRollout())).
		Watches(&corev1.Pod{}, cluster.EnqueueOwnersOfPods(r.Server, cluster.NewBatchReleaseList), builder.WithPredicates(cluster.PodHealthChanged(), cluster.SkipInitialList())).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, cluster.EnqueueByIndex(r.Server, cluster.NewBatchReleaseList, cluster.ByWorkload, cluster.ScaleTargetKeys),
			builder.WithPredicates(cluster.ScaleTargetChanged(), cluster.SkipInitialList())).
		Watches(cluster.NewDefinition(), cluster.EnqueueUsersOfGroup(r.Server, cluster.NewBatchReleaseList)).
		WithOptions(options)
	c, err := b.Build(r)
	if err != nil {
		return err
	}
	r.workloadKinds = cluster.WorkloadKinds{Controller: c, Cache: mgr.GetCache(), Releases: cluster.NewBatchReleaseList}
	return r.workloadKinds.WatchNative(r.Server.Reader)
}
