// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// PreserveOlder gives back what this version has got since release 0.3.0 of
// OpenKruise Rollouts. Clients that were built with it, such as KubeVela, pause
// and resume a release by writing back all that they have read of it, and would
// take away the rest. Nothing tells them from a client that removes a field, so
// only a write that pauses or resumes, and loses nothing but such fields, is
// taken for theirs. It is for whole objects; a patch says what it means.
func PreserveOlder(written, old *rollouts.RolloutSpec) {
	paused, given := written.Strategy.Paused, written.Strategy.PausedGiven
	if paused == old.Strategy.Paused {
		return
	}
	sent, seen := written.DeepCopy(), asOlder(old)
	sent.Strategy.Paused, sent.Strategy.PausedGiven = seen.Strategy.Paused, seen.Strategy.PausedGiven
	givePauses(sent)
	if !equality.Semantic.DeepEqual(sent, seen) {
		return
	}
	*written = *old.DeepCopy()
	written.Strategy.Paused, written.Strategy.PausedGiven = paused, given
}

// asOlder is what remains of a spec in the hands of such a client.
func asOlder(s *rollouts.RolloutSpec) *rollouts.RolloutSpec {
	seen := s.DeepCopy()
	seen.Disabled = false
	givePauses(seen)
	plan := seen.Strategy.Canary
	if plan == nil {
		return seen
	}
	plan.PodTemplateMetadata, plan.ProgressDeadlineSeconds = nil, nil
	plan.DisableCanaryService, plan.DisableCanaryServiceGiven = false, false
	for i := range plan.Steps {
		plan.Steps[i].RequestHeaderModifier = nil
	}
	for i := range plan.TrafficRoutings {
		r := &plan.TrafficRoutings[i]
		r.CustomNetworkRefs = nil
		if r.GracePeriodSeconds == 0 {
			r.GracePeriodSeconds = 3 // zero is left out, which means the default
		}
	}
	return seen
}

// givePauses makes every pause one that was given, as older structs write it.
func givePauses(s *rollouts.RolloutSpec) {
	if s.Strategy.Canary == nil {
		return
	}
	for i := range s.Strategy.Canary.Steps {
		s.Strategy.Canary.Steps[i].Pause.Given = true
	}
}
