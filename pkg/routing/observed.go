// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package routing decides what one reconcile of a TrafficRouting does. It routes requests as long as a
// Rollout with a release in progress has its finalizer on the TrafficRouting. The package is pure. It must
// not know about pods, steps or approvals.
package routing

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Observed is the input of one reconcile of a TrafficRouting.
type Observed struct {
	Now     time.Time
	Routing *rollouts.TrafficRouting
	// Route is the current route; nil if the object names no Service.
	Route *planner.Route
	// MissingRollouts are Rollouts that have a finalizer on the object but do not exist.
	MissingRollouts []string
}

// Plan is the decision of one reconcile of a TrafficRouting.
type Plan struct {
	// Status is the whole next status, never a patch.
	Status rollouts.TrafficRoutingStatus
	// Actions are the effects in order; empty if the cluster has the desired state.
	Actions []planner.Effect
	// Events are announced after Status is stored.
	Events []planner.Event
	// RequeueAfter is the time until the next reconcile; zero if only a change of an object causes
	// one.
	RequeueAfter time.Duration
	// Rule names the rule that decided, for logs and transcripts.
	Rule string
}

// IsInUse reports whether a release that needs the TrafficRouting is in progress.
func IsInUse(r *rollouts.TrafficRouting) bool {
	return slices.ContainsFunc(r.Finalizers, func(f string) bool { return strings.Contains(f, rollouts.FinalizerProgressing) })
}

// MayHaveRoutes reports whether routers may have routes of a TrafficRouting.
func MayHaveRoutes(r *rollouts.TrafficRouting) bool {
	return mayNeedRestore(r.Status) || r.Status.Phase == rollouts.PhaseTerminating
}

// StepOf returns the strategy of a TrafficRouting as a step of a Rollout.
func StepOf(r *rollouts.TrafficRouting) rollouts.Step {
	s := r.Spec.Strategy
	step := rollouts.Step{Matches: s.Matches, RequestHeaderModifier: s.RequestHeaderModifier}
	if s.Weight != nil {
		share := strconv.Itoa(int(*s.Weight)) + "%"
		step.Traffic = &share
	}
	return step
}
