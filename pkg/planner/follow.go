// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "github.com/weir-rollouts/weir/pkg/apis/rollouts"

// follow keeps the network on pods that exist, where the workload was scaled so far
// down that stable has none, or that the set of the update revision was made again
// under another label; the Service on those of stable only; and routers at what they
// were told. Between two steps a release that goes on does the rest itself, and one
// that does not leaves it. A workload of size 0 is another matter.
func follow(d *draft, goes bool) {
	step := d.step()
	if d.Route == nil || step == nil {
		return
	}
	switch between := betweenSteps(d.facts); {
	case emptied(d.facts) && (!between || !goes || !d.route().able()):
		sleep(d, step, goes)
	case !between:
		unpinEmptied(d, step)
		pinAgain(d, step)
		routeAgain(d)
		awake(d, step)
	default:
		followBetween(d, step, goes)
	}
}

// followBetween does that between two steps.
func followBetween(d *draft, step *rollouts.Step, goes bool) {
	switch {
	case goes && pins(d.facts, step):
		routeAgain(d)
	case goes:
	default:
		unpinEmptied(d, step)
		serveAgain(d)
		if driven(d.facts) == 0 || !d.live() {
			unrouteEmptied(d) // no pod of the update revision will be created
		}
	}
}

// serveAgain makes the canary Service again that somebody has deleted while routers send
// requests there, or has them forget it where that cannot be.
func serveAgain(d *draft) {
	switch r, now := d.route(), serving(d.facts); {
	case r == nil || !r.Routed || r.Shared || r.Canary != "" || r.told().Nothing():
	case now != "" && r.able():
		routeRight(d, now)
	default:
		d.act(Unroute{})
	}
}

// betweenSteps reports whether the way to a step, or out of the release, has begun.
func betweenSteps(f *facts) bool {
	p := f.progress()
	return p.State == rollouts.BeforeStepUpgrade || p.FinalisingStep != ""
}

// unpinEmptied lets the Service select all pods again where stable has none that serves,
// or is to have none, and where the Service is not this release's.
func unpinEmptied(d *draft, step *rollouts.Step) {
	if r := d.route(); r.Pinned != "" && (r.Barred != "" || onlyOthers(d.facts) || d.live() && outgrown(d.facts, step)) {
		d.act(Unpin{})
	}
}

// pinAgain pins a Service that its owner has applied again.
func pinAgain(d *draft, step *rollouts.Step) {
	r, to := d.route(), pin(d.facts)
	if pins(d.facts, step) && !r.Unserved && r.Barred == "" && to.Revision != "" && r.Pinned != to.Revision {
		if undone := unpinnedBy(d.facts); undone != "" {
			correct(d, undone)
		}
		d.act(to)
	}
}

// noReadyPod is why the requests of a step go to stable.
const noReadyPod = "the new version has no ready pod, and stable gets every request until it has"

// routeAgain makes routers follow a set that was made again, and puts those right
// that somebody else has changed: to the last route they were told, or to that
// of the step where they do not know it. They forget a revision that has no ready
// pod while stable has some.
func routeAgain(d *draft) {
	if now := serving(d.facts); now != "" {
		routeRight(d, now)
		return
	}
	unrouteEmptied(d)
}

// unrouteEmptied has routers forget a revision without a ready pod.
func unrouteEmptied(d *draft) {
	if r := d.route(); r.Routed && !r.told().Nothing() && onlyStable(d.facts) {
		d.act(Unroute{})
	}
}

// routeRight has routers send to the revision that serves what they were told.
func routeRight(d *draft, now string) {
	p, r := d.progress(), d.route()
	if p.State != rollouts.StepUpgrade {
		p.PodTemplateHash = now
	}
	if !r.able() {
		return
	}
	if r.Routed && !r.Shared && r.Canary != now {
		if r.Canary == "" && stageOf(p.State).routed {
			correct(d, routeUndone) // somebody has deleted the Service
		}
		d.act(RouteTo{Revision: now, Want: r.told()})
		return
	}
	wanted, astray := wantedRoute(d.facts)
	if !astray {
		return
	}
	if !changing(d.facts) {
		correct(d, routeUndone)
	}
	d.act(RouteTo{Revision: now, Want: wanted})
}

// wantedRoute is the route that routers should do, and whether they do another one.
func wantedRoute(f *facts) (wanted Route, astray bool) {
	p, r, step := f.progress(), f.route(), f.step()
	if r.Edited {
		return plannedRoute(f, r.told()), step != nil
	}
	if step == nil || !stageOf(p.State).routed || !step.Routed() || everyPod(f, step) || p.RolloutHash != f.planHash() {
		return Route{}, false
	}
	if planChanged(f) {
		return Route{}, false // routers still have the routes of the step before this edit, and the release is leaving that step
	}
	wanted = RouteOf(*step)
	return wanted, !r.Carries(wanted, p.PodTemplateHash)
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
		if last = RouteOf(*step); last.Says(told) {
			return told
		}
	}
	return last
}
