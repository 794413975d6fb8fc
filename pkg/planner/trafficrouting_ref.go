// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// How a release uses a TrafficRouting: it says by a finalizer on it that it needs
// the routes, and waits until they are there, and until they are gone.

// The actions of a Rollout on a TrafficRouting.
type (
	// LinkTrafficRouting wants a TrafficRouting to route for the Rollout.
	LinkTrafficRouting struct{ Name string }
	// UnlinkTrafficRouting wants it to do so no more.
	UnlinkTrafficRouting struct{ Name string }
)

func (LinkTrafficRouting) effect()            {}
func (UnlinkTrafficRouting) effect()          {}
func (a LinkTrafficRouting) String() string   { return "use " + routingPath(a.Name) }
func (a UnlinkTrafficRouting) String() string { return "let go of " + routingPath(a.Name) }

func routingPath(name string) string { return "trafficrouting/" + name }

// isReferenced reports whether the Rollout names a TrafficRouting.
func (r *Routing) isReferenced() bool { return r != nil && r.Name != "" }

// missingName names the TrafficRouting where there is none; one that is being
// deleted counts as gone.
func (r *Routing) missingName() string {
	if !r.isReferenced() || r.Exists {
		return ""
	}
	return routingPath(r.Name)
}

// isInUse reports whether the TrafficRouting routes, or did until now, for the Rollout
// alone.
func (r *Routing) isInUse() bool { return r.isReferenced() && (r.Linked || r.HasRoutes) }

// missingReference names what must exist in the network and does not.
func missingReference(f *facts) string {
	if f.Route != nil && f.Route.Missing != "" {
		return f.Route.Missing
	}
	return f.Routing.missingName()
}

// ensureReference uses a TrafficRouting that was made anew, or named, while the step waits, and
// lets it go while the step has no pod.
func ensureReference(d *draft) {
	r, step := d.Routing, d.step()
	if r.isReferenced() && r.Linked && step != nil && onlyStablePodKept(d.facts, step) {
		d.act(UnlinkTrafficRouting{Name: r.Name})
	}
	if r.isReferenced() && r.Exists && !r.Linked && d.progress().State == rollouts.StepPaused && d.w.UpdatedReadyReplicas > 0 {
		d.act(LinkTrafficRouting{Name: r.Name})
	}
}

// remainingUnlink lets the TrafficRouting go and waits until it has taken its routes
// back, but for those that another Rollout needs: requests that it selects must
// not be sent to pods that are about to go.
func remainingUnlink(f *facts, _ rollouts.ReleasePlan) remainingWork {
	switch r := f.Routing; {
	case !r.isReferenced():
	case r.Linked:
		return remainingWork{action: UnlinkTrafficRouting{Name: r.Name}}
	case r.HasRoutes:
		return remainingWork{waits: true, cause: routingPath(r.Name) + ": " + r.Message}
	}
	return remainingWork{}
}

// unlinkUnused lets go of TrafficRoutings that the Rollout does not need: those
// that it names no longer, one that was deleted, and all where no release is
// under way, as after somebody has made the Rollout anew.
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
