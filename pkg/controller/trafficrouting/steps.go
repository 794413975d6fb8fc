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

// Cluster is what a pass reads and writes. An object that does not exist is nil.
type Cluster interface {
	pass.Writer
	TrafficRouting(context.Context, types.NamespacedName) (*rollouts.TrafficRouting, error)
	// GoneUsers are the Rollouts that have a finalizer on a TrafficRouting, and do not exist.
	GoneUsers(context.Context, *rollouts.TrafficRouting) ([]string, error)
	// OthersOfRouting route by what the TrafficRouting names.
	OthersOfRouting(context.Context, *rollouts.TrafficRouting) ([]traffic.OtherRelease, error)
	// ReadNetwork fills in the Services and the routers that are named.
	ReadNetwork(ctx context.Context, namespace, service string, o *traffic.Objects) error

	// CommitTrafficRouting stores a status at the version of the TrafficRouting, and returns what is stored.
	CommitTrafficRouting(context.Context, *rollouts.TrafficRouting, rollouts.TrafficRoutingStatus) (*rollouts.TrafficRouting, error)
	AddFinalizer(ctx context.Context, o object.Object, finalizer string) error
	DropFinalizer(ctx context.Context, o object.Object, finalizer string) error
}

// Observation is one pass' view, with what its changes are based on.
type Observation struct {
	Facts routing.Observed
	// Routing is as it is stored now, and Facts.Routing as it was observed.
	Routing *rollouts.TrafficRouting
	objects traffic.Objects
}

// passes are those over the TrafficRoutings of a cluster.
type passes struct {
	Cluster
	now func() time.Time
}

// Steps are those of the passes over the TrafficRoutings of a cluster.
func Steps(c Cluster, now func() time.Time) pass.Steps[Observation, rollouts.TrafficRoutingStatus] {
	p := passes{Cluster: c, now: now}
	return pass.Steps[Observation, rollouts.TrafficRoutingStatus]{
		Observe: p.observe,
		Decide:  Decide,
		Status:  func(o *Observation) rollouts.TrafficRoutingStatus { return o.Routing.Status },
		Commit:  pass.Store(func(o *Observation) **rollouts.TrafficRouting { return &o.Routing }, c.CommitTrafficRouting),
		Act:     p.act,
		Again:   func(o *Observation) time.Duration { return cluster.Again(o.objects) },
	}
}

// Decide is routing.Decide.
func Decide(o *Observation) pass.Decision[rollouts.TrafficRoutingStatus] {
	plan := routing.Decide(o.Facts)
	return pass.Decision[rollouts.TrafficRoutingStatus]{
		Rule: plan.Rule, Status: plan.Status, Actions: planner.Actions(planner.AfterStatus, plan.Rule, plan.Actions...), Events: plan.Events, Wake: plan.RequeueAfter,
	}
}

// observe reads what the TrafficRouting names. One Service serves both
// revisions, and routers tell them apart by themselves.
func (p passes) observe(ctx context.Context, key types.NamespacedName) (*Observation, error) {
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

func (p passes) act(ctx context.Context, obs *Observation, action planner.Action) error {
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
