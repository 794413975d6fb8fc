// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Route is the traffic as it is, or as it is wanted.
type Route struct {
	// Missing names an object that must exist and does not, such as service/web.
	Missing string
	// Unserved reports whether the stable Service does not exist.
	Unserved bool
	// Barred says why neither the Service nor the routers are this release's to
	// change: another has taken them, or the Service is of another workload.
	Barred string
	// Trouble says why nothing can be routed though nothing is missing, and Impossible
	// why not what each of the steps wants, in their order.
	Trouble    string
	Impossible []string
	// Pending says why a router has not taken up yet what it was told, and Refused
	// why it never will.
	Pending, Refused string
	// Writer is who wrote the selector of the stable Service, where that is not pinned.
	Writer string
	// Pinned is the revision that the stable Service selects; empty if any.
	Pinned string
	// Canary is the revision that the canary Service selects; empty if there is none.
	Canary string
	// Made are the uids of what was made for the release, and Rival says whose an object
	// is that has the name of one of them.
	Made  []types.UID
	Rival string
	// Shared reports whether one Service serves both revisions: none is pinned or made.
	Shared bool
	// Weight is the share sent to the update revision; nil without a share.
	Weight *int32
	// Matches select the requests sent to the update revision.
	Matches []rollouts.RouteMatch
	// Headers rewrites those of requests to the update revision.
	Headers *rollouts.HeaderModifier
	// Routed reports whether routers know the update revision at all.
	Routed bool
	// Edited reports whether somebody else has changed what routers were told.
	Edited bool
}

// At is what is known at a step, of the number that it has from 1 on.
func (r Route) At(step int32) Route {
	if i := int(step) - 1; r.Trouble == "" && i >= 0 && i < len(r.Impossible) {
		r.Trouble = r.Impossible[i]
	}
	r.Impossible = nil
	return r
}

// RouteOf is the route that a step wants.
func RouteOf(step rollouts.Step) Route {
	return Route{Weight: percent(step.Traffic), Matches: step.Matches, Headers: step.RequestHeaderModifier}
}

// Says reports whether two routes send the same requests the same way.
func (r Route) Says(other Route) bool {
	return weight(r.Weight) == weight(other.Weight) && matches(r.Matches) == matches(other.Matches) &&
		modifier(r.Headers) == modifier(other.Headers)
}

// Nothing reports whether no request is sent to the update revision.
func (r Route) Nothing() bool {
	return len(r.Matches) == 0 && (r.Weight == nil || *r.Weight == 0)
}

// carries reports whether the observed route is the wanted one. No share of the
// traffic needs no router that knows the update revision, only the Service that
// selects it, by which its owner tries it out.
func (r *Route) carries(want Route, revision string) bool {
	if !r.Shared && r.Canary != revision {
		return false
	}
	if !r.Routed && want.Weight != nil && want.Nothing() {
		return true
	}
	return r.Routed && !r.Edited && r.Says(want)
}

// able reports whether routers can be told anything but to forget the update revision.
func (r *Route) able() bool { return r.obstacle() == "" }

// obstacle is why nothing can be routed; empty when something can.
func (r *Route) obstacle() string {
	if r.Missing != "" {
		return r.Missing + " does not exist"
	}
	return cmp.Or(r.Barred, r.Trouble)
}

// refuses is why routers do not take up what they were told; nothing is known of
// what somebody else has told them.
func (r *Route) refuses() string {
	if r.Edited {
		return ""
	}
	return r.Refused
}

// told is what routers were last told.
func (r *Route) told() Route {
	return Route{Weight: r.Weight, Matches: r.Matches, Headers: r.Headers}
}

func weight(w *int32) string {
	if w == nil {
		return "-"
	}
	return strconv.Itoa(int(*w))
}

func percent(traffic *string) *int32 {
	if traffic == nil {
		return nil
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(*traffic, "%"), 10, 32)
	if err != nil {
		return nil
	}
	w := int32(n)
	return &w
}

func (a RouteTo) String() string {
	if a.Revision == "" {
		a.Revision = "the update revision"
	}
	switch {
	case a.Want.Weight != nil:
		return fmt.Sprintf("route %d%% to %s", *a.Want.Weight, a.Revision)
	default:
		return fmt.Sprintf("route %d matches to %s", len(a.Want.Matches), a.Revision)
	}
}

// introduce makes the canary Service while the first pods that it selects come
// up, and tells whether routers have had a grace period to hear of it. They watch
// Services and routes apart from each other, and one that hears first of a route
// to a Service answers its requests with errors.
func (x *pass) introduce(step *rollouts.Step) bool {
	r, revision := x.Route, x.w.PodTemplateHash
	switch {
	case r == nil || r.Routed || r.Shared || RouteOf(*step).Nothing() || x.everyPod(step) || x.spared(step) || !r.able():
		return true
	case revision == "":
		return x.w.Replicas == 0
	case r.Canary != revision:
		x.act(ServeCanary{Revision: revision})
		return false
	default:
		return x.stands(ServeCanary{Revision: revision})
	}
}

// route wants the traffic of the step, and is done when it is observed.
func (x *pass) route(step *rollouts.Step) bool {
	if x.Route == nil || !step.Routed() {
		return true
	}
	if x.missing() {
		return false
	}
	p, want := x.progress(), RouteOf(*step)
	if !x.Route.Routed && x.w.UpdatedReadyReplicas == 0 {
		x.say("wait for a ready pod of the new version")
		return false
	}
	to := RouteTo{Revision: p.PodTemplateHash, Want: want}
	if !x.Route.carries(want, p.PodTemplateHash) {
		x.order(to)
		return false
	}
	if x.unable(x.Route.refuses()) {
		return false
	}
	if x.Route.Pending != "" {
		x.cause = x.Route.Pending
		x.say("wait for the router to take up the route: " + x.Route.Pending)
		return false
	}
	return x.arrived(to)
}

// order tells routers what the step wants, and says so where they did it before.
func (x *pass) order(to RouteTo) {
	x.say("route traffic to new version")
	if c := x.status.TrafficChange; c != nil && c.Target == targetOf(to) {
		x.corrected(routeUndone)
	}
	x.issue(to)
}

// arrived waits until a change of the routers is seen everywhere.
func (x *pass) arrived(to RouteTo) bool {
	if !x.Route.Routed {
		return true
	}
	if !x.stands(to) {
		return false
	}
	if x.stayed() {
		x.announce("TrafficRouted", fmt.Sprintf("step(%d) traffic reaches the new version", x.progress().CurrentStepIndex))
	}
	return true
}

// follow keeps the network on pods that exist, where the workload was scaled so far
// down that stable has none, or that the set of the update revision was made anew
// under another label; the Service on those of stable only; and routers at what they
// were told. Between two steps a release that goes on does the rest itself, and one
// that does not leaves it. A workload of size 0 is another matter.
func (x *pass) follow(goes bool) {
	step := x.release.Step(x.progress().CurrentStepIndex)
	if x.Route == nil || step == nil {
		return
	}
	switch between := x.between(); {
	case x.emptied() && (!between || !goes || !x.Route.able()):
		x.sleep(step, goes)
	case !between:
		x.unpinEmptied(step)
		x.pinAgain(step)
		x.routeAgain()
		x.awake(step)
	case !goes:
		x.unpinEmptied(step)
		x.unrouteUndriven()
	case x.pins(step):
		x.routeAgain()
	}
}

// unrouteUndriven has routers forget a version of which no pod is to come.
func (x *pass) unrouteUndriven() {
	if x.driven() == 0 {
		x.unrouteEmptied()
	}
}

// unpinEmptied lets the Service select all pods again where stable has none that serves,
// or is to have none, and where the Service is not this release's.
func (x *pass) unpinEmptied(step *rollouts.Step) {
	if x.Route.Pinned != "" && (x.Route.Barred != "" || x.onlyOthers() || x.live() && x.outgrown(step)) {
		x.act(Unpin{})
	}
}

// between reports whether the way to a step, or out of the release, has begun.
func (x *pass) between() bool {
	p := x.progress()
	return p.State == rollouts.BeforeStepUpgrade || p.FinalisingStep != ""
}

// serving is the revision that routers may send to; empty while it has no pods.
func (x *pass) serving() string {
	switch {
	case x.live() && x.w.UpdatedReadyReplicas > 0:
		return x.w.PodTemplateHash
	case !x.live() && (x.w.SupersededReplicas > 0 || x.w.Extra):
		return x.progress().PodTemplateHash
	default:
		return ""
	}
}

// noReadyPod is why the requests of a step go to stable.
const noReadyPod = "the new version has no ready pod, and stable gets every request until it has"

// onlyStable reports whether stable has ready pods and the update revision has none, so that
// requests sent there would be lost. Pods of a set that was deleted may run on.
func (x *pass) onlyStable() bool {
	return x.w.StableReadyReplicas > 0 && x.serving() == "" && x.w.RunsOn == ""
}

// routeAgain makes routers follow a set that was made anew, and puts those right
// that somebody else has changed: to the last route they were told, or to that
// of the step where they do not know it. They forget a revision that has no ready
// pod while stable has some.
func (x *pass) routeAgain() {
	if now := x.serving(); now != "" {
		x.routeRight(now)
		return
	}
	x.unrouteEmptied()
}

// unrouteEmptied has routers forget a revision without a ready pod.
func (x *pass) unrouteEmptied() {
	if x.Route.Routed && !x.Route.told().Nothing() && x.onlyStable() {
		x.act(Unroute{})
	}
}

// routeRight has routers send to the revision that serves what they were told.
func (x *pass) routeRight(now string) {
	p, r := x.progress(), x.Route
	if p.State != rollouts.StepUpgrade {
		p.PodTemplateHash = now
	}
	if !r.able() {
		return
	}
	if r.Routed && !r.Shared && r.Canary != now {
		if r.Canary == "" && stageOf(p.State).routed {
			x.corrected(routeUndone) // somebody has deleted the Service
		}
		x.act(RouteTo{Revision: now, Want: r.told()})
		return
	}
	want, astray := x.astray()
	if !astray {
		return
	}
	if !x.changing() {
		x.corrected(routeUndone)
	}
	x.act(RouteTo{Revision: now, Want: want})
}

// astray is the route that routers should do, and whether they do another one.
func (x *pass) astray() (want Route, astray bool) {
	p, r := x.progress(), x.Route
	step := x.release.Step(p.CurrentStepIndex)
	if r.Edited {
		return x.planned(r.told()), step != nil
	}
	if step == nil || !stageOf(p.State).routed || !step.Routed() || x.everyPod(step) || p.RolloutHash != x.planHash() {
		return Route{}, false
	}
	want = RouteOf(*step)
	return want, !r.carries(want, p.PodTemplateHash)
}

// planned is the route that routers were told, where a step until now has it, or
// else that of the last step that routes: who may write a router may write what it
// says to have been told.
func (x *pass) planned(told Route) Route {
	p, last := x.progress(), Route{}
	for i := int32(1); i <= p.CurrentStepIndex; i++ {
		step := x.release.Step(i)
		if step == nil || !step.Routed() || i == p.CurrentStepIndex && !stageOf(p.State).routed {
			continue
		}
		if last = RouteOf(*step); last.Says(told) {
			return told
		}
	}
	return last
}

// pinAgain pins a Service that its owner has applied again.
func (x *pass) pinAgain(step *rollouts.Step) {
	pin := x.pin()
	if x.pins(step) && !x.Route.Unserved && x.Route.Barred == "" && pin.Revision != "" && x.Route.Pinned != pin.Revision {
		x.tellUnpinned()
		x.act(pin)
	}
}

// pin is what a step wants of the stable Service.
func (x *pass) pin() Pin { return Pin{Revision: x.progress().StableRevision} }
