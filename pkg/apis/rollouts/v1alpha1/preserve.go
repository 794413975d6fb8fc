// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Preserve restores the fields that this version does not have from the stored
// object. Without it, a client that reads the object, changes a label and writes it
// would erase a blue-green plan or the paths of a match, which it cannot see.
//
// Fields of this version are the client's: its plan replaces a blue-green one, and a
// match whose headers it has changed is a new match.
func Preserve(written, old *rollouts.Rollout) {
	if written.Status.Canary == nil {
		written.Status.BlueGreen = old.Status.BlueGreen.DeepCopy()
	}
	written.Status.Analysis = old.Status.Analysis.DeepCopy()
	plan, oldPlan := &written.Spec.Strategy, &old.Spec.Strategy
	switch {
	case plan.Canary == nil:
		plan.BlueGreen = oldPlan.BlueGreen.DeepCopy()
	case oldPlan.Canary != nil:
		if plan.Canary.ExtraWorkload == oldPlan.Canary.ExtraWorkload {
			// The annotation cannot distinguish a false that was written from none.
			plan.Canary.ExtraWorkloadGiven = oldPlan.Canary.ExtraWorkloadGiven
		}
		if plan.Canary.TrafficRoutingRef == nil && oldPlan.Canary.TrafficRouting() == "" {
			// Its annotation cannot distinguish an empty name from none.
			plan.Canary.TrafficRoutingRef = oldPlan.Canary.DeepCopy().TrafficRoutingRef
		}
		plan.Canary.Analysis = oldPlan.Canary.Analysis.DeepCopy()
		preserveMatches(plan.Canary.Steps, oldPlan.Canary.Steps)
	}
}

// preserveMatches restores the matches of a step from the stored step with the same
// headers: the one at the same place, or else the first, since steps may have been inserted.
func preserveMatches(written, old []rollouts.Step) {
	for i := range written {
		same := func(step rollouts.Step) bool { return sameHeaders(step.Matches, written[i].Matches) }
		at := i
		if i >= len(old) || !same(old[i]) {
			at = slices.IndexFunc(old, same)
		}
		if at >= 0 {
			written[i].Matches = old[at].DeepCopy().Matches
		}
	}
}

// sameHeaders compares headers, which are what this version shows of matches.
func sameHeaders(a, b []rollouts.RouteMatch) bool {
	return slices.EqualFunc(a, b, func(x, y rollouts.RouteMatch) bool { return equality.Semantic.DeepEqual(x.Headers, y.Headers) })
}
