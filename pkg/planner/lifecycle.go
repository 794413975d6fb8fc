// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// This file has the life of a Rollout outside its releases. The Rollout adopts a workload, watches
// the workload for a new template, and handles the deletion of the workload.

// adopt brings a workload under the control of the Rollout. The workload first gets the label by
// which admission selects it. A native rolling update in progress is allowed to complete.
func adopt(d *draft) {
	d.status.Phase = rollouts.PhaseInitial
	d.status.RemoveCondition(rollouts.ConditionStalled)
	d.status.Message = "Rollout is adopting the workload"
	if !d.w.Labelled {
		d.act(LabelWorkload{})
		return
	}
	if foundStopped(d.facts) {
		holdFoundWorkload(d)
		return
	}
	if foundMidRelease(d.facts) {
		d.progress().Paused = true
		d.warn("ReleasePaused", "the release is paused, because the workload was in the middle of a release that this Rollout does not know (weir-apiserver may have lost data): resume starts the release at step 1, abort or rollback restores the stable version")
		return
	}
	remaining := remainingWork{}
	if !d.w.Held || d.w.HasStableTemplate {
		remaining = remainingAfterInterruption(d.facts, disableTeardown)
	}
	if d.applyRemaining(remaining); !remaining.isDone() {
		d.status.Message = "Rollout restores the workload, Services and routes of an interrupted release"
		return
	}
	if reason := adoptionWaitReason(d.facts); reason != "" {
		d.status.Message = reason
		return
	}
	if !d.Indexed {
		d.act(AddToIndex{})
		return
	}
	d.status.Phase = rollouts.PhaseHealthy
	setAtRest(d, "rollout is healthy")
	if p := d.progress(); !d.w.Held {
		p.ObservedRolloutID = "" // watchHealthy records the ID of a release that happened while the Rollout was disabled
		if !d.w.HasTemplateOf(updateRevision(*p)) {
			*p = rollouts.Progress{}
		}
	}
	d.supersedeDecisions()
	closeRecord(d, rollouts.ReleaseDisabled)
	d.continueWith(CaseHealthy)
}

// setAtRest sets the message of a Rollout without a release. It marks an interrupted release as completed.
func setAtRest(d *draft, message string) {
	d.status.Message = message
	if d.activity() != rollouts.ActivityNone {
		d.setActivity(rollouts.ActivityCompleted, message)
	}
}

// adoptionWaitReason returns what has to happen before the workload can be adopted; empty if nothing.
func adoptionWaitReason(f facts) string {
	switch {
	case f.w.Held:
		return ""
	case f.w.Paused && f.w.NativeUpdateRunning:
		return "Rollout waits: the workload is paused in the middle of a rolling update; " + f.w.ResumeHint + ", or apply the previous template"
	case f.stored().UpdateRevision != "", f.remade != nil:
		// The Rollout had adopted this workload before, or an earlier one with the same name. A user
		// who enables the Rollout again expects Weir to hold the next template, even if the current
		// template takes long to roll out.
		return ""
	case f.w.NativeUpdateRunning || !f.w.Settled:
		return "Rollout waits for the current rolling update to settle"
	default:
		return ""
	}
}

// foundStopped reports whether a new Rollout, or a Rollout whose release was aborted, finds a paused
// workload whose template is not fully released. Weir has to hold such a workload: otherwise, a user
// who resumes it would release the template without any step.
func foundStopped(f facts) bool {
	return !f.w.Held && f.w.Paused && f.w.NativeUpdateRunning && (f.stored().UpdateRevision == "" || f.isAbortingOrAborted())
}

// foundMidRelease reports whether the workload of a new Rollout is in the middle of a release that
// the stored status does not know, because weir-apiserver lost data. A user may have paused or
// aborted that release.
func foundMidRelease(f facts) bool {
	return f.w.Held && f.w.HasUnknownRecords && f.w.StableRevision != "" && !f.w.HasStableTemplate && f.stored().UpdateRevision == "" && !f.stored().Paused
}

// holdFoundWorkload holds a workload that was found paused. Its release starts paused, because no user
// has requested its start yet. An aborted release is not paused.
func holdFoundWorkload(d *draft) {
	d.act(HoldWorkload{})
	if p := d.progress(); !d.isAbortingOrAborted() && !p.Paused {
		p.Paused = true
		d.warn("ReleasePaused", "the workload was paused in the middle of a rolling update when the Rollout took it over, so its release is paused: resume starts it at step 1, abort or rollback restores the stable version")
	}
}

// resumeAbort continues an abort after the Rollout was disabled and enabled again.
func resumeAbort(d *draft) {
	d.status.Phase = rollouts.PhaseProgressing
	d.progress().FinalisingStep = ""
	if currentRecord(&d.status) == nil {
		openRecord(d) // disabling closed the record of the release, and new decisions need a record
	}
	d.setActivity(rollouts.ActivityAborting, AbortingMessage)
	d.continueWith(CaseAborted)
}

// watchHealthy watches an adopted workload between releases. When admission has held a new template,
// it starts a release.
func watchHealthy(d *draft) {
	checkSupported(d)
	switch {
	case d.w.Held && d.w.HasStableTemplate && !rolloutIDChanged(d.facts), hasLeftoverRecords(d.facts):
		d.act(RestoreWorkload{})
	case d.w.Held:
		remaining := remainingAfterInterruption(d.facts, replacedTeardown)
		if d.applyRemaining(remaining); remaining.isDone() {
			startRelease(d, "Rollout is in Progressing")
		}
		return
	case needsRelease(d.facts):
		d.act(HoldWorkload{}) // admission holds only new templates; the next reconcile starts the release
		return
	}
	recordWorkloadAtRest(d)
	if p := d.progress(); d.w.HasTemplateOf(updateRevision(*p)) {
		p.ObservedWorkloadGeneration = d.w.Generation
		p.ObservedRolloutID = rolloutID(d.facts)
	}
}

// checkSupported sets the condition Stalled as soon as the workload becomes unsupported, so that users
// learn it before they set the next template.
func checkSupported(d *draft) {
	if d.w.UnsupportedReason != "" {
		d.stall(rollouts.StalledUnsupported, d.w.UnsupportedReason)
	} else if d.isStalledFor(rollouts.StalledUnsupported) {
		d.status.RemoveCondition(rollouts.ConditionStalled)
		d.status.Message = "rollout is healthy"
	}
}

// recordWorkloadAtRest records the revision of a workload that its native controller has rolled out
// completely without a release.
func recordWorkloadAtRest(d *draft) {
	if !d.w.Settled || d.w.NativeUpdateRunning {
		return
	}
	p := d.progress()
	unheld, stable := templateChangedUnheld(d.facts), p.PodTemplateHash
	if unheld || isUnrecorded(d.facts) {
		recordCompleted(d)
	}
	if unheld {
		recordMissedRelease(d, stable)
	}
}

// isUnrecorded reports whether the stored progress does not describe the workload at rest. This is so
// after the adoption, and after a release was interrupted.
func isUnrecorded(f facts) bool {
	p := f.progress()
	return p.UpdateRevision == "" || p.State != rollouts.StepCompleted && !f.w.Held
}

// needsRelease reports whether a user requested a release with a new rollout ID only, and the workload
// is ready for it. Admission does not hold a workload whose template is unchanged.
func needsRelease(f facts) bool {
	return rolloutIDChanged(f) && f.w.Settled && !f.w.NativeUpdateRunning && f.w.UnsupportedReason == ""
}

// hasLeftoverRecords reports whether annotations or strategy changes of a former hold remain on the workload.
func hasLeftoverRecords(f facts) bool {
	return !f.w.Held && f.w.HasManagedFields && f.w.Settled && f.w.Target == nil && f.Batch == nil && len(f.w.TamperedKeys) == 0
}

// recordCompleted records the current revision of the workload as a completed release.
func recordCompleted(d *draft) {
	*d.progress() = rollouts.Progress{
		RolloutHash: d.planHash(), StableRevision: d.w.StableRevision, UpdateRevision: newName(d.facts),
		UpdateTemplate: d.w.UpdateTemplate, PodTemplateHash: d.w.PodTemplateHash, CurrentStepIndex: int32(len(d.plan.Steps)), NextStepIndex: -1,
		State: rollouts.StepCompleted,
	}
	d.status.Message = "workload deployment is completed"
}

// setUnsupported sets the condition Stalled with the reason why the workload cannot be released.
func setUnsupported(d *draft) {
	d.status.Phase = rollouts.PhaseInitial
	d.stall(rollouts.StalledUnsupported, unsupportedReason(d.facts))
}

// The status message of a release whose workload is gone begins with workloadNotFound or
// workloadMadeAgain. StateOf recognizes the state by this prefix.
const (
	workloadNotFound  = "Workload Not Found"
	workloadMadeAgain = "Workload was created again"
)

// endWithoutWorkload ends a release whose workload was deleted, and restores the Services and routes that the
// release changed. A workload that was created again under the same name is protected first. The
// status write that ends the release also adopts that workload, so that admission holds its next
// template at every moment.
func endWithoutWorkload(d *draft) {
	d.status.Message = workloadGoneMessage(d.facts)
	remadeUnprotected := remadeIsUnprotected(d.facts)
	if remadeUnprotected && !d.remade.Labelled {
		d.act(LabelWorkload{})
	}
	if remadeUnprotected && !d.Indexed {
		d.act(AddToIndex{})
	}
	if done := restoreNetwork(d); !done || remadeUnprotected {
		return
	}
	d.status.Phase = rollouts.PhaseInitial
	clearRelease(d)
	switch continueWithRemade(d); {
	case d.w == nil:
	case unsupported(d.facts):
		d.continueWith(CaseUnsupported)
	default:
		d.continueWith(CaseNotAdopted)
	}
}

// restoreNetwork restores Services and routes after the workload of the release was deleted, as far as one
// pass can. It unpins the stable Service at once, because the pods that the Service selects may have
// been deleted with the workload.
func restoreNetwork(d *draft) (done bool) {
	remaining := remainingAfterInterruption(d.facts, workloadGone)
	if r := d.route(); r != nil && r.Pinned != "" && remaining.action != (UnpinService{}) {
		d.act(UnpinService{})
	}
	d.applyRemaining(remaining)
	if remaining.cause != "" {
		d.status.Message += ": " + remaining.cause
	}
	return remaining.isDone()
}

// clearRelease closes the record of a release whose workload is gone, and removes its progress and its
// conditions from the status.
func clearRelease(d *draft) {
	d.supersedeDecisions()
	closeRecord(d, rollouts.ReleaseDeleted)
	for _, c := range []rollouts.ConditionType{rollouts.ConditionProgressing, rollouts.ConditionSucceeded, rollouts.ConditionStalled, rollouts.ConditionBypassed} {
		d.status.RemoveCondition(c)
	}
	d.status.SetActive(d.style, &rollouts.Progress{})
	d.status.WorkloadUID = ""
}

// continueWithRemade continues the pass with the workload that was created again, as if the status that
// this pass has decided were stored already.
func continueWithRemade(d *draft) {
	if d.remade == nil {
		return
	}
	stored := *d.Rollout
	stored.Status = *d.status.DeepCopy()
	d.Rollout, d.w = &stored, d.remade
}

// workloadGoneMessage returns the message that the workload is gone, or which finalizers keep it.
func workloadGoneMessage(f facts) string {
	switch {
	case f.remade != nil:
		return workloadMadeAgain + ": the release of the earlier one ends, and the Services and routes that it changed are restored"
	case f.Workload != nil && f.Workload.Deleted != "":
		return workloadNotFound + ": " + f.Workload.Deleted
	default:
		return workloadNotFound
	}
}
