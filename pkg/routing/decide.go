// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"slices"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Decide decides what one pass over a TrafficRouting does.
func Decide(o Observed) Plan {
	d := &draft{facts: factsOf(o)}
	i := slices.IndexFunc(cases, func(c caseRow) bool { return c.applies(d.facts) })
	cases[i].decide(d)
	return Plan{Status: d.status, Actions: d.actions, Events: d.events, Wake: d.wake, Rule: cases[i].name}
}

// caseRow is one case and what it leads to.
type caseRow struct {
	name    string
	applies func(*facts) bool
	decide  func(*draft)
}

// cases in the order of precedence: the first that applies decides.
var cases = []caseRow{
	// A Rollout whose finalizers somebody removed leaves its own here, and with it the routes.
	{"left behind", leftBehind, removeStaleReference},
	// A TrafficRouting that is deleted routes nothing, whatever releases are under way.
	{"deleted", deleted, terminate},
	// Without the finalizer a deletion would leave the routes behind.
	{"unguarded", func(f *facts) bool { return !guarded(f) }, guard},
	{"in use", func(f *facts) bool { return Used(f.Routing) }, route},
	{"let go", func(f *facts) bool { return unsettled(f.was) }, finalize},
	{"at rest", func(*facts) bool { return true }, rest},
}

// draft is a decision as it grows; its functions change it, and return nothing.
type draft struct {
	*facts
	actions []planner.Effect
	events  []planner.Event
	wake    time.Duration
}

func (d *draft) act(a planner.Effect) { d.actions = append(d.actions, a) }

func (d *draft) announce(warning bool, reason, message string) {
	d.events = append(d.events, planner.Event{Warning: warning, Reason: reason, Message: message})
}

// messages of the phases; clients of OpenKruise know them.
var messages = map[rollouts.Phase]string{
	rollouts.PhaseInitial:     "TrafficRouting is Initializing",
	rollouts.PhaseHealthy:     "TrafficRouting is Healthy",
	rollouts.PhaseProgressing: "TrafficRouting is Progressing",
	rollouts.PhaseFinalizing:  "TrafficRouting is Finalizing",
	rollouts.PhaseTerminating: "TrafficRouting is Terminating",
}

func (d *draft) become(p rollouts.Phase) { d.status.Phase, d.status.Message = p, messages[p] }

// stamp starts a wait, rounded up to the second that the wire keeps.
func (d *draft) stamp() {
	at := planner.RoundUp(d.Now)
	d.status.LastUpdateTime = &at
}

// wait has the next pass begin when a time has passed since the last change of the network.
// The time begins again where the clock was set back.
func (d *draft) wait(of time.Duration) {
	if since := d.status.LastUpdateTime; since != nil && planner.IsAhead(since, d.Now) {
		d.stamp()
	}
	d.wake = left(d.facts, of)
}

// order wants something of routers, and waits for it.
func (d *draft) order(target planner.Effect) {
	if afresh(d.facts) {
		d.stamp()
	}
	d.status.Routed = false
	d.act(target)
}

// fail says why nothing is routed.
func (d *draft) fail(why string) {
	d.status.Routed = false
	d.status.Message += ": " + why
	if d.was.Message != d.status.Message {
		d.announce(true, "TrafficFailed", "requests cannot be routed: "+why)
	}
}

// removeStaleReference takes one finalizer off; the next pass sees what that leaves.
func removeStaleReference(d *draft) { d.act(planner.RemoveStaleReference{Rollout: d.Gone[0]}) }

func guard(d *draft) {
	if d.was.Phase == "" {
		d.become(rollouts.PhaseInitial)
	}
	d.act(planner.AddRoutingFinalizer{})
}

// rest is ready for releases as soon as everything is there that is named.
func rest(d *draft) {
	if why := obstacle(d.facts); d.was.Phase != rollouts.PhaseHealthy && why != "" {
		d.become(rollouts.PhaseInitial)
		d.fail(why)
		return
	}
	d.become(rollouts.PhaseHealthy)
}

// route has requests go as the strategy says, and says so when they do.
func route(d *draft) {
	d.become(rollouts.PhaseProgressing)
	if why := obstacle(d.facts); why != "" {
		d.fail(why)
		return
	}
	if to := wanted(d.facts); to != nil {
		if undone(d.facts) {
			d.announce(true, "TrafficCorrected", "requests did not go where they should; routers are told again")
		}
		d.order(to)
		return
	}
	if why := refusal(d.facts); why != "" {
		d.fail(why)
		return
	}
	if d.wait(grace(d.facts)); d.wake == 0 {
		arrive(d)
	}
}

func arrive(d *draft) {
	d.status.Routed = true
	if !d.was.Routed {
		d.announce(false, "TrafficRouted", "requests go as the strategy says")
	}
}

// finalize takes the routes back when the last release is over.
func finalize(d *draft) {
	d.become(rollouts.PhaseFinalizing)
	if restore(d); d.status.LastUpdateTime == nil {
		d.become(rollouts.PhaseHealthy)
	}
}

// terminate takes the routes back before it lets the object go. Rollouts that
// still name it are not waited for.
func terminate(d *draft) {
	d.become(rollouts.PhaseTerminating)
	if !guarded(d.facts) {
		return
	}
	if restore(d); d.status.LastUpdateTime == nil {
		d.act(planner.RemoveFinalizer{})
	}
}

// soonest is how long a change may take to be seen here at all: a route that
// was written a moment ago must not pass for one that was taken back.
const soonest = time.Second

// restore takes the routes back. No time of a last change is left when that is done, and
// has had its time.
func restore(d *draft) {
	if routed(d.facts) {
		d.order(planner.RemoveRoute{})
		return
	}
	d.status.Routed = false
	if d.wait(max(grace(d.facts), soonest)); d.wake == 0 {
		d.status.LastUpdateTime = nil
	}
}
