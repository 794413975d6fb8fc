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
	// Unholdable says why a changed template cannot be held; empty if it can.
	Unholdable string
	// Rollouts are those that name the workload.
	Rollouts []*rollouts.Rollout
}

// AdmissionVerdict is what admission does with the update.
type AdmissionVerdict struct {
	// Refuse says why the update must not be; empty if it may.
	Refuse string
	// Hold takes the workload from its native controller, in the same write.
	Hold bool
	// Keep leaves everything of the hold as it was stored.
	Keep bool
	// Records leaves the records on the workload as they were stored.
	Records bool
	// By names the Rollout that holds.
	By string
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
	case a.Held && a.Unholdable != "":
		return AdmissionVerdict{Refuse: a.Unholdable, By: by}
	case a.Held:
		return AdmissionVerdict{Keep: true, By: by}
	case by == "":
		return AdmissionVerdict{}
	case a.Unholdable != "":
		return AdmissionVerdict{Refuse: a.Unholdable + ", or disable the Rollout " + by, By: by}
	case a.Changed:
		return AdmissionVerdict{Hold: true, By: by}
	}
	return AdmissionVerdict{Records: true, By: by}
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
