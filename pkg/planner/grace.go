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

// owed is how much is left of the grace period of the last change.
func owed(f *facts) time.Duration {
	c := f.status.TrafficChange
	if c == nil || c.GraceSeconds == 0 {
		return 0
	}
	return f.until(c.Time.Add(time.Duration(c.GraceSeconds) * time.Second))
}

// settles is how long it is until every router knows what a step wants, which has been
// found done. Somebody may undo it time and again, and it is put back each time. That owes
// the ends of the release a grace period, since pods go then; a step waits for its
// target once.
func settles(f *facts, target Effect) time.Duration {
	c, left := f.status.TrafficChange, owed(f)
	if c == nil || left == 0 || !found(f, target) {
		return left
	}
	return min(left, f.until(c.TargetTime.Add(time.Duration(c.GraceSeconds)*time.Second)))
}

// found reports whether a target has been found done before.
func found(f *facts, target Effect) bool {
	c := f.status.TrafficChange
	return c != nil && c.Target == targetOf(target) && !Ahead(c.TargetTime, f.Now)
}

// changing reports whether the release itself has changed the ways of requests since
// what a step wants was last found done. What is missing then is undone by nobody.
func changing(f *facts) bool {
	c := f.Rollout.Status.TrafficChange
	return c != nil && c.Target == ""
}

// noteFound notes that a target is done.
func (d *draft) noteFound(target Effect) {
	if c := d.status.TrafficChange; c != nil && !found(d.facts, target) {
		c.Target, c.TargetTime = targetOf(target), new(RoundUp(d.Now))
	}
}

// forgetOther forgets what was wanted before another target is ordered.
func (d *draft) forgetOther(target Effect) {
	if c := d.status.TrafficChange; c != nil && changesTraffic(target) && c.Target != targetOf(target) {
		c.Target, c.TargetTime = "", nil
	}
}

// keepGrace notes when a change was ordered, and how long it takes to be seen. An
// order that is given again is waited for again: the process that gave it first may have
// died before it was carried out. What is left of an earlier change is not cut short.
func keepGrace(d *draft) {
	if !HasEffect(d.actions, changesTraffic) {
		return
	}
	at, grace := RoundUp(d.Now), d.grace()
	grace = max(grace, owed(d.facts)-at.Sub(d.Now)) // both end at whole seconds
	next := &rollouts.TrafficChange{Time: at, GraceSeconds: int32(grace / time.Second)}
	if c := d.status.TrafficChange; c != nil && !HasEffect(d.actions, changesWays) {
		next.Target, next.TargetTime = c.Target, c.TargetTime
	}
	d.status.TrafficChange = next
}

func changesTraffic(a Effect) bool {
	switch a.(type) {
	case Pin, Unpin, ServeCanary, RouteTo, Unroute, RemoveCanaryService:
		return true
	default:
		return false
	}
}

// changesWays reports whether routers have something new to learn, whatever they were
// told before: an order to pin or to route may only put back what was there.
func changesWays(a Effect) bool {
	switch a.(type) {
	case Pin, RouteTo:
		return false
	default:
		return changesTraffic(a)
	}
}
