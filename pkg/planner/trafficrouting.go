// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"strings"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// RoutingObserved is all that one pass over a TrafficRouting knows.
type RoutingObserved struct {
	Now     time.Time
	Routing *rollouts.TrafficRouting
	// Route is what the network does now; nil when the object names nothing.
	Route *Route
	// Gone are Rollouts that have a mark on the object, and do not exist.
	Gone []string
}

// RoutingPlan is everything one pass over a TrafficRouting decided.
type RoutingPlan struct {
	// Status is the whole next status, never a patch.
	Status rollouts.TrafficRoutingStatus
	// Actions are targets to reach, in order; empty when the world agrees.
	Actions []Action
	// Events are to be announced once Status is stored.
	Events []Event
	// Wake says when to look again; zero means when something changes.
	Wake time.Duration
	// Rule names what decided, for logs and transcripts.
	Rule string
}

// Guard keeps a TrafficRouting until its routes are taken back.
type Guard struct{}

// RemoveStaleReference takes the mark of a Rollout that does not exist off a TrafficRouting.
type RemoveStaleReference struct{ Rollout string }

func (Guard) action()                {}
func (RemoveStaleReference) action() {}
func (Guard) String() string         { return "guard traffic routing" }
func (a RemoveStaleReference) String() string {
	return "take off the mark of rollout/" + a.Rollout + ", which is gone"
}

// TrafficRouting decides what one pass over a TrafficRouting does. It routes
// for as long as a Rollout says, by a finalizer of its own, that it has a
// release under way.
func TrafficRouting(o RoutingObserved) RoutingPlan {
	x := &routing{RoutingObserved: o, was: o.Routing.Status}
	x.plan.Status = *o.Routing.Status.DeepCopy()
	x.plan.Status.ObservedGeneration = o.Routing.Generation
	for _, rule := range routingRules {
		if rule.applies(x) {
			x.plan.Rule = rule.name
			rule.decide(x)
			break
		}
	}
	return x.plan
}

// routingRules are the cases in order of precedence.
var routingRules = []struct {
	name    string
	applies func(*routing) bool
	decide  func(*routing)
}{
	// Who takes the finalizers off a Rollout leaves a mark that nobody would take
	// off, and with it the routes.
	{"left behind", (*routing).leftBehind, (*routing).removeStaleReference},
	// Who deletes it wants no routes, whatever releases are under way.
	{"deleted", (*routing).deleted, (*routing).terminate},
	// Without the finalizer a deletion would leave the routes behind.
	{"unguarded", func(x *routing) bool { return !x.guarded() }, (*routing).guard},
	{"in use", (*routing).used, (*routing).progress},
	{"let go", (*routing).unsettled, (*routing).finalize},
	{"at rest", func(*routing) bool { return true }, (*routing).rest},
}

// Used reports whether a release is under way that needs the TrafficRouting.
func Used(r *rollouts.TrafficRouting) bool {
	return slices.ContainsFunc(r.Finalizers, func(f string) bool { return strings.Contains(f, rollouts.FinalizerProgressing) })
}

// Routes reports whether something of a TrafficRouting may be in the network.
func Routes(r *rollouts.TrafficRouting) bool {
	x := routing{was: r.Status}
	return x.unsettled() || r.Status.Phase == rollouts.PhaseTerminating
}

// RoutingStep is the strategy of a TrafficRouting as a step of a Rollout has it.
func RoutingStep(r *rollouts.TrafficRouting) rollouts.Step {
	s := r.Spec.Strategy
	step := rollouts.Step{Matches: s.Matches, RequestHeaderModifier: s.RequestHeaderModifier}
	if s.Weight != nil {
		share := weight(s.Weight) + "%"
		step.Traffic = &share
	}
	return step
}

// routing is the working state of one decision.
type routing struct {
	RoutingObserved
	was  rollouts.TrafficRoutingStatus
	plan RoutingPlan
}

func (x *routing) leftBehind() bool { return len(x.Gone) > 0 }
func (x *routing) deleted() bool    { return x.Routing.DeletionTimestamp != nil }
func (x *routing) used() bool       { return Used(x.Routing) }

func (x *routing) guarded() bool {
	return slices.Contains(x.Routing.Finalizers, rollouts.FinalizerTrafficRouting)
}

// unsettled reports whether there may be something of the network to take back.
func (x *routing) unsettled() bool {
	return x.was.LastUpdateTime != nil || x.was.Phase == rollouts.PhaseProgressing || x.was.Phase == rollouts.PhaseFinalizing
}

// words are what is said of each phase; clients of OpenKruise know them.
var words = map[rollouts.Phase]string{
	rollouts.PhaseInitial:     "TrafficRouting is Initializing",
	rollouts.PhaseHealthy:     "TrafficRouting is Healthy",
	rollouts.PhaseProgressing: "TrafficRouting is Progressing",
	rollouts.PhaseFinalizing:  "TrafficRouting is Finalizing",
	rollouts.PhaseTerminating: "TrafficRouting is Terminating",
}

func (x *routing) become(p rollouts.Phase) { x.plan.Status.Phase, x.plan.Status.Message = p, words[p] }

func (x *routing) act(a Action) { x.plan.Actions = append(x.plan.Actions, a) }

// tell adds an event.
func (x *routing) tell(warning bool, reason, message string) {
	x.plan.Events = append(x.plan.Events, Event{Warning: warning, Reason: reason, Message: message})
}

// removeStaleReference takes one mark off; the next pass sees what that leaves.
func (x *routing) removeStaleReference() { x.act(RemoveStaleReference{Rollout: x.Gone[0]}) }

func (x *routing) guard() {
	if x.was.Phase == "" {
		x.become(rollouts.PhaseInitial)
	}
	x.act(Guard{})
}

// rest is ready for releases as soon as everything is there that is named.
func (x *routing) rest() {
	if x.was.Phase != rollouts.PhaseHealthy {
		x.become(rollouts.PhaseInitial)
		if x.blocked() {
			return
		}
	}
	x.become(rollouts.PhaseHealthy)
}

// blocked reports whether nothing can be routed, and says why.
func (x *routing) blocked() bool {
	why := "spec.objectRef names nothing"
	if x.Route != nil {
		why = x.Route.obstacle()
	}
	return x.fails(why)
}

// fails says why nothing is routed, if there is a reason.
func (x *routing) fails(why string) bool {
	if why == "" {
		return false
	}
	x.plan.Status.Routed = false
	x.plan.Status.Message += ": " + why
	if x.was.Message != x.plan.Status.Message {
		x.tell(true, "TrafficFailed", "requests cannot be routed: "+why)
	}
	return true
}

// progress wants requests to go as the strategy says, and says so when they do.
func (x *routing) progress() {
	x.become(rollouts.PhaseProgressing)
	if x.blocked() {
		return
	}
	step := RoutingStep(x.Routing)
	switch want, r := RouteOf(step), x.Route; {
	case !step.Routed() && r.Routed && x.was.LastUpdateTime != nil:
		x.issue(Unroute{})
	case step.Routed() && !r.carries(want, ""):
		x.correct()
		x.issue(RouteTo{Want: want})
	case step.Routed() && x.refused():
	case x.elapsed(x.grace()):
		x.arrive()
	}
}

// refused reports whether routers do not take up the route, or not yet, and says why.
func (x *routing) refused() bool {
	why := x.Route.Refused
	if pending := x.Route.Pending; why == "" && pending != "" {
		why = "the router has not taken up the route yet, " + pending
	}
	return x.fails(why)
}

// correct reports whether routers do not do what they did, though nothing else was wanted.
func (x *routing) correct() {
	if x.Route.Edited || x.was.Routed && x.was.ObservedGeneration == x.Routing.Generation {
		x.tell(true, "TrafficCorrected", "requests did not go where they should; routers are told again")
	}
}

func (x *routing) arrive() {
	x.plan.Status.Routed = true
	if !x.was.Routed {
		x.tell(false, "TrafficRouted", "requests go as the strategy says")
	}
}

// issue wants a target, and waits anew for one that is new or has not shown, or
// that something stood in the way of.
func (x *routing) issue(target Action) {
	if x.was.Routed || x.was.Message != x.plan.Status.Message || x.was.ObservedGeneration != x.Routing.Generation || x.reissueDue() {
		x.stamp()
	}
	x.plan.Status.Routed = false
	x.act(target)
}

// finalize takes the routes back when the last release is over.
func (x *routing) finalize() {
	x.become(rollouts.PhaseFinalizing)
	if x.restored() {
		x.become(rollouts.PhaseHealthy)
	}
}

// terminate takes the routes back before it lets the object go. Rollouts that
// still name it are not waited for.
func (x *routing) terminate() {
	x.become(rollouts.PhaseTerminating)
	if x.guarded() && x.restored() {
		x.act(DropFinalizer{})
	}
}

// soonest is how long a change may take to be seen here at all: a route that
// was written a moment ago must not pass for one that was taken back.
const soonest = time.Second

// restored takes the routes back, and tells whether that is done and has had its
// time. Where nothing was changed here, what is routed belongs to somebody else.
func (x *routing) restored() bool {
	if x.was.LastUpdateTime != nil && x.Route != nil && x.Route.Routed {
		x.issue(Unroute{})
		return false
	}
	x.plan.Status.Routed = false
	if !x.elapsed(max(x.grace(), soonest)) {
		return false
	}
	x.plan.Status.LastUpdateTime = nil
	return true
}

func (x *routing) grace() time.Duration {
	if len(x.Routing.Spec.ObjectRef) == 0 {
		return 0
	}
	return time.Duration(min(x.Routing.Spec.ObjectRef[0].GracePeriodSeconds, rollouts.MaxGracePeriod)) * time.Second
}

// stamp starts a wait, rounded up to the second that the wire keeps.
func (x *routing) stamp() {
	at := RoundUp(x.Now)
	x.plan.Status.LastUpdateTime = &at
}

func (x *routing) reissueDue() bool {
	since := x.was.LastUpdateTime
	return since == nil || x.Now.After(since.Add(x.grace()))
}

// elapsed reports whether d has passed since the last change of the network, and
// if not, wakes the next pass when it will have.
func (x *routing) elapsed(d time.Duration) bool {
	since := x.plan.Status.LastUpdateTime
	if since == nil {
		return true
	}
	if ahead(since, x.Now) {
		x.stamp()
	}
	left := x.plan.Status.LastUpdateTime.Add(d).Sub(x.Now)
	x.plan.Wake = max(left, 0)
	return left <= 0
}
