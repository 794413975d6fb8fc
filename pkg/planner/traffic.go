// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The targets of the stages of a step: what each of them changes on Services, routers and pods.

const keepOnStable = "keep traffic on the stable version while pods are upgraded"

// prepareNetwork makes the network ready before pods change. Before the first new pod exists, the stable
// Service is pinned: it selects only stable pods. A step without traffic needs no pin, route and canary
// Service: prepareNetwork removes them, so that traffic moves before the pods. A step that replaces all pods
// removes only the pin.
func prepareNetwork(f facts, step *rollouts.Step) targetResult {
	var result targetResult
	switch r := f.route(); {
	case r == nil:
	case step.AsksForTraffic() && !r.canChange():
		if result = routeBlocked(r); r.OwnershipConflict != "" && r.Pinned != "" {
			result.action = UnpinService{} // its owner has given the Service to another workload
		}
	case !step.AsksForTraffic():
		result.remainingWork = remainingTeardown(f, unrouted, rollouts.ReleasePlan{})
	case !pinsService(f, step):
		result.remainingWork = remainingTeardown(f, unpinned, rollouts.ReleasePlan{})
	case r.Pinned != pinToStable(f).Revision:
		result = targetResult{remainingWork: remainingWork{action: pinToStable(f)}, restartsGrace: true, message: keepOnStable, undone: unpinnedByOther(f)}
	default:
		result = targetResult{remainingWork: remainingWork{settles: graceRemainingFor(f, pinToStable(f))}, effective: pinToStable(f), message: keepOnStable}
	}
	// A jump is carried out when the step that it names begins.
	result.appliedVerb, result.message = rollouts.VerbJump, cmp.Or(result.message, fmt.Sprintf("prepare the Services and routes for step %d", f.progress().CurrentStepIndex))
	return result
}

// routeBlocked returns the result of a target that waits because the requests of the step cannot be routed.
func routeBlocked(r *Route) targetResult {
	if r.Missing != "" {
		return waitFor("wait for "+r.Missing+", which does not exist", r.Obstacle())
	}
	return waitFor("cannot route traffic to new version: "+r.Obstacle(), r.Obstacle())
}

// pinsService reports whether the stable Service selects only stable pods in a step. A Service that is
// pinned while no stable pod exists would lose every request.
func pinsService(f facts, step *rollouts.Step) bool {
	return step.AsksForTraffic() && !f.route().Shared && !replacesAllPods(f, step) && !stableEmpty(f) && !allPodsUpdated(f, step)
}

// pinToStable returns the effect that pins the stable Service to the stable revision.
func pinToStable(f facts) PinService { return PinService{Revision: f.progress().StableRevision} }

// unpinnedByOther returns the message that somebody has unpinned the Service; empty if nobody has.
func unpinnedByOther(f facts) string {
	if hold := f.Rollout.Status.Network; hold != nil && hold.Pinned != "" && hold.Pinned == pinToStable(f).Revision && !trafficIsChanging(f) {
		return pinUndone
	}
	return ""
}

const upgradeMessage = "upgrade workload to new version"

// upgradePods runs the batch of the step.
func upgradePods(f facts, _ *rollouts.Step) targetResult {
	p, b := f.progress(), f.Batch
	result := targetResult{runsNext: true}
	if b != nil && b.Terminating {
		result.waits = true
		return result
	}
	switch plan := planForStep(f, p.CurrentStepIndex); {
	case b == nil || BatchPlanHash(b.Plan) != BatchPlanHash(plan):
		result.message, result.action, result.restartsGrace = upgradeMessage, RunBatch{Plan: plan}, true
	case !b.Observed || b.State != rollouts.BatchReady || b.Index+1 < p.CurrentStepIndex:
		if result.message, result.waits = upgradeMessage, true; b.Message != "" {
			result.message += ": " + b.Message
		} else if left := untilWaitExplained(f); left > 0 {
			result.checkAgain = left
		} else if reason := batchWaitReason(f); reason != "" {
			result.message, result.cause = result.message+": "+reason, reason
		}
	default:
		result.waits = f.w.PodTemplateHash == "" && f.w.Replicas != 0
	}
	return result
}

// introduceCanaryService creates the canary Service while its first pods start, and waits one grace period
// until routers know the Service. Routers watch Services and routes separately: a router that learns
// of a route before it learns of the Service answers the requests with errors.
func introduceCanaryService(f facts, step *rollouts.Step) targetResult {
	r, revision := f.route(), f.w.PodTemplateHash
	var result targetResult
	switch {
	case !needsCanaryService(f, step):
	case revision == "":
		result.waits = f.w.Replicas != 0
	case r.Canary != revision:
		result.action = SetCanaryService{Revision: revision}
	default:
		to := SetCanaryService{Revision: revision}
		result.effective, result.settles = to, graceRemainingFor(f, to)
	}
	if !result.isDone() && upgradePods(f, step).isDone() {
		result.message = "wait until the routers observe the canary Service"
	}
	return result
}

// needsCanaryService reports whether a step needs the canary Service and routers do not use it yet.
func needsCanaryService(f facts, step *rollouts.Step) bool {
	r := f.route()
	if r == nil || r.Routed || r.Shared || !r.canChange() {
		return false
	}
	return !RouteOf(*step).IsEmpty() && !replacesAllPods(f, step) && !onlyStablePodKept(f, step)
}

// linkRouting makes the referenced TrafficRouting send its requests to the update revision. It links the
// TrafficRouting only when pods of that revision exist, because the requests would be lost before.
func linkRouting(f facts, step *rollouts.Step) targetResult {
	r := f.Routing
	switch {
	case onlyStablePodKept(f, step), !r.isReferenced(), !r.Linked && f.w.UpdatedReadyReplicas == 0:
		return targetResult{}
	case !r.Exists:
		return waitFor("wait for "+routingPath(r.Name)+", which does not exist", routingPath(r.Name)+" does not exist")
	case !r.Linked:
		return targetResult{remainingWork: remainingWork{action: LinkTrafficRouting{Name: r.Name}}, restartsGrace: true, message: "route traffic to new version"}
	case !r.Routed:
		return waitFor("route traffic to new version by "+routingPath(r.Name)+": "+r.Message, routingPath(r.Name)+": "+r.Message)
	default:
		return targetResult{}
	}
}

// routeStepTraffic routes the traffic of the step. The target is met when every router follows the route.
func routeStepTraffic(f facts, step *rollouts.Step) targetResult {
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
		result := targetResult{remainingWork: remainingWork{action: to}, restartsGrace: true, message: "route traffic to new version"}
		if c := f.status.TrafficChange; c != nil && c.Target == trafficTargetID(to) {
			result.undone = routeUndone
		}
		return result
	default:
		return routeTakesEffect(f, to)
	}
}

// routesNothing reports whether a step needs no route.
func routesNothing(f facts, step *rollouts.Step) bool {
	return !step.AsksForTraffic() || onlyStablePodKept(f, step) || replacesAllPods(f, step)
}

// routeTakesEffect waits until every router follows the route that was written.
func routeTakesEffect(f facts, to RouteTraffic) targetResult {
	r := f.route()
	switch {
	case r.refusal() != "":
		return waitFor("cannot route traffic to new version: "+r.refusal(), r.refusal())
	case r.Pending != "":
		return waitFor("wait for the router to accept the route: "+r.Pending, r.Pending)
	case !r.Routed:
		return targetResult{}
	}
	return targetResult{remainingWork: remainingWork{settles: graceRemainingFor(f, to)}, effective: to}
}
