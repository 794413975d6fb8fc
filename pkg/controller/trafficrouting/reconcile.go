// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package trafficrouting reconciles TrafficRoutings. It observes the Services and routers that a
// TrafficRouting names, and applies what routing.Decide decided. It must not decide anything itself. It
// knows only which Rollouts have a release under way.
package trafficrouting

import (
	"context"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/queue"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Reconciler reconciles TrafficRoutings.
type Reconciler struct {
	Server      cluster.Server
	Recorder    events.EventRecorder
	Clock       clock.PassiveClock
	Concurrency int
	network     *cluster.Network
	// noLater limits the backoff of a failed reconcile to its planned requeue time (queue.BackoffLimiter).
	noLater func(ctrl.Request, time.Duration)
	// Configuration are the namespaces in which users' scripts are stored.
	Configuration []string
}

// Reconcile reconciles one TrafficRouting.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	steps := Steps(server{r.Server, r.network}, r.Clock.Now)
	steps.Announce = func(obs *Observation, announced []planner.Event) {
		cluster.Announce(r.Recorder, cluster.About(obs.Routing), "Route", announced)
	}
	steps.NoLater = r.noLater
	return steps.Reconcile(ctx, req)
}

// server implements Cluster for a Reconciler.
type server struct {
	cluster.Server
	*cluster.Network
}

// SetupWithManager registers the watches of all observed objects. Kinds of routers that a cluster
// may lack are watched when a TrafficRouting first names one.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	marked := cluster.Enqueue(r.Server, cluster.TrafficRoutings, cluster.ByUser, cluster.IsUser)
	options := queue.Options(r.Concurrency)
	r.noLater = queue.BackoffLimiter(options)
	b := ctrl.NewControllerManagedBy(mgr).Named("trafficrouting").
		For(cluster.NewTrafficRouting()).
		Watches(cluster.NewRollout(), marked, builder.WithPredicates(cluster.Deleted())).
		WithOptions(options)
	c, err := cluster.WatchNetwork(b, r.Server.Reader, cluster.TrafficRoutings).Build(r)
	if err != nil {
		return err
	}
	r.network = cluster.NewNetwork(r.Server.Reader, c, mgr.GetCache(), cluster.TrafficRoutings, r.Configuration)
	return nil
}
