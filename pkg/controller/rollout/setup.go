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

	"github.com/weir-rollouts/weir/pkg/controller/effect"
	"github.com/weir-rollouts/weir/pkg/controller/fair"
)

// SetupWithManager registers the watches: everything that a pass observes wakes
// the next one, so nothing is polled.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("rollout").
		For(effect.NewRollout()).
		// It has the name of its Rollout, and so has one that is in the way of it.
		Watches(effect.NewBatchRelease(), &handler.EnqueueRequestForObject{}).
		Watches(effect.NewTrafficRouting(), r.Server.EnqueueUsers()).
		Watches(&corev1.Service{}, r.Server.Enqueue(effect.Rollouts, effect.ByNetwork, effect.IsNetwork("Service"))).
		Watches(&networkingv1.Ingress{}, r.Server.Enqueue(effect.Rollouts, effect.ByNetwork, effect.IsNetwork("Ingress"))).
		Watches(&corev1.ConfigMap{}, r.Server.EnqueueRouted(effect.Rollouts)).
		Watches(effect.Definitions(), r.Server.EnqueueDefined(effect.Rollouts)).
		WatchesRawSource(r.Server.WatchIndexes(r.Beside)).
		WithOptions(fair.Options(r.Concurrency))
	for _, door := range r.Doors.Objects() {
		b = b.WatchesRawSource(r.Server.WatchDoor(r.Beside, door))
	}
	c, err := b.Build(r)
	if err != nil {
		return err
	}
	r.network = effect.Network{Server: r.Server, Configuration: r.Configuration, Watch: func(o client.Object) error {
		kind := o.GetObjectKind().GroupVersionKind().Kind
		return c.Watch(source.Kind(mgr.GetCache(), o, r.Server.Enqueue(effect.Rollouts, effect.ByNetwork, effect.IsNetwork(kind))))
	}}
	r.kinds = effect.Kinds{Controller: c, Cache: mgr.GetCache(), Releases: effect.Rollouts}
	return r.kinds.WatchNative(r.Server)
}
