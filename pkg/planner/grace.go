// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// A change of Services and routers takes a grace period until each router knows,
// and sends no request to pods that are about to go. It is owed whichever rule
// takes over meanwhile: so it is stored with the status that orders the change,
// and everything that relies on the change asks here.

// keepGrace notes when a change was ordered, and how long it takes to be seen. An
// order that is given again is waited for anew: who gave it first may have died
// before it was carried out. What is left of an earlier change is not cut short.
func (x *pass) keepGrace() {
	grace, left := x.grace(), x.owed()
	if !slices.ContainsFunc(x.actions, changesTraffic) {
		return
	}
	at := RoundUp(x.Now)
	if left -= at.Sub(x.Now); left > grace { // both end at whole seconds
		grace = left
	}
	next := &rollouts.TrafficChange{Time: at, GraceSeconds: int32(grace / time.Second)}
	if c := x.status.TrafficChange; c != nil && !slices.ContainsFunc(x.actions, changesWays) {
		next.Target, next.TargetTime = c.Target, c.TargetTime
	}
	x.status.TrafficChange = next
}

func changesTraffic(a Action) bool {
	switch a.(type) {
	case Pin, Unpin, ServeCanary, RouteTo, Unroute, RemoveCanaryService:
		return true
	default:
		return false
	}
}

// changesWays reports whether routers have something new to learn, whatever they were
// told before: an order to pin or to route may only put back what was there.
func changesWays(a Action) bool {
	switch a.(type) {
	case Pin, RouteTo:
		return false
	default:
		return changesTraffic(a)
	}
}

// stands reports whether every router knows what a step wants, which has been found
// done. Somebody may undo it time and again, and it is put back each time. That owes
// the ends of the release a grace period, since pods go then; a step waits for its
// target once.
func (x *pass) stands(target Action) bool {
	c := x.status.TrafficChange
	if c == nil {
		return true
	}
	if c.Target != targetOf(target) || ahead(c.TargetTime, x.Now) {
		at := RoundUp(x.Now)
		c.Target, c.TargetTime = targetOf(target), &at
	}
	left := x.owed()
	if left <= 0 {
		return true
	}
	since := c.TargetTime.Add(time.Duration(c.GraceSeconds) * time.Second)
	return x.reached(x.Now.Add(min(left, since.Sub(x.Now))))
}

// changing reports whether the release itself has changed the ways of requests since
// what a step wants was last found done. What is missing then is undone by nobody.
func (x *pass) changing() bool {
	c := x.Rollout.Status.TrafficChange
	return c != nil && c.Target == ""
}

// aim forgets what was wanted before another target is ordered.
func (x *pass) aim(target Action) {
	if c := x.status.TrafficChange; c != nil && changesTraffic(target) && c.Target != targetOf(target) {
		c.Target, c.TargetTime = "", nil
	}
}

// told reports whether every router knows the last change, and if not, wakes the
// next pass when it will.
func (x *pass) told() bool {
	left := x.owed()
	return left <= 0 || x.reached(x.Now.Add(left))
}

// owed is how much is left of the grace period of the last change. Where the clock
// was set back nobody knows, so that it begins anew.
func (x *pass) owed() time.Duration {
	c := x.status.TrafficChange
	if c == nil || c.GraceSeconds == 0 {
		return 0
	}
	if ahead(&c.Time, x.Now) {
		c.Time = RoundUp(x.Now)
	}
	return c.Time.Add(time.Duration(c.GraceSeconds) * time.Second).Sub(x.Now)
}
