// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package batchrelease

import (
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/fair"
)

// deployments do not own their pods: there is a set between them.
var deployments = schema.GroupKind{Group: "apps", Kind: "Deployment"}

// gathering is how long pods of a batch are waited for that come and go one by one.
// Whether they are ready is told by their set, sooner.
const gathering = 200 * time.Millisecond

// SetupWithManager registers the watches: the rows of the workload table say
// which kinds are workloads and what they own.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("batchrelease").
		For(cluster.NewBatchRelease()).
		Watches(&corev1.Pod{}, cluster.Later(gathering, cluster.Enqueue(r.Server, cluster.BatchReleases, cluster.ByWorkload, cluster.OwnedByDriven(deployments))),
			builder.WithPredicates(cluster.TroubleChanged())).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, cluster.Enqueue(r.Server, cluster.BatchReleases, cluster.ByWorkload, cluster.ScaledBy),
			builder.WithPredicates(cluster.TargetChanged())).
		Watches(cluster.Definitions(), cluster.EnqueueDefined(r.Server, cluster.BatchReleases)).
		WithOptions(fair.Options(r.Concurrency))
	c, err := b.Build(r)
	if err != nil {
		return err
	}
	r.kinds = cluster.Kinds{Controller: c, Cache: mgr.GetCache(), Releases: cluster.BatchReleases}
	return r.kinds.WatchNative(r.Server.Reader)
}
