// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "github.com/weir-rollouts/weir/pkg/apis/rollouts"

// Admission is what is known when somebody makes or updates a workload.
type Admission struct {
	// Held reports whether the stored workload is held.
	Held bool
	// Changed reports whether the update changes the template or the rollout id.
	Changed bool
	// UnholdableReason says why a changed template cannot be held; empty if it can.
	UnholdableReason string
	// Rollouts are those that name the workload.
	Rollouts []*rollouts.Rollout
}

// AdmissionVerdict is what admission does with the update.
type AdmissionVerdict struct {
	// Refusal says why the update must not be; empty if it may.
	Refusal string
	// Hold takes the workload from its native controller, in the same write.
	Hold bool
	// KeepHold leaves everything of the hold as it was stored.
	KeepHold bool
	// KeepRecords leaves the records on the workload as they were stored.
	KeepRecords bool
	// RolloutName names the Rollout that holds.
	RolloutName string
}

// Admit decides about an update of a workload. All answers are judged on what
// is stored, so dropping a mark in the same write evades nothing: a held
// workload stays held, and one that a live Rollout names is held the moment
// its template changes, or the change is refused.
func Admit(a Admission) AdmissionVerdict {
	by := ""
	for _, r := range a.Rollouts {
		if HoldsOnTemplateChange(r) {
			by = r.Name
			break
		}
	}
	switch {
	case a.Held && a.UnholdableReason != "":
		return AdmissionVerdict{Refusal: a.UnholdableReason, RolloutName: by}
	case a.Held:
		return AdmissionVerdict{KeepHold: true, RolloutName: by}
	case by == "":
		return AdmissionVerdict{}
	case a.UnholdableReason != "":
		return AdmissionVerdict{Refusal: a.UnholdableReason + ", or disable the Rollout " + by, RolloutName: by}
	case a.Changed:
		return AdmissionVerdict{Hold: true, RolloutName: by}
	}
	return AdmissionVerdict{KeepRecords: true, RolloutName: by}
}

// HoldsOnTemplateChange reports whether a Rollout holds its workload when the template changes.
// While it waits for the workload to be labelled and settled it does not: the
// native rolling update under way is not interrupted.
func HoldsOnTemplateChange(r *rollouts.Rollout) bool {
	if r.DeletionTimestamp != nil || r.Spec.Disabled {
		return false
	}
	switch r.Status.Phase {
	case rollouts.PhaseHealthy, rollouts.PhaseProgressing:
		return true
	default:
		return false
	}
}
