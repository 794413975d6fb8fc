// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "github.com/weir-rollouts/weir/pkg/apis/rollouts"

// reconcileTraffic keeps the network on pods that exist, where the workload was scaled so far
// down that stable has none, or that the set of the update revision was made again
// under another label; the Service on those of stable only; and routers at what they
// were told. Between two steps a release that goes on does the rest itself, and one
// that does not leaves it. A workload of size 0 is another matter.
func reconcileTraffic(d *draft, goes bool) {
	step := d.step()
	if d.Route == nil || step == nil {
		return
	}
	switch between := betweenSteps(d.facts); {
	case scaledToZero(d.facts) && (!between || !goes || !d.route().canChange()):
		disableRoutes(d, step, goes)
	case !between:
		unpinEmptyStable(d, step)
		restorePin(d, step)
		repairRoute(d)
		resumeBatchAfterZero(d, step)
	default:
		reconcileTrafficBetweenSteps(d, step, goes)
	}
}

// reconcileTrafficBetweenSteps does that between two steps.
func reconcileTrafficBetweenSteps(d *draft, step *rollouts.Step, goes bool) {
	switch {
	case goes && pinsService(d.facts, step):
		repairRoute(d)
	case goes:
	default:
		unpinEmptyStable(d, step)
		restoreCanaryService(d)
		if targetReplicas(d.facts) == 0 || !d.hasReleasedTemplate() {
			removeRouteToNoPods(d) // no pod of the update revision will be created
		}
	}
}

// restoreCanaryService makes the canary Service again that somebody has deleted while routers send
// requests there, or has them forget it where that cannot be.
func restoreCanaryService(d *draft) {
	switch r, now := d.route(), servingRevision(d.facts); {
	case r == nil || !r.Routed || r.Shared || r.Canary != "" || r.lastWritten().IsEmpty():
	case now != "" && r.canChange():
		routeToServing(d, now)
	default:
		d.act(RemoveRoute{})
	}
}

// betweenSteps reports whether the way to a step, or out of the release, has begun.
func betweenSteps(f *facts) bool {
	p := f.progress()
	return p.State == rollouts.BeforeStepUpgrade || p.FinalisingStep != ""
}

// unpinEmptyStable lets the Service select all pods again where stable has none that serves,
// or is to have none, and where the Service is not this release's.
func unpinEmptyStable(d *draft, step *rollouts.Step) {
	if r := d.route(); r.Pinned != "" && (r.OwnershipConflict != "" || onlyOtherReady(d.facts) || d.hasReleasedTemplate() && allPodsUpdated(d.facts, step)) {
		d.act(UnpinService{})
	}
}

// restorePin pins a Service that its owner has applied again.
func restorePin(d *draft, step *rollouts.Step) {
	r, to := d.route(), pinToStable(d.facts)
	if pinsService(d.facts, step) && !r.StableServiceMissing && r.OwnershipConflict == "" && to.Revision != "" && r.Pinned != to.Revision {
		if undone := unpinnedByOther(d.facts); undone != "" {
			reportUndone(d, undone)
		}
		d.act(to)
	}
}

// noReadyPod is why the requests of a step go to stable.
const noReadyPod = "the new version has no ready pod, and stable gets every request until it has"

// repairRoute makes routers follow a set that was made again, and puts those right
// that somebody else has changed: to the last route they were told, or to that
// of the step where they do not know it. They forget a revision that has no ready
// pod while stable has some.
func repairRoute(d *draft) {
	if now := servingRevision(d.facts); now != "" {
		routeToServing(d, now)
		return
	}
	removeRouteToNoPods(d)
}

// removeRouteToNoPods has routers forget a revision without a ready pod.
func removeRouteToNoPods(d *draft) {
	if r := d.route(); r.Routed && !r.lastWritten().IsEmpty() && onlyStableReady(d.facts) {
		d.act(RemoveRoute{})
	}
}

// routeToServing has routers send to the revision that serves what they were told.
func routeToServing(d *draft, now string) {
	p, r := d.progress(), d.route()
	if p.State != rollouts.StepUpgrade {
		p.PodTemplateHash = now
	}
	if !r.canChange() {
		return
	}
	if r.Routed && !r.Shared && r.Canary != now {
		if r.Canary == "" && stageOf(p.State).routed {
			reportUndone(d, routeUndone) // somebody has deleted the Service
		}
		d.act(RouteTraffic{Revision: now, Want: r.lastWritten()})
		return
	}
	wanted, astray := wantedRoute(d.facts)
	if !astray {
		return
	}
	if !trafficIsChanging(d.facts) {
		reportUndone(d, routeUndone)
	}
	d.act(RouteTraffic{Revision: now, Want: wanted})
}

// wantedRoute is the route that routers should do, and whether they do another one.
func wantedRoute(f *facts) (wanted Route, astray bool) {
	p, r, step := f.progress(), f.route(), f.step()
	if r.Edited {
		return plannedRoute(f, r.lastWritten()), step != nil
	}
	if step == nil || !stageOf(p.State).routed || !step.Routed() || replacesAllPods(f, step) || p.RolloutHash != f.planHash() {
		return Route{}, false
	}
	if planChanged(f) {
		return Route{}, false // routers still have the routes of the step before this edit, and the release is leaving that step
	}
	wanted = RouteOf(*step)
	return wanted, !r.Serves(wanted, p.PodTemplateHash)
}

// plannedRoute is the route that routers were told, where a step until now has it, or
// else that of the last step that routes: a user who may write a router may write what it
// says to have been told.
func plannedRoute(f *facts, told Route) Route {
	p, last := f.progress(), Route{}
	for i := int32(1); i <= p.CurrentStepIndex; i++ {
		step := f.release.Step(i)
		if step == nil {
			break // the plan has no more, whatever number the status has
		}
		if !step.Routed() || i == p.CurrentStepIndex && !stageOf(p.State).routed {
			continue
		}
		if last = RouteOf(*step); last.Equals(told) {
			return told
		}
	}
	return last
}
