// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Admission finds a workload by two records. The webhook selects workloads by a label, and the admission
// policies read an index with one entry for each Rollout. Weir adds both records before a Rollout becomes
// Healthy, and removes both before the Rollout becomes Disabled or loses its finalizer.

// isVisibleToAdmission reports whether the workload has the label or the Rollout has an index entry.
func isVisibleToAdmission(f facts) bool { return f.w != nil && f.w.Labelled || f.Listed }

// removeFromAdmission removes the label of the workload. ensureAdmission removes the index entry before that.
func removeFromAdmission(d *draft) {
	if d.w != nil && d.w.Labelled {
		d.act(UnlabelWorkload{})
	}
}

// remadeIsUnprotected reports whether admission does not yet see a workload that was deleted and created
// again under the same name.
func remadeIsUnprotected(f facts) bool {
	return f.remade != nil && f.Unsupported == "" && HoldsOnTemplateChange(f.Rollout) && (!f.remade.Labelled || !f.Indexed)
}

// ensureAdmission makes the policies hold the workload in exactly the same phases as the webhook. Before
// a Rollout that is disabled or deleted restores its workload, ensureAdmission removes the index entry, so
// that the policies do not hold the restored workload again.
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

// restoreAdmission adds the label and the index entry again if somebody has removed them, reports missing
// parts of admission, and applies an edit that a policy recorded while the workload was held.
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

// repairRecords rewrites Weir's annotations on the workload from the stored status if somebody else has
// changed them. While a BatchRelease exists, the decision about it rewrites them in the same pass.
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

// EventRecordsRepaired is the reason of the event that somebody else had changed Weir's annotations on the
// workload, and Weir rewrote them.
const EventRecordsRepaired = "RecordRestored"

// EventExtraRepaired is the reason of the event that somebody else had changed the extra Deployment, and
// Weir restored it.
const EventExtraRepaired = "ExtraRestored"

// TamperedEvent returns the event that names the annotations which were changed and rewritten.
func TamperedEvent(keys []string) Event {
	return Event{Warning: true, Reason: EventRecordsRepaired, Message: fmt.Sprintf(
		"another client wrote %s on the workload; only Weir writes these annotations, so Weir ignored the change and restored them", strings.Join(keys, ", "))}
}

// admissionBypassed reports whether the native controller releases a new template because the workload is
// not held. Either the webhook and the policies were both unavailable when the template was set, or somebody
// removed the hold while they were unavailable.
func admissionBypassed(f facts) bool {
	if f.w.HoldRemoved {
		return HoldsWorkload(f.Rollout)
	}
	return f.w.NativeUpdateRunning && templateChangedUnheld(f)
}

// templateChangedUnheld reports whether the template of a Healthy Rollout's workload was changed without a
// hold. The stored status has the template of the last release. After a release that did not succeed, the
// template may also be the stable one.
func templateChangedUnheld(f facts) bool {
	p := f.stored()
	if f.w.UID != f.Rollout.Status.WorkloadUID || !f.isHealthy() || f.w.Held || p.UpdateRevision == "" || p.State != rollouts.StepCompleted || f.hasReleasedTemplate() {
		return false
	}
	n := len(f.status.Releases)
	lastFailed := n > 0 && f.status.Releases[n-1].Outcome != rollouts.ReleaseSucceeded
	return !lastFailed || !f.w.HasTemplateOf(stableRevision(p))
}

// holdBypassed holds the workload at once. The next pass observes the hold and starts the release at its
// first step: traffic goes to stable pods, and the number of new pods becomes that of the step.
func holdBypassed(d *draft) {
	p := d.stored()
	hadPods := p.CurrentStepIndex > 1 || p.State != rollouts.BeforeStepUpgrade
	if d.w.HoldRemoved && d.hasReleasedTemplate() && d.Batch == nil && hadPods {
		// The template was held when the release created its pods. Somebody has deleted the BatchRelease since
		// then, and a later pass creates it again.
		d.act(HoldWorkload{Again: true})
		return
	}
	message := fmt.Sprintf("admission missed a change of the workload, so revision %s was not held at once, and its pods may have received requests before step 1; Weir holds it now. Run kubectl weir doctor", newName(d.facts))
	if c := d.status.Condition(rollouts.ConditionBypassed); c == nil || c.Message != message {
		d.warn(string(rollouts.ConditionBypassed), message)
	}
	d.setCondition(rollouts.ConditionBypassed, metav1.ConditionTrue, "HeldLate", message)
	d.act(HoldWorkload{})
}

// recordMissedRelease records a release that the native controller completed before Weir observed it. A
// workload without pods needs no hold, so nothing is recorded for it.
func recordMissedRelease(d *draft, stable string) {
	if d.w.Replicas == 0 {
		return
	}
	message := fmt.Sprintf("admission missed a change of the workload, so revision %s was released to every pod without the steps of the Rollout. Run kubectl weir doctor", d.progress().UpdateRevision)
	d.warn(string(rollouts.ConditionBypassed), message)
	d.setCondition(rollouts.ConditionBypassed, metav1.ConditionTrue, "ReleasedUnheld", message)
	openRecord(d)
	currentRecord(&d.status).StableRevision = stable
	closeRecord(d, rollouts.ReleaseBypassed)
}
