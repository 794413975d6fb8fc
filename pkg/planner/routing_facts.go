// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"strings"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Routing is the observed state of the TrafficRouting that a Rollout references.
type Routing struct {
	// Name is empty if the Rollout references no TrafficRouting.
	Name string
	// Exists reports whether the TrafficRouting exists and is not being deleted.
	Exists bool
	// Linked reports whether the TrafficRouting has the finalizer of this Rollout and so routes for it.
	Linked bool
	// RoutesRemoved reports whether the TrafficRouting was deleted and has removed its routes.
	RoutesRemoved bool
	// HasRoutes reports whether the routes are in place, or are being removed, for this Rollout only.
	// It is false while another Rollout needs the routes, too.
	HasRoutes bool
	// Routed reports whether the routers have the routes of the TrafficRouting.
	Routed bool
	// Message is the message in the status of the TrafficRouting.
	Message string
	// Unreferenced are the names of other TrafficRoutings that have the finalizer of this Rollout, although
	// the Rollout no longer references them.
	Unreferenced []string
}

// NewRouting returns the observed state of the TrafficRouting tr for a Rollout; tr is nil if it does not
// exist. It returns nil if the Rollout references no TrafficRouting and no TrafficRouting routes for it.
func NewRouting(name, rollout string, tr *rollouts.TrafficRouting, unreferenced []string) *Routing {
	if name == "" && len(unreferenced) == 0 {
		return nil
	}
	r := &Routing{Name: name, Unreferenced: unreferenced}
	if tr == nil {
		return r
	}
	own := ProgressingFinalizer(rollout)
	hasOthers := slices.ContainsFunc(tr.Finalizers, func(finalizer string) bool {
		return finalizer != own && strings.Contains(finalizer, rollouts.FinalizerProgressing)
	})
	r.Linked = slices.Contains(tr.Finalizers, own)
	r.Exists = tr.DeletionTimestamp == nil
	r.RoutesRemoved = !r.Exists && !slices.Contains(tr.Finalizers, rollouts.FinalizerTrafficRouting)
	r.Routed = tr.Status.Phase == rollouts.PhaseProgressing && tr.Status.Routed && tr.Status.ObservedGeneration >= tr.Generation
	r.Message = tr.Status.Message
	r.HasRoutes = !r.RoutesRemoved && isRouting(tr.Status.Phase, !hasOthers || !r.Exists)
	return r
}

// isRouting reports whether a TrafficRouting in this phase still has routes for the Rollout. Before the
// TrafficRouting is deleted, they only count if no other Rollout needs them.
func isRouting(phase rollouts.Phase, alone bool) bool {
	switch phase {
	case rollouts.PhaseProgressing, rollouts.PhaseFinalizing:
		return alone
	default:
		return phase == rollouts.PhaseTerminating
	}
}

// ProgressingFinalizer returns the finalizer by which a Rollout asks a TrafficRouting to route for its
// release.
func ProgressingFinalizer(rollout string) string {
	return rollouts.FinalizerProgressing + "/" + rollout
}
