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
	// Link wants a TrafficRouting to route for the Rollout.
	Link struct{ Name string }
	// Unlink wants it to do so no more.
	Unlink struct{ Name string }
)

func (Link) effect()            {}
func (Unlink) effect()          {}
func (a Link) String() string   { return "use " + routingPath(a.Name) }
func (a Unlink) String() string { return "let go of " + routingPath(a.Name) }

func routingPath(name string) string { return "trafficrouting/" + name }

// names reports whether the Rollout names a TrafficRouting.
func (r *Routing) names() bool { return r != nil && r.Name != "" }

// unroutable names the TrafficRouting where there is none; one that is being
// deleted counts as gone.
func (r *Routing) unroutable() string {
	if !r.names() || r.Exists {
		return ""
	}
	return routingPath(r.Name)
}

// holds reports whether the TrafficRouting routes, or did until now, for the Rollout
// alone.
func (r *Routing) holds() bool { return r.names() && (r.Linked || r.Busy) }

// lacks names what must exist in the network and does not.
func lacks(f *facts) string {
	if f.Route != nil && f.Route.Missing != "" {
		return f.Route.Missing
	}
	return f.Routing.unroutable()
}

// ensureReference uses a TrafficRouting that was made anew, or named, while the step waits, and
// lets it go while the step has no pod.
func ensureReference(d *draft) {
	r, step := d.Routing, d.step()
	if r.names() && r.Linked && step != nil && spared(d.facts, step) {
		d.act(Unlink{Name: r.Name})
	}
	if r.names() && r.Exists && !r.Linked && d.progress().State == rollouts.StepPaused && d.w.UpdatedReadyReplicas > 0 {
		d.act(Link{Name: r.Name})
	}
}

// unlinking lets the TrafficRouting go and waits until it has taken its routes
// back, but for those that another Rollout needs: requests that it selects must
// not be sent to pods that are about to go.
func unlinking(f *facts, _ rollouts.ReleasePlan) remains {
	switch r := f.Routing; {
	case !r.names():
	case r.Linked:
		return remains{action: Unlink{Name: r.Name}}
	case r.Busy:
		return remains{waits: true, cause: routingPath(r.Name) + ": " + r.Message}
	}
	return remains{}
}

// forgetRoutings lets go of TrafficRoutings that the Rollout does not need: those
// that it names no longer, one that was deleted, and all where no release is
// under way, as after somebody has made the Rollout anew.
func forgetRoutings(d *draft) {
	r := d.Routing
	if r == nil {
		return
	}
	for _, name := range r.Strays {
		d.act(Unlink{Name: name})
	}
	idle := d.status.Phase == rollouts.PhaseHealthy || d.status.Phase == rollouts.PhaseInitial || d.status.Phase == rollouts.PhaseDisabled
	if r.Linked && (r.Lost || idle) && !d.acts(Unlink{Name: r.Name}) {
		d.act(Unlink{Name: r.Name})
	}
}
