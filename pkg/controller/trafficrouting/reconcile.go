// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package trafficrouting runs the passes over TrafficRoutings. It answers what is
// observed of the Services and routers that one names, and carries out what
// planner.TrafficRouting decided about them; it must not decide anything itself,
// and knows of Rollouts only that some are under way.
package trafficrouting

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/fair"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/traffic"
)

// Reconciler runs one pass at a time over each TrafficRouting.
type Reconciler struct {
	Server      cluster.Server
	Recorder    events.EventRecorder
	Clock       clock.PassiveClock
	Concurrency int
	network     cluster.Network
	// Configuration are the namespaces where scripts of users are looked for.
	Configuration []string
}

// Reconcile runs one pass.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	steps := Steps(server{r.Server, r}, r.Clock.Now)
	steps.Announce = func(obs *Observation, announced []planner.Event) {
		cluster.Announce(r.Recorder, cluster.About(obs.Routing), "Route", announced)
	}
	return steps.Reconcile(ctx, req)
}

// server is the API server for the passes of a Reconciler.
type server struct {
	cluster.Server
	r *Reconciler
}

// ReadNetwork implements Cluster.
func (s server) ReadNetwork(ctx context.Context, namespace, service string, o *traffic.Objects) error {
	return s.r.network.Read(ctx, namespace, service, o)
}

// SetupWithManager registers the watches: everything that a pass observes wakes
// the next one, and kinds of routers that a cluster may lack are watched from
// the first time that one is named.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	naming := func(kind string) handler.EventHandler {
		return cluster.Enqueue(r.Server, cluster.TrafficRoutings, cluster.ByNetwork, cluster.IsNetwork(kind))
	}
	c, err := ctrl.NewControllerManagedBy(mgr).Named("trafficrouting").
		For(cluster.NewTrafficRouting()).
		Watches(&corev1.Service{}, naming("Service")).
		Watches(&networkingv1.Ingress{}, naming("Ingress")).
		Watches(cluster.NewRollout(), cluster.Enqueue(r.Server, cluster.TrafficRoutings, cluster.ByUser, cluster.IsUser), builder.WithPredicates(cluster.Deleted())).
		Watches(&corev1.ConfigMap{}, cluster.EnqueueRouted(r.Server, cluster.TrafficRoutings)).
		Watches(cluster.Definitions(), cluster.EnqueueDefined(r.Server, cluster.TrafficRoutings)).
		WithOptions(fair.Options(r.Concurrency)).
		Build(r)
	if err != nil {
		return err
	}
	r.network = cluster.Network{Reader: r.Server.Reader, Configuration: r.Configuration, Watch: func(o client.Object) error {
		return c.Watch(source.Kind(mgr.GetCache(), o, naming(o.GetObjectKind().GroupVersionKind().Kind)))
	}}
	return nil
}
