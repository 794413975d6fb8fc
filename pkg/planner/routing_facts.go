// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"strings"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Routing is the facts of the TrafficRouting that a Rollout names.
type Routing struct {
	// Name is empty when the Rollout names none.
	Name string
	// Exists reports whether there is one that is not being deleted.
	Exists bool
	// Linked reports whether it routes for the Rollout, and Lost that it does no
	// more, since it was deleted and has taken its routes back.
	Linked, RoutesRemoved bool
	// HasRoutes reports whether its routes are in place or are being taken back, and that
	// no other Rollout needs them.
	HasRoutes bool
	// Routed reports whether requests go as it says.
	Routed bool
	// Message is what it says of itself.
	Message string
	// Unreferenced are others that route for the Rollout, which no longer names them.
	Unreferenced []string
}

// NewRouting are those of a TrafficRouting for a Rollout; r is nil where there
// is none.
func NewRouting(name, rollout string, r *rollouts.TrafficRouting, strays []string) *Routing {
	if name == "" && len(strays) == 0 {
		return nil
	}
	f := &Routing{Name: name, Unreferenced: strays}
	if r == nil {
		return f
	}
	mine := ProgressingFinalizer(rollout)
	others := slices.ContainsFunc(r.Finalizers, func(have string) bool {
		return have != mine && strings.Contains(have, rollouts.FinalizerProgressing)
	})
	f.Linked = slices.Contains(r.Finalizers, mine)
	f.Exists = r.DeletionTimestamp == nil
	f.RoutesRemoved = !f.Exists && !slices.Contains(r.Finalizers, rollouts.FinalizerTrafficRouting)
	f.Routed = r.Status.Phase == rollouts.PhaseProgressing && r.Status.Routed && r.Status.ObservedGeneration >= r.Generation
	f.Message = r.Status.Message
	f.HasRoutes = !f.RoutesRemoved && isRouting(r.Status.Phase, !others || !f.Exists)
	return f
}

// isRouting reports whether routes are not taken back yet; those for others do not count.
func isRouting(phase rollouts.Phase, alone bool) bool {
	switch phase {
	case rollouts.PhaseProgressing, rollouts.PhaseFinalizing:
		return alone
	default:
		return phase == rollouts.PhaseTerminating
	}
}

// ProgressingFinalizer tells a TrafficRouting that a release of the Rollout is
// under way.
func ProgressingFinalizer(rollout string) string {
	return rollouts.FinalizerProgressing + "/" + rollout
}
