// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package trafficrouting

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/reconcile"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/routing"
	"github.com/weir-rollouts/weir/pkg/traffic"
)

// Cluster reads and writes the objects of a pass. The methods return nil for an object that does not exist.
type Cluster interface {
	reconcile.Writer
	TrafficRouting(context.Context, types.NamespacedName) (*rollouts.TrafficRouting, error)
	// MissingRollouts returns the names of Rollouts that have a finalizer on a TrafficRouting but do not
	// exist.
	MissingRollouts(context.Context, *rollouts.TrafficRouting) ([]string, error)
	// OtherReleasesOfRouting returns the releases that use the same Services or routers as the
	// TrafficRouting.
	OtherReleasesOfRouting(context.Context, *rollouts.TrafficRouting) ([]traffic.OtherRelease, error)
	// ReadNetwork reads the referenced Services and routers into o.
	ReadNetwork(ctx context.Context, namespace, service string, o *traffic.Objects) error

	// CommitTrafficRouting stores a status at the resourceVersion of the TrafficRouting, and returns the
	// stored TrafficRouting.
	CommitTrafficRouting(context.Context, *rollouts.TrafficRouting, rollouts.TrafficRoutingStatus) (*rollouts.TrafficRouting, error)
	AddFinalizer(ctx context.Context, o object.Object, finalizer string) error
	RemoveFinalizer(ctx context.Context, o object.Object, finalizer string) error
}

// Pass is one pass over a TrafficRouting: what was observed, and the objects that its changes are based
// on.
type Pass struct {
	Cluster
	reconcile.Defaults
	Facts routing.Observed
	// Routing is the TrafficRouting as it is stored now. Facts.Routing is the TrafficRouting as it was
	// observed.
	Routing *rollouts.TrafficRouting
	objects traffic.Objects
}

// Observe reads a TrafficRouting, and the Service and routers that it references. It returns nil if the
// TrafficRouting does not exist. One Service serves both revisions, and routers distinguish them.
func Observe(ctx context.Context, c Cluster, now time.Time, key types.NamespacedName) (*Pass, error) {
	r, err := c.TrafficRouting(ctx, key)
	if err != nil || r == nil {
		return nil, err
	}
	p := &Pass{Cluster: c, Routing: r, Facts: routing.Observed{Now: now, Routing: r}}
	if p.Facts.MissingRollouts, err = p.MissingRollouts(ctx, r); err != nil {
		return nil, err
	}
	if len(r.Spec.ObjectRef) == 0 {
		return p, nil
	}
	ref := r.Spec.ObjectRef[0]
	p.objects = traffic.Objects{
		Owner: cluster.OwnerReferenceTo(r), Shared: true, Routers: traffic.RoutersFor(ref, "spec.objectRef[0]"),
	}
	if !routing.MayHaveRoutes(r) {
		p.objects.OriginalDigests = []string{} // no original spec is recorded on the routers yet
	}
	if p.objects.OtherReleases, err = p.OtherReleasesOfRouting(ctx, r); err != nil {
		return nil, err
	}
	if err := p.ReadNetwork(ctx, r.Namespace, ref.Service, &p.objects); err != nil {
		return nil, err
	}
	route := traffic.Observe(p.objects, ref, routing.StepOf(r))
	p.Facts.Route = &route
	return p, nil
}

// Decide returns the plan of the pass.
func (p *Pass) Decide() reconcile.Plan[rollouts.TrafficRoutingStatus] {
	d := routing.Decide(p.Facts)
	return reconcile.Plan[rollouts.TrafficRoutingStatus]{
		Rule: d.Rule, Status: d.Status, Actions: planner.NewActions(planner.AfterStatus, d.Rule, d.Actions...), Events: d.Events, RequeueAfter: d.RequeueAfter,
	}
}

// Status implements reconcile.Object.
func (p *Pass) Status() rollouts.TrafficRoutingStatus { return p.Routing.Status }

// Commit implements reconcile.Object.
func (p *Pass) Commit(ctx context.Context, next rollouts.TrafficRoutingStatus) error {
	stored, err := p.CommitTrafficRouting(ctx, p.Routing, next)
	if err == nil {
		p.Routing = stored
	}
	return err
}

// WithWriteError implements reconcile.Object. The status of a TrafficRouting has no place for write
// errors.
func (p *Pass) WithWriteError(planner.WriteError) (next rollouts.TrafficRoutingStatus, announce, ok bool) {
	return next, false, false
}

// Act implements reconcile.Object.
func (p *Pass) Act(ctx context.Context, action planner.Action) error {
	switch a := action.Effect.(type) {
	case planner.AddRoutingFinalizer:
		return p.AddFinalizer(ctx, p.Routing, rollouts.FinalizerTrafficRouting)
	case planner.RemoveStaleReference:
		return p.RemoveFinalizer(ctx, p.Routing, planner.ProgressingFinalizer(a.Rollout))
	case planner.RemoveFinalizer:
		return p.RemoveFinalizer(ctx, p.Routing, rollouts.FinalizerTrafficRouting)
	default:
		return reconcile.ApplyNetworkEffect(ctx, p.Cluster, p.objects, a)
	}
}
