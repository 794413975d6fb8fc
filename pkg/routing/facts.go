// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"slices"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// facts are the observations of one reconcile. Its functions compute from them and change nothing.
type facts struct {
	Observed
	// stored is the stored status, and status the next one.
	stored, status rollouts.TrafficRoutingStatus
	// step is the strategy in the form of a step of a Rollout.
	step rollouts.Step
}

func factsOf(o Observed) *facts {
	f := &facts{Observed: o, stored: o.Routing.Status, status: *o.Routing.Status.DeepCopy(), step: StepOf(o.Routing)}
	f.status.ObservedGeneration = o.Routing.Generation
	return f
}

func hasMissingRollouts(f *facts) bool { return len(f.MissingRollouts) > 0 }

func isDeleted(f *facts) bool { return f.Routing.DeletionTimestamp != nil }

func hasFinalizer(f *facts) bool {
	return slices.Contains(f.Routing.Finalizers, rollouts.FinalizerTrafficRouting)
}

// mayNeedRestore reports whether there may be routes to remove.
func mayNeedRestore(s rollouts.TrafficRoutingStatus) bool {
	return s.LastUpdateTime != nil || s.Phase == rollouts.PhaseProgressing || s.Phase == rollouts.PhaseFinalizing
}

// blockedReason returns why nothing can be routed; empty if routing is possible.
func blockedReason(f *facts) string {
	if f.Route == nil {
		return "spec.objectRef names nothing"
	}
	return f.Route.Obstacle()
}

// rejectedReason returns why the routers reject the route or have not applied it yet; empty if they
// have.
func rejectedReason(f *facts) string {
	switch r := f.Route; {
	case !f.step.AsksForTraffic():
		return ""
	case r.Refused == "" && r.Pending != "":
		return "the router has not accepted the route yet, " + r.Pending
	default:
		return r.Refused
	}
}

// nextEffect returns the change that routers still need for the strategy; nil if they need none.
func nextEffect(f *facts) planner.Effect {
	switch want := planner.RouteOf(f.step); {
	case !f.step.AsksForTraffic() && f.Route.Routed && f.stored.LastUpdateTime != nil:
		return planner.RemoveRoute{}
	case f.step.AsksForTraffic() && !f.Route.Serves(want, ""):
		return planner.RouteTraffic{Want: want}
	default:
		return nil
	}
}

// wasOverwritten reports whether somebody changed the route of the routers although the strategy is
// the same.
func wasOverwritten(f *facts) bool {
	return f.step.AsksForTraffic() && (f.Route.Edited || f.stored.Routed && f.stored.ObservedGeneration == f.Routing.Generation)
}

// hasRoutes reports whether the routers have a route of this TrafficRouting. If this TrafficRouting
// has changed nothing, a route belongs to somebody else.
func hasRoutes(f *facts) bool {
	return f.stored.LastUpdateTime != nil && f.Route != nil && f.Route.Routed
}

// restartsGracePeriod reports whether the grace period begins again: the target is new, an earlier
// change had no effect in time, or the problem that prevented the change is another one.
func restartsGracePeriod(f *facts) bool {
	since := f.stored.LastUpdateTime
	late := since == nil || f.Now.After(since.Add(gracePeriod(f)))
	return late || f.stored.Routed || f.stored.Message != f.status.Message || f.stored.ObservedGeneration != f.Routing.Generation
}

// remaining returns how much of a period since the last change of the network has not passed.
func remaining(f *facts, period time.Duration) time.Duration {
	since := f.status.LastUpdateTime
	if since == nil {
		return 0
	}
	return max(since.Add(period).Sub(f.Now), 0)
}

func gracePeriod(f *facts) time.Duration {
	if len(f.Routing.Spec.ObjectRef) == 0 {
		return 0
	}
	return time.Duration(min(f.Routing.Spec.ObjectRef[0].GracePeriodSeconds, rollouts.MaxGracePeriod)) * time.Second
}
