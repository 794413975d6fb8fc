// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "github.com/weir-rollouts/weir/pkg/apis/rollouts"

// Admission has the facts about a request that creates or updates a workload.
type Admission struct {
	// Held reports whether the stored workload is held.
	Held bool
	// Changed reports whether the update changes the template or the rollout id.
	Changed bool
	// UnholdableReason says why the workload cannot be held; empty if it can.
	UnholdableReason string
	// Rollouts are the Rollouts whose workloadRef names the workload.
	Rollouts []*rollouts.Rollout
}

// AdmissionVerdict says how admission answers the request.
type AdmissionVerdict struct {
	// Refusal says why the request is refused; empty if it is allowed.
	Refusal string
	// Hold makes admission add the hold to the request, so that the native controller does not release the
	// new template.
	Hold bool
	// KeepHold makes admission restore every field and annotation of the hold to its stored value.
	KeepHold bool
	// KeepRecords makes admission restore Weir's annotations on the workload to their stored values.
	KeepRecords bool
	// RolloutName is the name of the Rollout that holds the workload; empty if there is none.
	RolloutName string
}

// Admit decides about a request that creates or updates a workload. It judges the stored object, so a
// request cannot evade the hold by removing it in the same write. A held workload stays held. If an
// active Rollout names the workload, a change of its template is held or refused.
func Admit(a Admission) AdmissionVerdict {
	holder := ""
	for _, r := range a.Rollouts {
		if HoldsOnTemplateChange(r) {
			holder = r.Name
			break
		}
	}
	switch {
	case a.Held && a.UnholdableReason != "":
		return AdmissionVerdict{Refusal: a.UnholdableReason, RolloutName: holder}
	case a.Held:
		return AdmissionVerdict{KeepHold: true, RolloutName: holder}
	case holder == "":
		return AdmissionVerdict{}
	case a.UnholdableReason != "":
		return AdmissionVerdict{Refusal: a.UnholdableReason + ", or disable the Rollout " + holder, RolloutName: holder}
	case a.Changed:
		return AdmissionVerdict{Hold: true, RolloutName: holder}
	}
	return AdmissionVerdict{KeepRecords: true, RolloutName: holder}
}

// HoldsOnTemplateChange reports whether a Rollout holds its workload when the template changes. A Rollout
// that still waits for its workload to be labelled and settled does not hold it, because a native rolling
// update in progress must not be interrupted.
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
