// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// PreserveOlder restores the fields that this version has got since release 0.3.0 of
// OpenKruise Rollouts. Clients that were built with that release, such as KubeVela,
// pause and resume a release by writing back the whole object, without the fields that
// they do not know. Such a write looks like one that removes the fields on purpose, so
// PreserveOlder only acts if the write pauses or resumes, and only drops newer fields.
// It is for whole objects; a patch changes only the fields that it names.
func PreserveOlder(written, old *rollouts.RolloutSpec) {
	paused, given := written.Strategy.Paused, written.Strategy.PausedGiven
	if paused == old.Strategy.Paused {
		return
	}
	sent, seen := written.DeepCopy(), withoutNewerFields(old)
	sent.Strategy.Paused, sent.Strategy.PausedGiven = seen.Strategy.Paused, seen.Strategy.PausedGiven
	markPausesGiven(sent)
	if !equality.Semantic.DeepEqual(sent, seen) {
		return
	}
	*written = *old.DeepCopy()
	written.Strategy.Paused, written.Strategy.PausedGiven = paused, given
}

// withoutNewerFields returns the spec as such a client writes it back.
func withoutNewerFields(s *rollouts.RolloutSpec) *rollouts.RolloutSpec {
	seen := s.DeepCopy()
	seen.Disabled = false
	markPausesGiven(seen)
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

// markPausesGiven marks every pause as given, since older clients always write one.
func markPausesGiven(s *rollouts.RolloutSpec) {
	if s.Strategy.Canary == nil {
		return
	}
	for i := range s.Strategy.Canary.Steps {
		s.Strategy.Canary.Steps[i].Pause.Given = true
	}
}
