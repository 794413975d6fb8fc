// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"slices"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// facts are what a pass knows; its functions answer, and change nothing.
type facts struct {
	Observed
	// was is the stored status, and status the next one.
	was, status rollouts.TrafficRoutingStatus
	// step is what the strategy asks for.
	step rollouts.Step
}

func factsOf(o Observed) *facts {
	f := &facts{Observed: o, was: o.Routing.Status, status: *o.Routing.Status.DeepCopy(), step: Step(o.Routing)}
	f.status.ObservedGeneration = o.Routing.Generation
	return f
}

func leftBehind(f *facts) bool { return len(f.Gone) > 0 }

func deleted(f *facts) bool { return f.Routing.DeletionTimestamp != nil }

func guarded(f *facts) bool {
	return slices.Contains(f.Routing.Finalizers, rollouts.FinalizerTrafficRouting)
}

// unsettled reports whether there may be something of the network to take back.
func unsettled(s rollouts.TrafficRoutingStatus) bool {
	return s.LastUpdateTime != nil || s.Phase == rollouts.PhaseProgressing || s.Phase == rollouts.PhaseFinalizing
}

// obstacle says why nothing can be routed; empty if it can.
func obstacle(f *facts) string {
	if f.Route == nil {
		return "spec.objectRef names nothing"
	}
	return f.Route.Obstacle()
}

// refusal says why routers do not take up the route, or not yet; empty if they do.
func refusal(f *facts) string {
	switch r := f.Route; {
	case !f.step.Routed():
		return ""
	case r.Refused == "" && r.Pending != "":
		return "the router has not taken up the route yet, " + r.Pending
	default:
		return r.Refused
	}
}

// wanted is what routers are still to be told for the strategy; nil if they do it.
func wanted(f *facts) planner.Effect {
	switch want := planner.RouteOf(f.step); {
	case !f.step.Routed() && f.Route.Routed && f.was.LastUpdateTime != nil:
		return planner.RemoveRoute{}
	case f.step.Routed() && !f.Route.Serves(want, ""):
		return planner.RouteTraffic{Want: want}
	default:
		return nil
	}
}

// undone reports whether routers do not do what they did, though nothing else was wanted.
func undone(f *facts) bool {
	return f.step.Routed() && (f.Route.Edited || f.was.Routed && f.was.ObservedGeneration == f.Routing.Generation)
}

// routed reports whether routers do what they were told here. Where nothing was changed
// here, what is routed belongs to somebody else.
func routed(f *facts) bool {
	return f.was.LastUpdateTime != nil && f.Route != nil && f.Route.Routed
}

// afresh reports whether a target is new or has not shown in time, or whether something
// stood in its way.
func afresh(f *facts) bool {
	since := f.was.LastUpdateTime
	late := since == nil || f.Now.After(since.Add(grace(f)))
	return late || f.was.Routed || f.was.Message != f.status.Message || f.was.ObservedGeneration != f.Routing.Generation
}

// left is how much of a time since the last change of the network has not passed.
func left(f *facts, of time.Duration) time.Duration {
	since := f.status.LastUpdateTime
	if since == nil {
		return 0
	}
	return max(since.Add(of).Sub(f.Now), 0)
}

func grace(f *facts) time.Duration {
	if len(f.Routing.Spec.ObjectRef) == 0 {
		return 0
	}
	return time.Duration(min(f.Routing.Spec.ObjectRef[0].GracePeriodSeconds, rollouts.MaxGracePeriod)) * time.Second
}
