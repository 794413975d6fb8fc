// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"

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

func (Link) action()            {}
func (Unlink) action()          {}
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
func (x *pass) lacks() string {
	if x.Route != nil && x.Route.Missing != "" {
		return x.Route.Missing
	}
	return x.Routing.unroutable()
}

// linked wants the requests that a TrafficRouting selects to reach the update
// revision, and tells whether they do. It is asked for that when there are pods
// of that revision and not before, or these requests would be lost.
func (x *pass) linked() bool {
	switch r := x.Routing; {
	case !r.names(), !r.Linked && x.w.UpdatedReadyReplicas == 0:
		return true
	case !r.Exists:
		x.say("wait for " + routingPath(r.Name) + ", which does not exist")
		x.cause = routingPath(r.Name) + " does not exist"
	case !r.Linked:
		x.say("route traffic to new version")
		x.issue(Link{Name: r.Name})
	case !r.Routed:
		x.say("route traffic to new version by " + routingPath(r.Name) + ": " + r.Message)
		x.cause = routingPath(r.Name) + ": " + r.Message
	default:
		return true
	}
	return false
}

// ensureReference uses a TrafficRouting that was made anew, or named, while the step waits, and
// lets it go while the step has no pod.
func (x *pass) ensureReference() {
	r, step := x.Routing, x.release.Step(x.progress().CurrentStepIndex)
	if r.names() && r.Linked && step != nil && x.spared(step) {
		x.act(Unlink{Name: r.Name})
	}
	if r.names() && r.Exists && !r.Linked && x.progress().State == rollouts.StepPaused && x.w.UpdatedReadyReplicas > 0 {
		x.act(Link{Name: r.Name})
	}
}

// unlinking lets the TrafficRouting go and waits until it has taken its routes
// back, but for those that another Rollout needs: requests that it selects must
// not be sent to pods that are about to go.
func (x *pass) unlinking() remains {
	switch r := x.Routing; {
	case !r.names():
	case r.Linked:
		return remains{action: Unlink{Name: r.Name}}
	case r.Busy:
		x.cause = routingPath(r.Name) + ": " + r.Message
		return remains{wait: true}
	}
	return remains{}
}

// forgetRoutings lets go of TrafficRoutings that the Rollout does not need: those
// that it names no longer, one that was deleted, and all where no release is
// under way, as after somebody has made the Rollout anew.
func (x *pass) forgetRoutings() {
	r := x.Routing
	if r == nil {
		return
	}
	for _, name := range r.Strays {
		x.act(Unlink{Name: name})
	}
	idle := x.status.Phase == rollouts.PhaseHealthy || x.status.Phase == rollouts.PhaseInitial || x.status.Phase == rollouts.PhaseDisabled
	if r.Linked && (r.Lost || idle) && !slices.Contains(x.actions, Action(Unlink{Name: r.Name})) {
		x.act(Unlink{Name: r.Name})
	}
}
