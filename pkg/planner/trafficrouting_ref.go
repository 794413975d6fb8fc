// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// A Rollout can use a TrafficRouting that the user created. The release adds a finalizer to the
// TrafficRouting to request its routes, and waits until the routes exist. At its end, the release removes
// the finalizer, and waits until the routes are removed.

// The actions of a Rollout on a TrafficRouting.
type (
	// LinkTrafficRouting adds the finalizer of the Rollout to a TrafficRouting.
	LinkTrafficRouting struct{ Name string }
	// UnlinkTrafficRouting removes the finalizer of the Rollout from a TrafficRouting.
	UnlinkTrafficRouting struct{ Name string }
)

func (LinkTrafficRouting) effect()            {}
func (UnlinkTrafficRouting) effect()          {}
func (a LinkTrafficRouting) String() string   { return "use " + routingPath(a.Name) }
func (a UnlinkTrafficRouting) String() string { return "let go of " + routingPath(a.Name) }

// routingPath returns the name of a TrafficRouting as it appears in messages.
func routingPath(name string) string { return "trafficrouting/" + name }

// isReferenced reports whether the Rollout references a TrafficRouting.
func (r *Routing) isReferenced() bool { return r != nil && r.Name != "" }

// missingName returns the name of a referenced TrafficRouting that does not exist or is being deleted;
// empty if it exists.
func (r *Routing) missingName() string {
	if !r.isReferenced() || r.Exists {
		return ""
	}
	return routingPath(r.Name)
}

// isInUse reports whether the TrafficRouting routes for the Rollout, or still has routes for it only.
func (r *Routing) isInUse() bool { return r.isReferenced() && (r.Linked || r.HasRoutes) }

// missingReference names a referenced Service, router or TrafficRouting that does not exist; empty if all exist.
func missingReference(f facts) string {
	if f.Route != nil && f.Route.Missing != "" {
		return f.Route.Missing
	}
	return f.Routing.missingName()
}

// ensureReference links a TrafficRouting that was created or referenced while the step waits. It unlinks
// the TrafficRouting while the step has no pod of the new version.
func ensureReference(d *draft) {
	r, step := d.Routing, d.step()
	if r.isReferenced() && r.Linked && step != nil && onlyStablePodKept(d.facts, step) {
		d.act(UnlinkTrafficRouting{Name: r.Name})
	}
	if r.isReferenced() && r.Exists && !r.Linked && d.progress().State == rollouts.StepPaused && d.w.UpdatedReadyReplicas > 0 {
		d.act(LinkTrafficRouting{Name: r.Name})
	}
}

// remainingUnlink unlinks the TrafficRouting and waits until it has removed its routes, because no
// request may be routed to pods that will be deleted. It does not wait for routes that another Rollout
// needs.
func remainingUnlink(f facts, _ rollouts.ReleasePlan) remainingWork {
	switch r := f.Routing; {
	case !r.isReferenced():
	case r.Linked:
		return remainingWork{action: UnlinkTrafficRouting{Name: r.Name}}
	case r.HasRoutes:
		return remainingWork{waits: true, cause: routingPath(r.Name) + ": " + r.Message}
	}
	return remainingWork{}
}

// unlinkUnused unlinks TrafficRoutings that the Rollout does not need: those that it no longer
// references, one that was deleted, and all if no release is in progress. The last case occurs if a user
// deleted the Rollout and created it again.
func unlinkUnused(d *draft) {
	r := d.Routing
	if r == nil {
		return
	}
	for _, name := range r.Unreferenced {
		d.act(UnlinkTrafficRouting{Name: name})
	}
	idle := d.status.Phase == rollouts.PhaseHealthy || d.status.Phase == rollouts.PhaseInitial || d.status.Phase == rollouts.PhaseDisabled
	if r.Linked && (r.RoutesRemoved || idle) && !d.hasAction(UnlinkTrafficRouting{Name: r.Name}) {
		d.act(UnlinkTrafficRouting{Name: r.Name})
	}
}
