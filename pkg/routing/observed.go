// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package routing answers what one pass over a TrafficRouting does: it routes for as long as
// a Rollout says, by a finalizer of its own, that it has a release under way. It is pure. It
// must not know about pods, steps or approvals.
package routing

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Observed is all that one pass over a TrafficRouting knows.
type Observed struct {
	Now     time.Time
	Routing *rollouts.TrafficRouting
	// Route is what the network does now; nil when the object names nothing.
	Route *planner.Route
	// Gone are Rollouts that have a finalizer on the object, and do not exist.
	Gone []string
}

// Plan is everything one pass over a TrafficRouting decided.
type Plan struct {
	// Status is the whole next status, never a patch.
	Status rollouts.TrafficRoutingStatus
	// Actions are targets to reach, in order; empty when the world agrees.
	Actions []planner.Effect
	// Events are to be announced once Status is stored.
	Events []planner.Event
	// Wake says when to look again; zero means when something changes.
	Wake time.Duration
	// Rule names what decided, for logs and transcripts.
	Rule string
}

// Used reports whether a release is under way that needs the TrafficRouting.
func Used(r *rollouts.TrafficRouting) bool {
	return slices.ContainsFunc(r.Finalizers, func(f string) bool { return strings.Contains(f, rollouts.FinalizerProgressing) })
}

// Routes reports whether something of a TrafficRouting may be in the network.
func Routes(r *rollouts.TrafficRouting) bool {
	return unsettled(r.Status) || r.Status.Phase == rollouts.PhaseTerminating
}

// Step is the strategy of a TrafficRouting as a step of a Rollout has it.
func Step(r *rollouts.TrafficRouting) rollouts.Step {
	s := r.Spec.Strategy
	step := rollouts.Step{Matches: s.Matches, RequestHeaderModifier: s.RequestHeaderModifier}
	if s.Weight != nil {
		share := strconv.Itoa(int(*s.Weight)) + "%"
		step.Traffic = &share
	}
	return step
}
