// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// A Rollout around its releases: it adopts a workload, and watches it.

// adopt takes a workload into service: admission must see it first, and a
// native rolling update under way is left to settle.
func adopt(d *draft) {
	d.status.Phase = rollouts.PhaseInitial
	d.status.RemoveCondition(rollouts.ConditionStalled)
	d.progress()
	d.status.Message = "Rollout is adopting the workload"
	if !d.w.Labelled {
		d.act(LabelWorkload{})
		return
	}
	if foundStopped(d.facts) {
		holdFoundWorkload(d)
		return
	}
	if foundUnderWay(d.facts) {
		d.progress().Paused = true
		d.warn("ReleasePaused", "the release is paused, because the workload was in the middle of a release that this Rollout does not know (weir-apiserver may have lost data): resume starts the release at step 1, abort or rollback restores the stable version")
		return
	}
	left := remainingWork{}
	if !d.w.Held || d.w.HasStableTemplate {
		left = remainingAfterInterruption(d.facts, disableTeardown)
	}
	if d.applyRemaining(left); !left.isDone() {
		d.status.Message = "Rollout gives back what it had taken before"
		return
	}
	if waits := adoptionWaitReason(d.facts); waits != "" {
		d.status.Message = waits
		return
	}
	if !d.Indexed {
		d.act(AddToIndex{})
		return
	}
	d.status.Phase = rollouts.PhaseHealthy
	setAtRest(d, "rollout is healthy")
	if p := d.progress(); !d.w.Held {
		p.ObservedRolloutID = "" // what was released meanwhile is recorded again
		if !d.w.HasTemplateOf(updateRevision(*p)) {
			*p = rollouts.Progress{}
		}
	}
	d.supersedeDecisions()
	closeRecord(d, rollouts.ReleaseDisabled)
	d.continueWith(CaseHealthy)
}

// setAtRest says what the Rollout is at rest: a release that was interrupted is over.
func setAtRest(d *draft, message string) {
	d.status.Message = message
	if d.activity() != rollouts.ActivityNone {
		d.setActivity(rollouts.ActivityCompleted, message)
	}
}

// adoptionWaitReason says what a workload waits for before it is taken into service.
func adoptionWaitReason(f *facts) string {
	switch {
	case f.w.Held:
		return ""
	case f.w.Paused && f.w.NativeUpdateRunning:
		return "Rollout waits for the workload, which is stopped and not fully released; " + f.w.ResumeHint + ", or set the earlier template"
	case f.stored().UpdateRevision != "", f.remade != nil:
		// It was in service before, or was made again under a Rollout in service. A user who
		// enables it again means the next template, and wants that one held however long
		// this one takes to roll out.
		return ""
	case f.w.NativeUpdateRunning || !f.w.Settled:
		return "Rollout waits for the rolling update under way to settle"
	default:
		return ""
	}
}

// foundStopped reports whether a new Rollout, or one whose release was aborted, finds a
// workload that waits with a template that is not fully released. It is held, or a user
// who resumes it would release that with no step.
func foundStopped(f *facts) bool {
	return !f.w.Held && f.w.Paused && f.w.NativeUpdateRunning && (f.stored().UpdateRevision == "" || f.isAborted())
}

// foundUnderWay reports whether the workload of a new Rollout is in the middle of a release that
// the store does not know. A user may have paused or aborted that release.
func foundUnderWay(f *facts) bool {
	return f.w.Held && f.w.HasUnknownRecords && f.w.StableRevision != "" && !f.w.HasStableTemplate && f.stored().UpdateRevision == "" && !f.stored().Paused
}

// holdFoundWorkload holds it. Its release starts paused, unless it is the one that was aborted:
// nobody has said yet that it may start at all.
func holdFoundWorkload(d *draft) {
	d.act(HoldWorkload{})
	if p := d.progress(); !d.isAborted() && !p.Paused {
		p.Paused = true
		d.warn("ReleasePaused", "the workload was stopped and not fully released when the Rollout took it over, so that its release is paused: resume starts it at step 1, abort or rollback takes it back")
	}
}

// resumeAbort goes on with an abort, where the Rollout was disabled and is enabled again.
func resumeAbort(d *draft) {
	d.status.Phase = rollouts.PhaseProgressing
	d.progress().FinalisingStep = ""
	if record(&d.status) == nil {
		openRecord(d) // that of the release was closed; what is decided now is kept in another
	}
	d.setActivity(rollouts.ActivityAborting, AbortingMessage)
	d.continueWith(CaseAborted)
}

// watchHealthy is the healthy state: a hold starts a release.
func watchHealthy(d *draft) {
	checkSupported(d)
	switch {
	case d.w.Held && d.w.HasStableTemplate && !rolloutIDChanged(d.facts), hasLeftoverRecords(d.facts):
		d.act(RestoreWorkload{})
	case d.w.Held:
		left := remainingAfterInterruption(d.facts, replacedTeardown)
		if d.applyRemaining(left); left.isDone() {
			startRelease(d, "Rollout is in Progressing")
		}
		return
	case needsRelease(d.facts):
		d.act(HoldWorkload{}) // it passed by admission, and the next pass starts
		return
	}
	recordSettled(d)
	if p := d.progress(); d.w.HasTemplateOf(updateRevision(*p)) {
		p.ObservedWorkloadGeneration = d.w.Generation
		p.ObservedRolloutID = rolloutID(d.facts)
	}
}

// checkSupported says in time that the next template could not be released.
func checkSupported(d *draft) {
	if d.w.UnsupportedReason != "" {
		d.stall(rollouts.StalledUnsupported, d.w.UnsupportedReason)
	} else if d.isStalledFor(rollouts.StalledUnsupported) {
		d.status.RemoveCondition(rollouts.ConditionStalled)
		d.status.Message = "rollout is healthy"
	}
}

// recordSettled describes a workload that came to rest without a release.
func recordSettled(d *draft) {
	if !d.w.Settled || d.w.NativeUpdateRunning {
		return
	}
	p := d.progress()
	unheld, stable := templateChangedUnheld(d.facts), p.PodTemplateHash
	if unheld || unrecorded(d.facts) {
		recordCompleted(d)
	}
	if unheld {
		recordMissedRelease(d, stable)
	}
}

// unrecorded reports whether the progress does not describe a workload at rest, as
// at first, or when a release was interrupted.
func unrecorded(f *facts) bool {
	p := f.progress()
	return p.UpdateRevision == "" || p.State != rollouts.StepCompleted && !f.w.Held
}

// needsRelease reports whether no part of admission saw the wish for a release without a
// template, and the workload is ready for one.
func needsRelease(f *facts) bool {
	return rolloutIDChanged(f) && f.w.Settled && !f.w.NativeUpdateRunning && f.w.UnsupportedReason == ""
}

// hasLeftoverRecords reports whether marks are left of a hold that is over.
func hasLeftoverRecords(f *facts) bool {
	return !f.w.Held && f.w.HasManagedFields && f.w.Settled && f.w.Target == nil && f.Batch == nil && len(f.w.TamperedKeys) == 0
}

// recordCompleted describes a workload found at rest as a release that ended.
func recordCompleted(d *draft) {
	*d.progress() = rollouts.Progress{
		RolloutHash: d.planHash(), StableRevision: d.w.StableRevision, UpdateRevision: newName(d.facts),
		UpdateTemplate: d.w.UpdateTemplate, PodTemplateHash: d.w.PodTemplateHash, CurrentStepIndex: int32(len(d.release.Steps)), NextStepIndex: -1,
		State: rollouts.StepCompleted,
	}
	d.status.Message = "workload deployment is completed"
}

// setUnsupported says why the workload cannot be released.
func setUnsupported(d *draft) {
	d.status.Phase = rollouts.PhaseInitial
	d.progress()
	d.stall(rollouts.StalledUnsupported, unsupportedReason(d.facts))
}

// workloadNotFound and workloadMadeAgain are also how verbs know of it.
const (
	workloadNotFound  = "Workload Not Found"
	workloadMadeAgain = "Workload was made again"
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
	if restoreNetwork(d); d.waits || remadeUnprotected {
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
func restoreNetwork(d *draft) {
	left := remainingAfterInterruption(d.facts, workloadGone)
	if r := d.route(); r != nil && r.Pinned != "" && left.action != (UnpinService{}) {
		d.act(UnpinService{})
	}
	d.applyRemaining(left)
	if d.waits = !left.isDone(); left.cause != "" {
		d.status.Message += ": " + left.cause
	}
}

// clearRelease ends a release whose workload is gone.
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

// workloadGoneMessage says that the workload is gone, or what keeps it.
func workloadGoneMessage(f *facts) string {
	switch {
	case f.remade != nil:
		return workloadMadeAgain + ": the release of the earlier one ends, and the Services and routes that it changed are restored"
	case f.Workload != nil && f.Workload.Deleted != "":
		return workloadNotFound + ": " + f.Workload.Deleted
	default:
		return workloadNotFound
	}
}
