// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// shippingStates are the states in which a Rollout that is deleted or disabled releases the new version to all pods.
var shippingStates = []planner.State{
	planner.StateInitializing, planner.StateInStep, planner.StatePaused, planner.StateRefused, planner.StateSuperseding,
}

// endWarning returns a warning that deleting or disabling a Rollout completes its release without further approvals;
// empty if it does not.
func endWarning(r *rollouts.Rollout, doing string) string {
	state := planner.StateOf(r)
	if r.DeletionTimestamp != nil || !slices.Contains(shippingStates, state) {
		return ""
	}
	revision := r.Status.Active().UpdateRevision
	next := "revision " + revision
	if state == planner.StateRefused || state == planner.StateSuperseding {
		next = "the newer template of the workload"
	}
	return fmt.Sprintf("a release is in progress (revision %s): %s the Rollout lets %s replace all pods, without further approvals and checks; to keep the stable version, use rollback first",
		revision, doing, next)
}

// editWarnings returns warnings about edits of a plan that release the new version with fewer approvals.
func editWarnings(r, stored *rollouts.Rollout) []string {
	var warnings []string
	if r.Spec.Disabled && !stored.Spec.Disabled {
		if text := endWarning(stored, "disabling"); text != "" {
			warnings = append(warnings, text)
		}
		return warnings
	}
	p := stored.Status.Active()
	style, next := r.Spec.Strategy.Active()
	_, last := stored.Spec.Strategy.Active()
	if p == nil || next == nil || last == nil || !slices.Contains(shippingStates, planner.StateOf(stored)) || endsPause(r, stored) {
		return nil
	}
	for i := p.CurrentStepIndex; ; i++ {
		after, before := next.Step(i), last.Step(i)
		if after == nil || before == nil {
			return warnings
		}
		if before.Pause.Duration == nil && after.Pause.Duration != nil {
			warnings = append(warnings, fmt.Sprintf("spec.strategy.%s.steps[%d].pause.duration: step %d of the release in progress no longer waits for an approval; it ends by itself after %d seconds",
				style.Key(), i-1, i, *after.Pause.Duration))
		}
	}
}
