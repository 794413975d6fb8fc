// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// What lets admission see a workload: its label, for the webhook, and its entry
// in the index, for the policies. Both are there before a Rollout becomes Healthy
// and go before it becomes Disabled or loses its finalizer.

// isVisibleToAdmission reports whether admission sees the workload.
func isVisibleToAdmission(f *facts) bool { return f.w != nil && f.w.Labelled || f.Listed }

// removeFromAdmission takes the workload out of admission's sight. The entry of the index went
// first, in ensureAdmission.
func removeFromAdmission(d *draft) {
	if d.w != nil && d.w.Labelled {
		d.act(UnlabelWorkload{})
	}
}

// remadeIsUnprotected reports whether admission does not see a workload that was created again under the
// same name.
func remadeIsUnprotected(f *facts) bool {
	return f.remade != nil && f.Unsupported == "" && HoldsOnTemplateChange(f.Rollout) && (!f.remade.Labelled || !f.Indexed)
}

// ensureAdmission has the policies start holds exactly while the webhook does, and
// takes up what they have noted meanwhile. A Rollout that leaves is taken out of
// the index before anything is given back, or that would be held again.
func ensureAdmission(d *draft) {
	next := d.Rollout.DeepCopy()
	next.Status.Phase = d.status.Phase
	if !HoldsOnTemplateChange(next) || d.Unprotected == "" {
		d.status.RemoveCondition(rollouts.ConditionProtected)
	}
	switch {
	case HoldsOnTemplateChange(next):
		restoreAdmission(d)
	case d.Listed && !d.hasAction(AddToIndex{}):
		d.actFirst(RemoveFromIndex{})
	}
}

// restoreAdmission puts back what somebody took away from a workload in service.
func restoreAdmission(d *draft) {
	if d.Unprotected != "" {
		d.setCondition(rollouts.ConditionProtected, metav1.ConditionFalse, "AdmissionIncomplete", d.Unprotected)
	}
	if d.w == nil || d.Unsupported != "" {
		return
	}
	if !d.w.Labelled && !d.hasAction(LabelWorkload{}) {
		d.act(LabelWorkload{})
	}
	if !d.Indexed {
		d.act(AddToIndex{})
	}
	if d.w.PendingEdit && d.status.Phase == rollouts.PhaseProgressing {
		d.act(ApplyPendingEdit{})
	}
}

// repairRecords has our keys on a workload say what the store says. Where there are
// batches, they write them again themselves.
func repairRecords(d *draft) {
	if d.w == nil || len(d.w.TamperedKeys) == 0 || d.Batch != nil || len(d.actions) > 0 {
		return
	}
	if d.status.Phase != rollouts.PhaseHealthy && d.status.Phase != rollouts.PhaseProgressing {
		return
	}
	d.act(RepairRecords{})
	d.events = append(d.events, TamperedEvent(d.w.TamperedKeys))
}

// EventRecordsRepaired announces that keys of ours on a workload said something else
// than the store.
const EventRecordsRepaired = "RecordPutRight"

// EventExtraRepaired announces that somebody else has written the extra Deployment.
const EventExtraRepaired = "ExtraPutRight"

// TamperedEvent announces which keys they were.
func TamperedEvent(keys []string) Event {
	return Event{Warning: true, Reason: EventRecordsRepaired, Message: fmt.Sprintf(
		"somebody else wrote %s on the workload; only Weir writes that, it decides nothing, and it was put right", strings.Join(keys, ", "))}
}

// admissionBypassed reports whether the native controller releases a template that nothing
// holds: both doors were closed, or somebody took a hold off while they were.
func admissionBypassed(f *facts) bool {
	if f.w.HoldRemoved {
		return HoldsWorkload(f.Rollout)
	}
	return f.w.NativeUpdateRunning && templateChangedUnheld(f)
}

// templateChangedUnheld reports whether the template is not the one that was recorded at rest, of
// this workload and while it was in service.
func templateChangedUnheld(f *facts) bool {
	p := f.stored()
	if f.w.UID != f.Rollout.Status.WorkloadUID || !f.isHealthy() || f.w.Held || p.UpdateRevision == "" || p.State != rollouts.StepCompleted || f.hasReleasedTemplate() {
		return false
	}
	n := len(f.status.Releases)
	back := n > 0 && f.status.Releases[n-1].Outcome != rollouts.ReleaseSucceeded
	return !back || !f.w.HasTemplateOf(stableRevision(p))
}

// holdBypassed holds it at once. The next pass sees the hold, and the release begins at
// its first step, with traffic on stable and pods as that step wants them.
func holdBypassed(d *draft) {
	if d.w.HoldRemoved && d.hasReleasedTemplate() && d.Batch == nil && podsWereReleased(d.facts) {
		d.act(HoldWorkload{Again: true}) // its batches were taken away, and are made again
		return
	}
	message := fmt.Sprintf("revision %s was set without being held, since no part of admission saw it; it was held as soon as that was noticed, and pods of it may have served before step 1", newName(d.facts))
	if c := d.status.Condition(rollouts.ConditionBypassed); c == nil || c.Message != message {
		d.warn(string(rollouts.ConditionBypassed), message)
	}
	d.setCondition(rollouts.ConditionBypassed, metav1.ConditionTrue, "HeldLate", message)
	d.act(HoldWorkload{})
}

// podsWereReleased reports whether pods of the release were given, of which its template was held.
func podsWereReleased(f *facts) bool {
	p := f.stored()
	return p.CurrentStepIndex > 1 || p.State != rollouts.BeforeStepUpgrade
}

// recordMissedRelease records a release that was over before it was noticed. Where there are no
// pods, nothing was to be held.
func recordMissedRelease(d *draft, stable string) {
	if d.w.Replicas == 0 {
		return
	}
	message := fmt.Sprintf("revision %s was set without being held, and every pod runs it; no part of admission saw it", d.progress().UpdateRevision)
	d.warn(string(rollouts.ConditionBypassed), message)
	d.setCondition(rollouts.ConditionBypassed, metav1.ConditionTrue, "ReleasedUnheld", message)
	openRecord(d)
	record(&d.status).StableRevision = stable
	closeRecord(d, rollouts.ReleaseBypassed)
}
