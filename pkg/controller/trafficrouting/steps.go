// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package trafficrouting

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/pass"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/routing"
	"github.com/weir-rollouts/weir/pkg/traffic"
)

// Cluster reads and writes the objects of a reconcile. It returns nil for an object that does not
// exist.
type Cluster interface {
	pass.Writer
	TrafficRouting(context.Context, types.NamespacedName) (*rollouts.TrafficRouting, error)
	// GoneUsers returns the Rollouts that have a finalizer on a TrafficRouting but do not exist.
	GoneUsers(context.Context, *rollouts.TrafficRouting) ([]string, error)
	// OthersOfRouting returns the other releases that use the objects of the TrafficRouting.
	OthersOfRouting(context.Context, *rollouts.TrafficRouting) ([]traffic.OtherRelease, error)
	// ReadNetwork reads the named Services and routers.
	ReadNetwork(ctx context.Context, namespace, service string, o *traffic.Objects) error

	// CommitTrafficRouting stores a status with the resource version of the TrafficRouting as a
	// precondition, and returns the stored object.
	CommitTrafficRouting(context.Context, *rollouts.TrafficRouting, rollouts.TrafficRoutingStatus) (*rollouts.TrafficRouting, error)
	AddFinalizer(ctx context.Context, o object.Object, finalizer string) error
	DropFinalizer(ctx context.Context, o object.Object, finalizer string) error
}

// Observation has the observations of one reconcile, and the objects from which changes are
// computed.
type Observation struct {
	Facts routing.Observed
	// Routing is the stored object, and Facts.Routing the observed one.
	Routing *rollouts.TrafficRouting
	objects traffic.Objects
}

// runner implements the steps of a reconcile.
type runner struct {
	Cluster
	now func() time.Time
}

// Steps returns the steps of a reconcile of a TrafficRouting.
func Steps(c Cluster, now func() time.Time) pass.Steps[Observation, rollouts.TrafficRoutingStatus] {
	p := runner{Cluster: c, now: now}
	return pass.Steps[Observation, rollouts.TrafficRoutingStatus]{
		Observe: p.observe,
		Decide:  Decide,
		Status:  func(o *Observation) rollouts.TrafficRoutingStatus { return o.Routing.Status },
		Commit:  pass.Store(func(o *Observation) **rollouts.TrafficRouting { return &o.Routing }, c.CommitTrafficRouting),
		Act:     p.act,
		Again:   func(o *Observation) time.Duration { return cluster.Again(o.objects) },
	}
}

// Decide calls routing.Decide.
func Decide(o *Observation) pass.Decision[rollouts.TrafficRoutingStatus] {
	plan := routing.Decide(o.Facts)
	return pass.Decision[rollouts.TrafficRoutingStatus]{
		Rule: plan.Rule, Status: plan.Status, Actions: planner.Actions(planner.AfterStatus, plan.Rule, plan.Actions...), Events: plan.Events, Wake: plan.RequeueAfter,
	}
}

// observe reads the objects that the TrafficRouting names. One Service serves both revisions, and
// routers distinguish the revisions themselves.
func (p runner) observe(ctx context.Context, key types.NamespacedName) (*Observation, error) {
	r, err := p.TrafficRouting(ctx, key)
	if err != nil || r == nil {
		return nil, err
	}
	obs := &Observation{Routing: r, Facts: routing.Observed{Now: p.now(), Routing: r}}
	if obs.Facts.MissingRollouts, err = p.GoneUsers(ctx, r); err != nil {
		return nil, err
	}
	if len(r.Spec.ObjectRef) == 0 {
		return obs, nil
	}
	ref := r.Spec.ObjectRef[0]
	obs.objects = traffic.Objects{
		Owner: cluster.OwnedBy(r), Shared: true, Routers: traffic.RoutersFor(ref, "spec.objectRef[0]"),
	}
	if !routing.MayHaveRoutes(r) {
		obs.objects.OriginalDigests = []string{} // nothing has been kept on routers yet
	}
	if obs.objects.OtherReleases, err = p.OthersOfRouting(ctx, r); err != nil {
		return nil, err
	}
	if err := p.ReadNetwork(ctx, r.Namespace, ref.Service, &obs.objects); err != nil {
		return nil, err
	}
	route := traffic.Observe(obs.objects, ref, routing.StepOf(r))
	obs.Facts.Route = &route
	return obs, nil
}

func (p runner) act(ctx context.Context, obs *Observation, action planner.Action) error {
	switch a := action.Effect.(type) {
	case planner.Guard:
		return p.AddFinalizer(ctx, obs.Routing, rollouts.FinalizerTrafficRouting)
	case planner.RemoveStaleReference:
		return p.DropFinalizer(ctx, obs.Routing, planner.ProgressingFinalizer(a.Rollout))
	case planner.DropFinalizer:
		return p.DropFinalizer(ctx, obs.Routing, rollouts.FinalizerTrafficRouting)
	default:
		return pass.OnNetwork(ctx, p, obs.objects, a)
	}
}
