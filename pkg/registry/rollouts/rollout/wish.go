// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// wish is what a client that writes the status asks for.
type wish struct {
	// approve: currentStepState was set to StepReady.
	approve bool
	// jump: nextStepIndex was changed.
	jump bool
}

func wishOf(sent, stored *rollouts.RolloutStatus) wish {
	after, before := sent.Active(), stored.Active()
	if after == nil {
		return wish{}
	}
	if before == nil {
		before = &rollouts.Progress{}
	}
	return wish{
		approve: after.State == rollouts.StepReady && before.State != rollouts.StepReady,
		jump:    after.NextStepIndex != before.NextStepIndex && after.NextStepIndex != 0,
	}
}

// ours are the types of conditions that only the controller writes.
var ours = []rollouts.ConditionType{
	rollouts.ConditionProgressing, rollouts.ConditionSucceeded, rollouts.ConditionTerminating, rollouts.ConditionReconciling,
}

// own tells whether others may not write the condition. A gate beside us may say
// that a release is stalled, as long as we do not say so.
func own(stored *rollouts.RolloutStatus, t rollouts.ConditionType) bool {
	if t != rollouts.ConditionStalled {
		return slices.Contains(ours, t)
	}
	c := stored.Condition(t)
	return c != nil && rollouts.StallReason(c.Reason).Known()
}

// keepForeignConditions takes over the conditions that others wrote about the
// Rollout. None is dropped, since an older client may not have read it.
func keepForeignConditions(next *rollouts.RolloutStatus, sent []rollouts.Condition) {
	for _, c := range sent {
		if own(next, c.Type) {
			continue
		}
		if stored := next.Condition(c.Type); stored != nil {
			*stored = c
		} else {
			next.Conditions = append(next.Conditions, c)
		}
	}
}

// settleOutcomes keeps the decisions as they are stored: no writer of a status
// adds, changes or forgets one. What became of a decision is said once.
func settleOutcomes(sent, stored []rollouts.Decision) []rollouts.Decision {
	kept := slices.Clone(stored)
	for i := range kept {
		if kept[i].Outcome != "" {
			continue
		}
		for _, d := range sent {
			if d.ID == kept[i].ID {
				kept[i].Outcome = d.Outcome
			}
		}
	}
	return kept
}
