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
	i := slices.IndexFunc(rules, func(c rule) bool { return c.applies(d.facts) })
	rules[i].decide(d)
	return Plan{Status: d.status, Actions: d.actions, Events: d.events, RequeueAfter: d.requeue, Rule: rules[i].name}
}

// rule is one case and the decision for it.
type rule struct {
	name    string
	applies func(*facts) bool
	decide  func(*draft)
}

// rules are in the order of precedence: the first rule that applies decides.
var rules = []rule{
	// A Rollout whose finalizers were removed by a user leaves its finalizer on the TrafficRouting,
	// and with it the routes.
	{"left behind", hasMissingRollouts, removeStaleReference},
	// A TrafficRouting that is being deleted routes nothing, even if releases are in progress.
	{"deleted", isDeleted, terminate},
	// Without the finalizer, a deletion would leave the routes behind.
	{"unguarded", func(f *facts) bool { return !hasFinalizer(f) }, addFinalizer},
	{"in use", func(f *facts) bool { return IsInUse(f.Routing) }, applyStrategy},
	{"let go", func(f *facts) bool { return mayNeedRestore(f.stored) }, finishRelease},
	{"at rest", func(*facts) bool { return true }, awaitRelease},
}

// draft is the decision while it is being made. Its methods change it and return nothing.
type draft struct {
	*facts
	actions []planner.Effect
	events  []planner.Event
	requeue time.Duration
}

func (d *draft) addAction(a planner.Effect) { d.actions = append(d.actions, a) }

func (d *draft) addEvent(warning bool, reason, message string) {
	d.events = append(d.events, planner.Event{Warning: warning, Reason: reason, Message: message})
}

// messages are the messages of the phases. Clients of OpenKruise rely on them.
var messages = map[rollouts.Phase]string{
	rollouts.PhaseInitial:     "TrafficRouting is Initializing",
	rollouts.PhaseHealthy:     "TrafficRouting is Healthy",
	rollouts.PhaseProgressing: "TrafficRouting is Progressing",
	rollouts.PhaseFinalizing:  "TrafficRouting is Finalizing",
	rollouts.PhaseTerminating: "TrafficRouting is Terminating",
}

func (d *draft) setPhase(p rollouts.Phase) { d.status.Phase, d.status.Message = p, messages[p] }

// setUpdateTime starts a grace period now, rounded up to the whole second that the API stores.
func (d *draft) setUpdateTime() {
	at := planner.RoundUp(d.Now)
	d.status.LastUpdateTime = &at
}

// requeueAfter requeues the object when a period has passed since the last change of the network.
// The period begins again if the clock was set back.
func (d *draft) requeueAfter(period time.Duration) {
	if since := d.status.LastUpdateTime; since != nil && planner.IsAhead(since, d.Now) {
		d.setUpdateTime()
	}
	d.requeue = remaining(d.facts, period)
}

// applyEffect adds a change of routers, and starts a grace period for it.
func (d *draft) applyEffect(target planner.Effect) {
	if restartsGracePeriod(d.facts) {
		d.setUpdateTime()
	}
	d.status.Routed = false
	d.addAction(target)
}

// reportFailure sets the reason why nothing is routed.
func (d *draft) reportFailure(why string) {
	d.status.Routed = false
	d.status.Message += ": " + why
	if d.stored.Message != d.status.Message {
		d.addEvent(true, "TrafficFailed", "requests cannot be routed: "+why)
	}
}

// removeStaleReference removes one finalizer. The next reconcile sees the result.
func removeStaleReference(d *draft) {
	d.addAction(planner.RemoveStaleReference{Rollout: d.MissingRollouts[0]})
}

func addFinalizer(d *draft) {
	if d.stored.Phase == "" {
		d.setPhase(rollouts.PhaseInitial)
	}
	d.addAction(planner.AddRoutingFinalizer{})
}

// awaitRelease sets the phase Healthy as soon as all referenced objects exist.
func awaitRelease(d *draft) {
	if why := blockedReason(d.facts); d.stored.Phase != rollouts.PhaseHealthy && why != "" {
		d.setPhase(rollouts.PhaseInitial)
		d.reportFailure(why)
		return
	}
	d.setPhase(rollouts.PhaseHealthy)
}

// applyStrategy routes requests as the strategy requires, and sets Routed after the grace period.
func applyStrategy(d *draft) {
	d.setPhase(rollouts.PhaseProgressing)
	if why := blockedReason(d.facts); why != "" {
		d.reportFailure(why)
		return
	}
	if to := nextEffect(d.facts); to != nil {
		if wasOverwritten(d.facts) {
			d.addEvent(true, "TrafficCorrected", "requests were routed to the wrong pods; Weir writes the routes again")
		}
		d.applyEffect(to)
		return
	}
	if why := rejectedReason(d.facts); why != "" {
		d.reportFailure(why)
		return
	}
	if d.requeueAfter(gracePeriod(d.facts)); d.requeue == 0 {
		setRouted(d)
	}
}

func setRouted(d *draft) {
	d.status.Routed = true
	if !d.stored.Routed {
		d.addEvent(false, "TrafficRouted", "requests go as the strategy says")
	}
}

// finishRelease removes the routes after the last release has ended.
func finishRelease(d *draft) {
	d.setPhase(rollouts.PhaseFinalizing)
	if removeRoutes(d); d.status.LastUpdateTime == nil {
		d.setPhase(rollouts.PhaseHealthy)
	}
}

// terminate removes the routes before it removes the finalizer. It does not wait for Rollouts that
// still name the TrafficRouting.
func terminate(d *draft) {
	d.setPhase(rollouts.PhaseTerminating)
	if !hasFinalizer(d.facts) {
		return
	}
	if removeRoutes(d); d.status.LastUpdateTime == nil {
		d.addAction(planner.RemoveFinalizer{})
	}
}

// minGracePeriod is the time in which a change of a router may not be visible in the cache yet.
// Without this time, a route that was just written could be mistaken for a route that was already
// removed.
const minGracePeriod = time.Second

// removeRoutes removes the routes. It clears the update time when the routes are gone and the grace
// period has passed.
func removeRoutes(d *draft) {
	if hasRoutes(d.facts) {
		d.applyEffect(planner.RemoveRoute{})
		return
	}
	d.status.Routed = false
	if d.requeueAfter(max(gracePeriod(d.facts), minGracePeriod)); d.requeue == 0 {
		d.status.LastUpdateTime = nil
	}
}
