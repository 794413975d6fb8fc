// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Preserve gives back to an object written in this version what this version
// cannot say, from the object that it replaces. Without it a client that reads,
// changes a label and writes would erase a blue-green plan or the paths of a
// match without ever having seen them.
//
// What the client could see is the client's: a plan that it has given replaces
// a blue-green one, and a match whose headers it has changed is a new match.
func Preserve(written, old *rollouts.Rollout) {
	if written.Status.Canary == nil {
		written.Status.BlueGreen = old.Status.BlueGreen.DeepCopy()
	}
	plan, oldPlan := &written.Spec.Strategy, &old.Spec.Strategy
	switch {
	case plan.Canary == nil:
		plan.BlueGreen = oldPlan.BlueGreen.DeepCopy()
	case oldPlan.Canary != nil:
		if plan.Canary.ExtraWorkload == oldPlan.Canary.ExtraWorkload {
			// The annotation does not tell whether a false was written.
			plan.Canary.ExtraWorkloadGiven = oldPlan.Canary.ExtraWorkloadGiven
		}
		if plan.Canary.TrafficRoutingRef == nil && oldPlan.Canary.TrafficRouting() == "" {
			// Nor does another tell an empty name from none.
			plan.Canary.TrafficRoutingRef = oldPlan.Canary.DeepCopy().TrafficRoutingRef
		}
		preserveMatches(plan.Canary.Steps, oldPlan.Canary.Steps)
	}
}

func preserveMatches(written, old []rollouts.Step) {
	for i := range written {
		if twin := twin(&written[i], i, old); twin != nil {
			written[i].Matches = twin.DeepCopy().Matches
		}
	}
}

// twin finds the step whose matches looked like those of the given step: the one
// at the same place, or else the first, since steps may have been inserted.
func twin(step *rollouts.Step, at int, old []rollouts.Step) *rollouts.Step {
	if at < len(old) && looksLike(step.Matches, old[at].Matches) {
		return &old[at]
	}
	for i := range old {
		if looksLike(step.Matches, old[i].Matches) {
			return &old[i]
		}
	}
	return nil
}

// looksLike compares what this version shows of matches.
func looksLike(a, b []rollouts.RouteMatch) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equality.Semantic.DeepEqual(a[i].Headers, b[i].Headers) {
			return false
		}
	}
	return true
}
