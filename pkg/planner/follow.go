// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "github.com/weir-rollouts/weir/pkg/apis/rollouts"

// reconcileTraffic keeps Services and routers as the release has set them, and on pods that exist. The
// pods can change without the release: the workload is scaled down until no stable pod is left, or the
// ReplicaSet of the update revision is created again with another label. Somebody may also write the
// Service or the routers. running reports whether the steps of the release continue: between two steps a
// running release changes the network itself, and a paused one leaves it as it is. A workload of size 0
// is a case of its own (size_zero.go).
func reconcileTraffic(d *draft, running bool) {
	step := d.step()
	if d.Route == nil || step == nil {
		return
	}
	switch between := betweenSteps(d.facts); {
	case scaledToZero(d.facts) && (!between || !running || !d.route().canChange()):
		disableRoutes(d, step, running)
	case !between:
		unpinEmptyStable(d, step)
		restorePin(d, step)
		repairRoute(d)
		resumeBatchAfterZero(d, step)
	default:
		reconcileTrafficBetweenSteps(d, step, running)
	}
}

// reconcileTrafficBetweenSteps is reconcileTraffic between two steps.
func reconcileTrafficBetweenSteps(d *draft, step *rollouts.Step, running bool) {
	switch {
	case running && pinsService(d.facts, step):
		repairRoute(d)
	case running:
	default:
		unpinEmptyStable(d, step)
		restoreCanaryService(d)
		if targetReplicas(d.facts) == 0 || !d.hasReleasedTemplate() {
			removeRouteToNoPods(d) // no pod of the update revision will be created
		}
	}
}

// restoreCanaryService creates the canary Service again if somebody has deleted it while routers send
// requests to it. If it cannot be created, restoreCanaryService removes the route.
func restoreCanaryService(d *draft) {
	switch r, revision := d.route(), servingRevision(d.facts); {
	case r == nil || !r.Routed || r.Shared || r.Canary != "" || r.lastWritten().IsEmpty():
	case revision != "" && r.canChange():
		routeToServing(d, revision)
	default:
		d.act(RemoveRoute{})
	}
}

// betweenSteps reports whether the release is about to enter a step, or has begun a teardown.
func betweenSteps(f facts) bool {
	p := f.progress()
	return p.State == rollouts.BeforeStepUpgrade || p.FinalisingStep != ""
}

// unpinEmptyStable lets the Service select all pods again if no stable pod serves, if no stable pod shall
// be left, or if the Service belongs to another workload now.
func unpinEmptyStable(d *draft, step *rollouts.Step) {
	if r := d.route(); r.Pinned != "" && (r.OwnershipConflict != "" || onlyOtherReady(d.facts) || d.hasReleasedTemplate() && allPodsUpdated(d.facts, step)) {
		d.act(UnpinService{})
	}
}

// restorePin pins a Service again after its owner has applied its manifest.
func restorePin(d *draft, step *rollouts.Step) {
	r, to := d.route(), pinToStable(d.facts)
	if pinsService(d.facts, step) && !r.StableServiceMissing && r.OwnershipConflict == "" && to.Revision != "" && r.Pinned != to.Revision {
		if undone := unpinnedByOther(d.facts); undone != "" {
			reportUndone(d, undone)
		}
		d.act(to)
	}
}

// noReadyPod is the message that the requests of a step go to the stable version.
const noReadyPod = "the new version has no ready pod, and stable gets every request until it has"

// repairRoute makes routers send their requests to the update revision as the release has set them, after
// its ReplicaSet was created again or somebody has changed a router. If the update revision has no ready
// pod while the stable one has some, repairRoute removes the route.
func repairRoute(d *draft) {
	if revision := servingRevision(d.facts); revision != "" {
		routeToServing(d, revision)
		return
	}
	removeRouteToNoPods(d)
}

// removeRouteToNoPods removes the route to an update revision without a ready pod.
func removeRouteToNoPods(d *draft) {
	if r := d.route(); r.Routed && !r.lastWritten().IsEmpty() && onlyStableReady(d.facts) {
		d.act(RemoveRoute{})
	}
}

// routeToServing makes routers send the requests of the update revision to the given revision.
func routeToServing(d *draft, revision string) {
	p, r := d.progress(), d.route()
	if p.State != rollouts.StepUpgrade {
		p.PodTemplateHash = revision
	}
	if !r.canChange() {
		return
	}
	if r.Routed && !r.Shared && r.Canary != revision {
		if r.Canary == "" && stageOf(p.State).keepsRoute {
			reportUndone(d, routeUndone) // somebody has deleted the Service
		}
		d.act(RouteTraffic{Revision: revision, Want: r.lastWritten()})
		return
	}
	wanted, differs := wantedRoute(d.facts)
	if !differs {
		return
	}
	if !trafficIsChanging(d.facts) {
		reportUndone(d, routeUndone)
	}
	d.act(RouteTraffic{Revision: revision, Want: wanted})
}

// wantedRoute returns the route that routers should follow, and reports whether they follow another one.
func wantedRoute(f facts) (wanted Route, differs bool) {
	p, r, step := f.progress(), f.route(), f.step()
	if r.Edited {
		return plannedRoute(f, r.lastWritten()), step != nil
	}
	if step == nil || !stageOf(p.State).keepsRoute || !step.AsksForTraffic() || replacesAllPods(f, step) || p.RolloutHash != f.planHash() {
		return Route{}, false
	}
	if planChanged(f) {
		return Route{}, false // routers still have the routes of the step before this edit, and the release is leaving that step
	}
	wanted = RouteOf(*step)
	return wanted, !r.Serves(wanted, p.PodTemplateHash)
}

// plannedRoute returns the route that a router has on record, if one of the steps until now has that route,
// and otherwise the route of the last step that routes. A user who may write a router may also write its
// record, so the record alone is not trusted.
func plannedRoute(f facts, recorded Route) Route {
	p, last := f.progress(), Route{}
	for i := int32(1); i <= p.CurrentStepIndex; i++ {
		step := f.plan.Step(i)
		if step == nil {
			break // the plan has fewer steps than the status says
		}
		if !step.AsksForTraffic() || i == p.CurrentStepIndex && !stageOf(p.State).keepsRoute {
			continue
		}
		if last = RouteOf(*step); last.Equals(recorded) {
			return recorded
		}
	}
	return last
}
