// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// A change of Services and routers takes a grace period until each router knows it,
// and sends no request to pods that are about to go. It is owed whichever case
// takes over meanwhile: so it is stored with the status that orders the change,
// and everything that relies on the change asks here.

// graceRemaining is how much is left of the grace period of the last change.
func graceRemaining(f *facts) time.Duration {
	c := f.status.TrafficChange
	if c == nil || c.GraceSeconds == 0 {
		return 0
	}
	return f.until(c.Time.Add(time.Duration(c.GraceSeconds) * time.Second))
}

// graceRemainingFor is how long it is until every router knows what a step wants, which has been
// found done. Somebody may undo it time and again, and it is put back each time. That owes
// the ends of the release a grace period, since pods go then; a step waits for its
// target once.
func graceRemainingFor(f *facts, target Effect) time.Duration {
	c, left := f.status.TrafficChange, graceRemaining(f)
	if c == nil || left == 0 || !isEffective(f, target) {
		return left
	}
	return min(left, f.until(c.TargetTime.Add(time.Duration(c.GraceSeconds)*time.Second)))
}

// isEffective reports whether a target has been found done before.
func isEffective(f *facts, target Effect) bool {
	c := f.status.TrafficChange
	return c != nil && c.Target == targetOf(target) && !IsAhead(c.TargetTime, f.Now)
}

// trafficIsChanging reports whether the release itself has changed the ways of requests since
// what a step wants was last found done. What is missing then is undone by nobody.
func trafficIsChanging(f *facts) bool {
	c := f.Rollout.Status.TrafficChange
	return c != nil && c.Target == ""
}

// recordEffective notes that a target is done.
func (d *draft) recordEffective(target Effect) {
	if c := d.status.TrafficChange; c != nil && !isEffective(d.facts, target) {
		c.Target, c.TargetTime = targetOf(target), new(RoundUp(d.Now))
	}
}

// clearOtherTarget forgets what was wanted before another target is ordered.
func (d *draft) clearOtherTarget(target Effect) {
	if c := d.status.TrafficChange; c != nil && changesTraffic(target) && c.Target != targetOf(target) {
		c.Target, c.TargetTime = "", nil
	}
}

// recordTrafficChange notes when a change was ordered, and how long it takes to be seen. An
// order that is given again is waited for again: the process that gave it first may have
// died before it was carried out. What is left of an earlier change is not cut short.
func recordTrafficChange(d *draft) {
	if !HasEffect(d.actions, changesTraffic) {
		return
	}
	at, grace := RoundUp(d.Now), d.gracePeriod()
	grace = max(grace, graceRemaining(d.facts)-at.Sub(d.Now)) // both end at whole seconds
	next := &rollouts.TrafficChange{Time: at, GraceSeconds: int32(grace / time.Second)}
	if c := d.status.TrafficChange; c != nil && !HasEffect(d.actions, changesRouters) {
		next.Target, next.TargetTime = c.Target, c.TargetTime
	}
	d.status.TrafficChange = next
}

func changesTraffic(a Effect) bool {
	switch a.(type) {
	case PinService, UnpinService, SetCanaryService, RouteTraffic, RemoveRoute, RemoveCanaryService:
		return true
	default:
		return false
	}
}

// changesRouters reports whether routers have something new to learn, whatever they were
// told before: an order to pin or to route may only put back what was there.
func changesRouters(a Effect) bool {
	switch a.(type) {
	case PinService, RouteTraffic:
		return false
	default:
		return changesTraffic(a)
	}
}
