// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package batchrelease

import (
	"maps"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/fair"
	"github.com/weir-rollouts/weir/pkg/workload"
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
			builder.WithPredicates(telling())).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, cluster.Enqueue(r.Server, cluster.BatchReleases, cluster.ByWorkload, cluster.ScaledBy),
			builder.WithPredicates(retargeted())).
		Watches(cluster.Definitions(), cluster.EnqueueDefined(r.Server, cluster.BatchReleases)).
		WithOptions(fair.Options(r.Concurrency))
	c, err := b.Build(r)
	if err != nil {
		return err
	}
	r.kinds = cluster.Kinds{Controller: c, Cache: mgr.GetCache(), Releases: cluster.BatchReleases}
	return r.kinds.WatchNative(r.Server.Reader)
}

// telling passes pods only when there are more or fewer of them, or when their
// labels or what keeps them from running has changed.
func telling() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return trouble(e.ObjectOld) != trouble(e.ObjectNew) || !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) ||
			(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
	}}
}

// retargeted passes autoscalers only when they come, or scale something else: to give
// one back may be the last that is done.
func retargeted() predicate.Predicate {
	target := func(o client.Object) string {
		h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler)
		if !ok {
			return ""
		}
		return h.Spec.ScaleTargetRef.Name
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return target(e.ObjectOld) != target(e.ObjectNew) }}
}

func trouble(o client.Object) string {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return ""
	}
	// What is normal for a while is looked at again without being told.
	message, _ := workload.Trouble([]corev1.Pod{*pod}, "", time.Time{})
	return message
}
