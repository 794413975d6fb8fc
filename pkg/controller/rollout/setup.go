// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/fair"
)

// SetupWithManager registers the watches: everything that a pass observes wakes
// the next one, so nothing is polled.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("rollout").
		For(cluster.NewRollout()).
		// It has the name of its Rollout, and so has one that is in the way of it.
		Watches(cluster.NewBatchRelease(), &handler.EnqueueRequestForObject{}).
		Watches(cluster.NewTrafficRouting(), cluster.EnqueueUsers(r.Server)).
		Watches(&corev1.Service{}, cluster.Enqueue(r.Server, cluster.Rollouts, cluster.ByNetwork, cluster.IsNetwork("Service"))).
		Watches(&networkingv1.Ingress{}, cluster.Enqueue(r.Server, cluster.Rollouts, cluster.ByNetwork, cluster.IsNetwork("Ingress"))).
		Watches(&corev1.ConfigMap{}, cluster.EnqueueRouted(r.Server, cluster.Rollouts)).
		Watches(cluster.Definitions(), cluster.EnqueueDefined(r.Server, cluster.Rollouts)).
		WatchesRawSource(cluster.WatchIndexes(r.Server, r.Beside)).
		WithOptions(fair.Options(r.Concurrency))
	for _, object := range r.AdmissionStatus.Objects() {
		b = b.WatchesRawSource(cluster.WatchAdmission(r.Server, r.Beside, object))
	}
	c, err := b.Build(r)
	if err != nil {
		return err
	}
	r.network = cluster.Network{Reader: r.Server.Reader, Configuration: r.Configuration, Watch: func(o client.Object) error {
		kind := o.GetObjectKind().GroupVersionKind().Kind
		return c.Watch(source.Kind(mgr.GetCache(), o, cluster.Enqueue(r.Server, cluster.Rollouts, cluster.ByNetwork, cluster.IsNetwork(kind))))
	}}
	r.kinds = cluster.Kinds{Controller: c, Cache: mgr.GetCache(), Releases: cluster.Rollouts}
	return r.kinds.WatchNative(r.Server.Reader)
}
