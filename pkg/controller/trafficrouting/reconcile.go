// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package trafficrouting reconciles TrafficRoutings. A pass observes the Services and routers that a
// TrafficRouting references, and carries out the decision of routing.Decide. The package does not decide
// anything itself. It knows Rollouts only as names in finalizers.
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
	"github.com/weir-rollouts/weir/pkg/controller/reconcile"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Reconciler reconciles TrafficRoutings.
type Reconciler struct {
	Server      cluster.Server
	Recorder    events.EventRecorder
	Clock       clock.PassiveClock
	Concurrency int
	network     *cluster.Network
	// limitBackoff limits the backoff of a failed pass to its planned delay (queue.BackoffLimiter).
	limitBackoff func(ctrl.Request, time.Duration)
	// ScriptNamespaces are the namespaces that may have a ConfigMap with traffic scripts of users.
	ScriptNamespaces []string
}

// Reconcile runs one pass over a TrafficRouting.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	p, err := Observe(ctx, liveCluster{r.Server, r.network}, r.Clock.Now(), req.NamespacedName)
	if p == nil || err != nil {
		return reconcile.Result(err)
	}
	plan := p.Decide()
	_, err = reconcile.Execute(ctx, reportingPass{p, r}, plan)
	return reconcile.PassResult(req, plan, cluster.RouterRequeueDelay(p.objects), r.limitBackoff, err)
}

// reportingPass is a pass that records events.
type reportingPass struct {
	*Pass
	r *Reconciler
}

// RecordEvents implements reconcile.Object.
func (p reportingPass) RecordEvents(events []planner.Event) {
	cluster.RecordEvents(p.r.Recorder, cluster.MetadataOf(p.Routing), "Route", events)
}

// liveCluster implements Cluster with informer caches and the API server.
type liveCluster struct {
	cluster.Server
	*cluster.Network
}

// SetupWithManager registers the watches. The controller watches everything that a pass observes. If a
// cluster may lack a kind of router, the watch starts when the first TrafficRouting references the kind.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	byRollout := cluster.EnqueueByIndex(r.Server, cluster.NewTrafficRoutingList, cluster.ByLinkedRollout, cluster.KeysOfRollout)
	options := queue.Options(r.Concurrency)
	r.limitBackoff = queue.BackoffLimiter(options)
	b := ctrl.NewControllerManagedBy(mgr).Named("trafficrouting").
		For(cluster.NewTrafficRouting()).
		Watches(cluster.NewRollout(), byRollout, builder.WithPredicates(cluster.OnlyDeletions())).
		WithOptions(options)
	c, err := cluster.WatchNetwork(b, r.Server.Reader, cluster.NewTrafficRoutingList).Build(r)
	if err != nil {
		return err
	}
	r.network = cluster.NewNetwork(r.Server.Reader, c, mgr.GetCache(), cluster.NewTrafficRoutingList, r.ScriptNamespaces)
	return nil
}
