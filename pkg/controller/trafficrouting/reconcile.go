// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package trafficrouting runs the passes over TrafficRoutings. It answers what is
// observed of the Services and routers that one names, and carries out what
// planner.TrafficRouting decided about them; it must not decide anything itself,
// and knows of Rollouts only that some are under way.
package trafficrouting

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
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

// moved is how soon to look again when somebody else wrote first.
const moved = 20 * time.Millisecond

// observation is one pass' view, with what its changes are based on.
type observation struct {
	facts   planner.RoutingObserved
	objects traffic.Objects
}

// Reconcile runs one pass: observe, plan, commit, announce, apply.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obs, err := r.observe(ctx, req)
	if cluster.Behind(err) {
		return ctrl.Result{RequeueAfter: cluster.Patience}, nil
	}
	if err != nil || obs == nil {
		return ctrl.Result{}, err
	}
	plan := planner.TrafficRouting(obs.facts)
	err = r.Server.CommitTrafficRouting(ctx, obs.facts.Routing, plan.Status, len(plan.Actions) > 0)
	if err == nil {
		r.announce(obs.facts.Routing, plan.Events)
		err = r.apply(ctx, obs, plan)
	}
	if cluster.Moved(err) {
		return ctrl.Result{RequeueAfter: moved}, nil
	}
	if cluster.Vanished(err, req.Name) {
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("applying %q: %w", plan.Rule, err)
	}
	if plan.Wake == 0 {
		plan.Wake = cluster.Again(obs.objects)
	}
	return ctrl.Result{RequeueAfter: plan.Wake}, nil
}

// observe reads what the TrafficRouting names. One Service serves both
// revisions, and routers tell them apart by themselves.
func (r *Reconciler) observe(ctx context.Context, req ctrl.Request) (*observation, error) {
	routing, err := r.Server.TrafficRouting(ctx, req.NamespacedName)
	if err != nil || routing == nil {
		return nil, err
	}
	obs := &observation{facts: planner.RoutingObserved{Now: r.Clock.Now(), Routing: routing}}
	if obs.facts.Gone, err = r.Server.GoneUsers(ctx, routing); err != nil {
		return nil, err
	}
	if len(routing.Spec.ObjectRef) == 0 {
		return obs, nil
	}
	ref := routing.Spec.ObjectRef[0]
	obs.objects = traffic.Objects{
		Owner: cluster.OwnedByRouting(routing), Shared: true, Routers: traffic.Routers(ref, "spec.objectRef[0]"),
	}
	if !planner.Routes(routing) {
		obs.objects.Originals = []string{} // nothing has been kept on routers yet
	}
	if obs.objects.Others, err = r.Server.OthersOfRouting(ctx, routing); err != nil {
		return nil, err
	}
	if err := r.network.Read(ctx, routing.Namespace, ref.Service, &obs.objects); err != nil {
		return nil, err
	}
	route := traffic.Observe(obs.objects, ref, planner.RoutingStep(routing))
	obs.facts.Route = &route
	return obs, nil
}

// announce tells what has happened, now that it is stored.
func (r *Reconciler) announce(routing *rollouts.TrafficRouting, announced []planner.Event) {
	about := cluster.AboutRouting(routing)
	for _, e := range announced {
		r.Recorder.Eventf(about, nil, cluster.EventType(e), e.Reason, "Route", "%s", e.Message)
	}
}

func (r *Reconciler) apply(ctx context.Context, obs *observation, plan planner.RoutingPlan) error {
	for _, action := range plan.Actions {
		logf.FromContext(ctx).Info("Acting", "action", action.String(), "reason", plan.Rule)
		if err := r.act(ctx, obs, action); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) act(ctx context.Context, obs *observation, action planner.Action) error {
	switch a := action.(type) {
	case planner.Guard:
		return r.Server.GuardTrafficRouting(ctx, obs.facts.Routing)
	case planner.RemoveStaleReference:
		return r.Server.RemoveStaleReference(ctx, obs.facts.Routing, a.Rollout)
	case planner.DropFinalizer:
		return r.Server.ReleaseTrafficRouting(ctx, obs.facts.Routing)
	case planner.RouteTo:
		changes, err := traffic.Route(obs.objects, a.Revision, a.Want)
		if err != nil {
			return err
		}
		return r.Server.Write(ctx, changes)
	case planner.Unroute:
		return r.Server.Unroute(ctx, obs.objects)
	default:
		return fmt.Errorf("no effect for %q", action)
	}
}

// SetupWithManager registers the watches: everything that a pass observes wakes
// the next one, and kinds of routers that a cluster may lack are watched from
// the first time that one is named.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	naming := func(kind string) handler.EventHandler {
		return r.Server.Enqueue(cluster.TrafficRoutings, cluster.ByNetwork, cluster.IsNetwork(kind))
	}
	c, err := ctrl.NewControllerManagedBy(mgr).Named("trafficrouting").
		For(cluster.NewTrafficRouting()).
		Watches(&corev1.Service{}, naming("Service")).
		Watches(&networkingv1.Ingress{}, naming("Ingress")).
		Watches(cluster.NewRollout(), r.Server.Enqueue(cluster.TrafficRoutings, cluster.ByUser, cluster.IsUser), builder.WithPredicates(cluster.Deleted())).
		Watches(&corev1.ConfigMap{}, r.Server.EnqueueRouted(cluster.TrafficRoutings)).
		Watches(cluster.Definitions(), r.Server.EnqueueDefined(cluster.TrafficRoutings)).
		WithOptions(fair.Options(r.Concurrency)).
		Build(r)
	if err != nil {
		return err
	}
	r.network = cluster.Network{Server: r.Server, Configuration: r.Configuration, Watch: func(o client.Object) error {
		return c.Watch(source.Kind(mgr.GetCache(), o, naming(o.GetObjectKind().GroupVersionKind().Kind)))
	}}
	return nil
}
