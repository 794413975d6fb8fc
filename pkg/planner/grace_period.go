// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// After a change of Services or routes, Weir waits for a grace period until every router has applied the change and
// sends no request to pods that are removed next. The grace period must pass even if another case of Decide
// applies in the next pass. Its start and its length are therefore stored in the same status write as the
// change.

// graceRemaining returns how much of the grace period of the last change remains.
func graceRemaining(f facts) time.Duration {
	c := f.status.TrafficChange
	if c == nil || c.GraceSeconds == 0 {
		return 0
	}
	return f.until(c.Time.Add(time.Duration(c.GraceSeconds) * time.Second))
}

// graceRemainingFor returns the time until every router has applied the target of a step, if the target was
// observed. Somebody may undo the target repeatedly, and Weir restores it each time. Each restored target
// starts a new grace period for teardowns, because they remove pods. A step waits only for the grace period
// after the target was first observed.
func graceRemainingFor(f facts, target Effect) time.Duration {
	c, remaining := f.status.TrafficChange, graceRemaining(f)
	if c == nil || remaining == 0 || !isEffective(f, target) {
		return remaining
	}
	return min(remaining, f.until(c.TargetTime.Add(time.Duration(c.GraceSeconds)*time.Second)))
}

// isEffective reports whether an earlier pass, or this one, observed that the target was reached.
func isEffective(f facts, target Effect) bool {
	c := f.status.TrafficChange
	return c != nil && c.Target == trafficTargetID(target) && !IsAhead(c.TargetTime, f.Now)
}

// trafficIsChanging reports whether the release itself has changed Services or routes since the target of a step was
// last observed. Nobody else has undone the target in this case.
func trafficIsChanging(f facts) bool {
	c := f.Rollout.Status.TrafficChange
	return c != nil && c.Target == ""
}

// recordEffective records that a target was observed.
func (d *draft) recordEffective(target Effect) {
	if c := d.status.TrafficChange; c != nil && !isEffective(d.facts, target) {
		c.Target, c.TargetTime = trafficTargetID(target), new(RoundUp(d.Now))
	}
}

// clearOtherTarget clears the recorded target before an action for another target is requested.
func (d *draft) clearOtherTarget(target Effect) {
	if c := d.status.TrafficChange; c != nil && changesTraffic(target) && c.Target != trafficTargetID(target) {
		c.Target, c.TargetTime = "", nil
	}
}

// recordTrafficChange records when a change of Services or routes was requested, and how long its grace period is. An
// action that is requested again restarts its grace period, because the process that first requested it may
// have crashed before it applied the action. The grace period of an earlier change is not shortened.
func recordTrafficChange(d *draft) {
	if !HasEffect(d.actions, changesTraffic) {
		return
	}
	at := RoundUp(d.Now)
	grace := max(d.gracePeriod(), graceRemaining(d.facts)-at.Sub(d.Now)) // both end at whole seconds
	next := &rollouts.TrafficChange{Time: at, GraceSeconds: int32(grace / time.Second)}
	if c := d.status.TrafficChange; c != nil && !HasEffect(d.actions, changesRouters) {
		next.Target, next.TargetTime = c.Target, c.TargetTime
	}
	d.status.TrafficChange = next
}

// changesTraffic reports whether an effect changes Services or routes.
func changesTraffic(e Effect) bool {
	switch e.(type) {
	case PinService, UnpinService, SetCanaryService, RouteTraffic, RemoveRoute, RemoveCanaryService:
		return true
	default:
		return false
	}
}

// changesRouters reports whether an effect always changes what routers must apply. PinService and RouteTraffic are
// excluded, because they may only restore a target that somebody has undone.
func changesRouters(e Effect) bool {
	switch e.(type) {
	case PinService, RouteTraffic:
		return false
	default:
		return changesTraffic(e)
	}
}
