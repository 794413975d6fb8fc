// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// What the stages of a step want of Services and routers, and of pods.

const keepOnStable = "keep traffic on the stable version while pods are upgraded"

// prepareNetwork readies the network before pods change: the stable Service selects
// stable pods only before the first new pod exists. A step without traffic has
// none of it, and neither has one that replaces every pod.
func prepareNetwork(f *facts, step *rollouts.Step) targetResult {
	var w targetResult
	switch r := f.route(); {
	case r == nil:
	case step.Routed() && !r.canChange():
		if w = routeBlocked(r); r.Barred != "" && r.Pinned != "" {
			w.action = UnpinService{} // its owner has given the Service to another workload
		}
	case !step.Routed():
		w.remainingWork = remainingTeardown(f, unrouted, rollouts.ReleasePlan{})
	case !pinsService(f, step):
		w.remainingWork = remainingTeardown(f, unpinned, rollouts.ReleasePlan{})
	case r.Pinned != pinToStable(f).Revision:
		w = targetResult{remainingWork: remainingWork{action: pinToStable(f)}, orders: true, message: keepOnStable, undone: unpinnedByOther(f)}
	default:
		w = targetResult{remainingWork: remainingWork{settles: graceRemainingFor(f, pinToStable(f))}, found: pinToStable(f), message: keepOnStable}
	}
	w.applies, w.message = rollouts.VerbJump, cmp.Or(w.message, "make the network ready for it")
	return w
}

// routeBlocked is what a step waits for whose requests cannot be routed.
func routeBlocked(r *Route) targetResult {
	if r.Missing != "" {
		return waitFor("wait for "+r.Missing+", which does not exist", r.Obstacle())
	}
	return waitFor("cannot route traffic to new version: "+r.Obstacle(), r.Obstacle())
}

// pinsService reports whether the stable Service selects stable pods only at a step. One
// that is pinned to no pod would lose every request.
func pinsService(f *facts, step *rollouts.Step) bool {
	return step.Routed() && !f.route().Shared && !replacesAllPods(f, step) && !stableEmpty(f) && !allPodsUpdated(f, step)
}

// pinToStable is what a step wants of the stable Service.
func pinToStable(f *facts) PinService { return PinService{Revision: f.progress().StableRevision} }

// unpinnedByOther says that somebody has taken off a Service what it was found to select; empty
// if nobody has.
func unpinnedByOther(f *facts) string {
	if hold := f.Rollout.Status.Network; hold != nil && hold.Pinned != "" && hold.Pinned == pinToStable(f).Revision && !trafficIsChanging(f) {
		return pinUndone
	}
	return ""
}

const upgradeMessage = "upgrade workload to new version"

// upgradePods wants the batch of the step.
func upgradePods(f *facts, _ *rollouts.Step) targetResult {
	p, b := f.progress(), f.Batch
	w := targetResult{pursueOn: true}
	if b != nil && b.Terminating {
		w.waits = true
		return w
	}
	switch plan := planForStep(f, p.CurrentStepIndex); {
	case b == nil || BatchPlanHash(b.Plan) != BatchPlanHash(plan):
		w.message, w.action, w.orders = upgradeMessage, RunBatch{Plan: plan}, true
	case !b.Observed || b.State != rollouts.BatchReady || b.Index+1 < p.CurrentStepIndex:
		if w.message, w.waits = upgradeMessage, true; b.Message != "" {
			w.message += ": " + b.Message
		} else if left := untilWaitExplained(f); left > 0 {
			w.again = left
		} else if why := batchWaitReason(f); why != "" {
			w.message, w.cause = w.message+": "+why, why
		}
	default:
		w.waits = f.w.PodTemplateHash == "" && f.w.Replicas != 0
	}
	return w
}

// introduceCanaryService makes the canary Service while the first pods that it selects come
// up, and waits until routers have had a grace period to hear of it. They watch
// Services and routes apart from each other, and one that hears first of a route
// to a Service answers its requests with errors.
func introduceCanaryService(f *facts, step *rollouts.Step) targetResult {
	r, revision := f.route(), f.w.PodTemplateHash
	var w targetResult
	switch {
	case !needsCanaryService(f, step):
	case revision == "":
		w.waits = f.w.Replicas != 0
	case r.Canary != revision:
		w.action = SetCanaryService{Revision: revision}
	default:
		to := SetCanaryService{Revision: revision}
		w.found, w.settles = to, graceRemainingFor(f, to)
	}
	if !w.isDone() && upgradePods(f, step).isDone() {
		w.message = "routers learn of the service of the new version"
	}
	return w
}

// needsCanaryService reports whether a step needs the canary Service, and routers do not know it.
func needsCanaryService(f *facts, step *rollouts.Step) bool {
	r := f.route()
	if r == nil || r.Routed || r.Shared || !r.canChange() {
		return false
	}
	return !RouteOf(*step).IsEmpty() && !replacesAllPods(f, step) && !onlyStablePodKept(f, step)
}

// linkRouting wants the requests that a TrafficRouting selects to reach the update
// revision. It is asked for that when there are pods of that revision and not before, or
// these requests would be lost.
func linkRouting(f *facts, step *rollouts.Step) targetResult {
	r := f.Routing
	switch {
	case onlyStablePodKept(f, step), !r.isReferenced(), !r.Linked && f.w.UpdatedReadyReplicas == 0:
		return targetResult{}
	case !r.Exists:
		return waitFor("wait for "+routingPath(r.Name)+", which does not exist", routingPath(r.Name)+" does not exist")
	case !r.Linked:
		return targetResult{remainingWork: remainingWork{action: LinkTrafficRouting{Name: r.Name}}, orders: true, message: "route traffic to new version"}
	case !r.Routed:
		return waitFor("route traffic to new version by "+routingPath(r.Name)+": "+r.Message, routingPath(r.Name)+": "+r.Message)
	default:
		return targetResult{}
	}
}

// routeStepTraffic wants the traffic of the step, and is met when it is seen everywhere.
func routeStepTraffic(f *facts, step *rollouts.Step) targetResult {
	r, p := f.route(), f.progress()
	if r == nil || routesNothing(f, step) {
		return targetResult{}
	}
	to := RouteTraffic{Revision: p.PodTemplateHash, Want: RouteOf(*step)}
	switch {
	case !r.canChange():
		return routeBlocked(r)
	case !r.Routed && f.w.UpdatedReadyReplicas == 0:
		return waitFor("wait for a ready pod of the new version", "")
	case !r.Serves(to.Want, p.PodTemplateHash):
		w := targetResult{remainingWork: remainingWork{action: to}, orders: true, message: "route traffic to new version"}
		if c := f.status.TrafficChange; c != nil && c.Target == targetOf(to) {
			w.undone = routeUndone
		}
		return w
	default:
		return routeTakesEffect(f, to)
	}
}

// routesNothing reports whether no router has anything to do for a step.
func routesNothing(f *facts, step *rollouts.Step) bool {
	return !step.Routed() || onlyStablePodKept(f, step) || replacesAllPods(f, step)
}

// routeTakesEffect waits until what routers were told is seen everywhere.
func routeTakesEffect(f *facts, to RouteTraffic) targetResult {
	r := f.route()
	switch {
	case r.refusal() != "":
		return waitFor("cannot route traffic to new version: "+r.refusal(), r.refusal())
	case r.Pending != "":
		return waitFor("wait for the router to take up the route: "+r.Pending, r.Pending)
	case !r.Routed:
		return targetResult{}
	}
	return targetResult{remainingWork: remainingWork{settles: graceRemainingFor(f, to)}, found: to}
}
