// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// What the stages of a step want of Services and routers, and of pods.

const keepOnStable = "keep traffic on the stable version while pods are upgraded"

// preparing readies the network before pods change: the stable Service selects
// stable pods only before the first new pod exists. A step without traffic has
// none of it, and neither has one that replaces every pod.
func preparing(f *facts, step *rollouts.Step) want {
	var w want
	switch r := f.route(); {
	case r == nil:
	case step.Routed() && !r.able():
		if w = unable(r); r.Barred != "" && r.Pinned != "" {
			w.action = Unpin{} // its owner has given the Service to another workload
		}
	case !step.Routed():
		w.remains = remaining(f, unrouted, rollouts.ReleasePlan{})
	case !pins(f, step):
		w.remains = remaining(f, unpinned, rollouts.ReleasePlan{})
	case r.Pinned != pin(f).Revision:
		w = want{remains: remains{action: pin(f)}, orders: true, message: keepOnStable, undone: unpinnedBy(f)}
	default:
		w = want{remains: remains{settles: settles(f, pin(f))}, found: pin(f), message: keepOnStable}
	}
	w.applies, w.message = rollouts.VerbJump, cmp.Or(w.message, "make the network ready for it")
	return w
}

// unable is what a step waits for whose requests cannot be routed.
func unable(r *Route) want {
	if r.Missing != "" {
		return waitFor("wait for "+r.Missing+", which does not exist", r.Obstacle())
	}
	return waitFor("cannot route traffic to new version: "+r.Obstacle(), r.Obstacle())
}

// pins reports whether the stable Service selects stable pods only at a step. One
// that is pinned to no pod would lose every request.
func pins(f *facts, step *rollouts.Step) bool {
	return step.Routed() && !f.route().Shared && !everyPod(f, step) && !stableEmpty(f) && !outgrown(f, step)
}

// pin is what a step wants of the stable Service.
func pin(f *facts) Pin { return Pin{Revision: f.progress().StableRevision} }

// unpinnedBy says that somebody has taken off a Service what it was found to select; empty
// if nobody has.
func unpinnedBy(f *facts) string {
	if hold := f.Rollout.Status.Network; hold != nil && hold.Pinned != "" && hold.Pinned == pin(f).Revision && !changing(f) {
		return pinUndone
	}
	return ""
}

const upgradeMessage = "upgrade workload to new version"

// upgrading wants the batch of the step.
func upgrading(f *facts, _ *rollouts.Step) want {
	p, b := f.progress(), f.Batch
	w := want{pursueOn: true}
	if b != nil && b.Terminating {
		w.waits = true
		return w
	}
	switch plan := planTo(f, p.CurrentStepIndex); {
	case b == nil || BatchPlanHash(b.Plan) != BatchPlanHash(plan):
		w.message, w.action, w.orders = upgradeMessage, RunBatch{Plan: plan}, true
	case !b.Observed || b.State != rollouts.BatchReady || b.Index+1 < p.CurrentStepIndex:
		if w.message, w.waits = upgradeMessage, true; b.Message != "" {
			w.message += ": " + b.Message
		} else if left := untilSaid(f); left > 0 {
			w.again = left
		} else if why := awaited(f); why != "" {
			w.message, w.cause = w.message+": "+why, why
		}
	default:
		w.waits = f.w.PodTemplateHash == "" && f.w.Replicas != 0
	}
	return w
}

// introducing makes the canary Service while the first pods that it selects come
// up, and waits until routers have had a grace period to hear of it. They watch
// Services and routes apart from each other, and one that hears first of a route
// to a Service answers its requests with errors.
func introducing(f *facts, step *rollouts.Step) want {
	r, revision := f.route(), f.w.PodTemplateHash
	var w want
	switch {
	case !introduces(f, step):
	case revision == "":
		w.waits = f.w.Replicas != 0
	case r.Canary != revision:
		w.action = ServeCanary{Revision: revision}
	default:
		to := ServeCanary{Revision: revision}
		w.found, w.settles = to, settles(f, to)
	}
	if !w.done() && upgrading(f, step).done() {
		w.message = "routers learn of the service of the new version"
	}
	return w
}

// introduces reports whether a step needs the canary Service, and routers do not know it.
func introduces(f *facts, step *rollouts.Step) bool {
	r := f.route()
	if r == nil || r.Routed || r.Shared || !r.able() {
		return false
	}
	return !RouteOf(*step).Nothing() && !everyPod(f, step) && !spared(f, step)
}

// linking wants the requests that a TrafficRouting selects to reach the update
// revision. It is asked for that when there are pods of that revision and not before, or
// these requests would be lost.
func linking(f *facts, step *rollouts.Step) want {
	r := f.Routing
	switch {
	case spared(f, step), !r.names(), !r.Linked && f.w.UpdatedReadyReplicas == 0:
		return want{}
	case !r.Exists:
		return waitFor("wait for "+routingPath(r.Name)+", which does not exist", routingPath(r.Name)+" does not exist")
	case !r.Linked:
		return want{remains: remains{action: Link{Name: r.Name}}, orders: true, message: "route traffic to new version"}
	case !r.Routed:
		return waitFor("route traffic to new version by "+routingPath(r.Name)+": "+r.Message, routingPath(r.Name)+": "+r.Message)
	default:
		return want{}
	}
}

// routingTraffic wants the traffic of the step, and is met when it is seen everywhere.
func routingTraffic(f *facts, step *rollouts.Step) want {
	r, p := f.route(), f.progress()
	if r == nil || routesNothing(f, step) {
		return want{}
	}
	to := RouteTo{Revision: p.PodTemplateHash, Want: RouteOf(*step)}
	switch {
	case !r.able():
		return unable(r)
	case !r.Routed && f.w.UpdatedReadyReplicas == 0:
		return waitFor("wait for a ready pod of the new version", "")
	case !r.Carries(to.Want, p.PodTemplateHash):
		w := want{remains: remains{action: to}, orders: true, message: "route traffic to new version"}
		if c := f.status.TrafficChange; c != nil && c.Target == targetOf(to) {
			w.undone = routeUndone
		}
		return w
	default:
		return arriving(f, to)
	}
}

// routesNothing reports whether no router has anything to do for a step.
func routesNothing(f *facts, step *rollouts.Step) bool {
	return !step.Routed() || spared(f, step) || everyPod(f, step)
}

// arriving waits until what routers were told is seen everywhere.
func arriving(f *facts, to RouteTo) want {
	r := f.route()
	switch {
	case r.refuses() != "":
		return waitFor("cannot route traffic to new version: "+r.refuses(), r.refuses())
	case r.Pending != "":
		return waitFor("wait for the router to take up the route: "+r.Pending, r.Pending)
	case !r.Routed:
		return want{}
	}
	return want{remains: remains{settles: settles(f, to)}, found: to}
}
