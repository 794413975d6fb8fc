// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The life of a Rollout around its releases: adopt, watch, stand down, end.

// adopt takes a workload into service: admission must see it first, and a
// native rolling update under way is left to settle.
func (x *pass) adopt() {
	x.status.Phase = rollouts.PhaseInitial
	x.status.RemoveCondition(rollouts.ConditionStalled)
	x.progress()
	if x.status.Message = "Rollout is being put in charge of the workload"; !x.enroll() {
		return
	}
	if x.foundStopped() {
		x.takeOver()
		return
	}
	if waits := x.unready(); waits != "" {
		x.status.Message = waits
		return
	}
	if !x.index() {
		return
	}
	x.status.Phase = rollouts.PhaseHealthy
	x.conclude("rollout is healthy")
	if p := x.progress(); !x.w.Held {
		p.ObservedRolloutID = "" // what was released meanwhile is recorded anew
		if p.UpdateRevision != x.w.UpdateRevision {
			*p = rollouts.Progress{}
		}
	}
	x.settleAll()
	x.closeRecord(rollouts.ReleaseDisabled)
	x.watch()
}

// conclude says what the Rollout is at rest: a release that was interrupted is over.
func (x *pass) conclude(message string) {
	x.status.Message = message
	if x.activity() != rollouts.ActivityNone {
		x.become(rollouts.ActivityCompleted, message)
	}
}

// unready says what a workload waits for before it is taken into service.
func (x *pass) unready() string {
	switch {
	case (!x.w.Held || x.w.AtStable) && !x.tidy(disableTeardown):
		return "Rollout gives back what it had taken before"
	case x.w.Held:
		return ""
	case x.w.Paused && x.w.Rolling:
		return "Rollout waits for the workload, which is stopped and not fully released; " + x.w.GoesOn + ", or set the earlier template"
	case x.was().UpdateRevision != "":
		// It was in service before. Who enables it again means the next template,
		// and wants that one held however long this one takes to roll out.
		return ""
	case x.w.Rolling || !x.w.Settled:
		return "Rollout waits for the rolling update under way to settle"
	default:
		return ""
	}
}

// foundStopped reports whether a new Rollout, or one whose release was aborted, finds a
// workload that waits with a template that is not fully released. It is held, or who
// resumes it would release that with no step.
func (x *pass) foundStopped() bool {
	return !x.w.Held && x.w.Paused && x.w.Rolling && (x.was().UpdateRevision == "" || x.aborted())
}

// takeOver holds it. Its release starts paused, unless it is the one that was aborted:
// nobody has said yet that it may start at all.
func (x *pass) takeOver() {
	x.act(Hold{})
	if p := x.progress(); !x.aborted() && !p.Paused {
		p.Paused = true
		x.warn("ReleasePaused", "the workload was stopped and not fully released when the Rollout took it over, so that its release is paused: resume starts it at step 1, abort or rollback takes it back")
	}
}

// resumeAbort goes on with an abort, where the Rollout was disabled and is enabled again.
func (x *pass) resumeAbort() {
	x.status.Phase = rollouts.PhaseProgressing
	x.progress().FinalisingStep = ""
	if x.record() == nil {
		x.openRecord() // that of the release was closed; what is decided now is kept in another
	}
	x.become(rollouts.ActivityAborting, AbortingMessage)
	x.abort()
}

// tidy removes what is left of a release that was interrupted, as when a
// Rollout is disabled and enabled again, and tells whether there is nothing.
func (x *pass) tidy(rows []rollouts.FinalisingStep) bool {
	r := x.Route
	if x.Batch == nil && r.clean() && !x.Routing.holds() && x.told() {
		return true
	}
	return x.run(rows, x.lastPlan(rollouts.Immediate, "", false))
}

// watch is the healthy state: a hold starts a release.
func (x *pass) watch() {
	x.judgeFitness()
	switch {
	case x.w.Held && x.w.AtStable && !x.renamed(), x.leftover():
		x.act(RestoreWorkload{})
	case x.w.Held:
		if x.tidy(replaced) {
			x.start("Rollout is in Progressing")
		}
		return
	case x.unseen():
		x.act(Hold{}) // it passed by admission, and the next pass starts
		return
	}
	p := x.progress()
	x.recordSettled(p)
	if p.UpdateRevision == x.w.UpdateRevision {
		p.ObservedWorkloadGeneration = x.w.Generation
		p.ObservedRolloutID = x.rolloutID()
	}
}

// judgeFitness says in time that the next template could not be released.
func (x *pass) judgeFitness() {
	if x.w.UnsupportedReason != "" {
		x.stall(rollouts.StalledUnsupported, x.w.UnsupportedReason)
	} else if x.stalledFor(rollouts.StalledUnsupported) {
		x.status.RemoveCondition(rollouts.ConditionStalled)
		x.status.Message = "rollout is healthy"
	}
}

// recordSettled describes a workload that came to rest without a release.
func (x *pass) recordSettled(p *rollouts.Progress) {
	if !x.w.Settled || x.w.Rolling {
		return
	}
	unheld, stable := x.changedUnheld(), p.PodTemplateHash
	if unheld || x.unrecorded(p) {
		x.recordCompleted(p)
	}
	if unheld {
		x.missed(stable)
	}
}

// unrecorded reports whether the progress does not describe a workload at rest, as
// at first, or when a release was interrupted.
func (x *pass) unrecorded(p *rollouts.Progress) bool {
	return p.UpdateRevision == "" || p.State != rollouts.StepCompleted && !x.w.Held
}

// unseen reports that no part of admission saw the wish for a release without a
// template, and that the workload is ready for one.
func (x *pass) unseen() bool {
	return x.renamed() && x.w.Settled && !x.w.Rolling && x.w.UnsupportedReason == ""
}

// leftover reports whether marks are left of a hold that is over.
func (x *pass) leftover() bool {
	return !x.w.Held && x.w.HasManagedFields && x.w.Settled && x.w.Target == nil && x.Batch == nil && len(x.w.Astray) == 0
}

// recordCompleted describes a workload found at rest as a release that ended.
func (x *pass) recordCompleted(p *rollouts.Progress) {
	*p = rollouts.Progress{
		RolloutHash: x.planHash(), StableRevision: x.w.StableRevision, UpdateRevision: x.w.UpdateRevision,
		PodTemplateHash: x.w.PodTemplateHash, CurrentStepIndex: int32(len(x.release.Steps)), NextStepIndex: -1,
		State: rollouts.StepCompleted,
	}
	x.status.Message = "workload deployment is completed"
}

// rolloutID names the release.
func (x *pass) rolloutID() string { return cmp.Or(x.named(), x.w.UpdateRevision) }

// named is the name that the workload gives to its release, or empty. What no label
// could say is not taken for a name.
func (x *pass) named() string {
	if len(validation.IsValidLabelValue(x.w.RolloutID)) > 0 {
		return ""
	}
	return x.w.RolloutID
}

// renamed reports whether a workload at rest names another release than its last.
// That is the wish for a release, though every pod runs its template already.
func (x *pass) renamed() bool {
	name, last := x.named(), x.progress().ObservedRolloutID
	return name != "" && last != "" && name != last && x.live() && x.replaces() && x.w.Replicas > 0
}

// releaseID names a release that starts. One of the stable revision is not the
// earlier one that brought it, which has its name where nobody gives another.
func (x *pass) releaseID() string {
	if id := "rollback-" + x.w.UpdateRevision; x.w.AtStable && x.named() == "" && len(validation.IsValidLabelValue(id)) == 0 {
		return id
	}
	return x.rolloutID()
}

// start begins a release at its first step.
func (x *pass) start(message string) {
	x.status.Phase = rollouts.PhaseProgressing
	x.begin()
	x.become(rollouts.ActivityInitializing, message)
	x.announce("RolloutStarted", fmt.Sprintf("release of revision %s has started", x.w.UpdateRevision))
	x.initialize()
}

// begin is the progress and the record of a release at its first step.
func (x *pass) begin() {
	x.status.RemoveCondition(rollouts.ConditionSucceeded)
	x.status.RemoveCondition(rollouts.ConditionStalled)
	stable := x.stableTemplate()
	x.status.SetActive(x.style, &rollouts.Progress{
		ObservedWorkloadGeneration: x.w.Generation, ObservedRolloutID: x.releaseID(), RolloutHash: x.planHash(),
		StableRevision: x.w.StableRevision, StableTemplate: stable, UpdateRevision: x.w.UpdateRevision, PodTemplateHash: x.w.PodTemplateHash,
		CurrentStepIndex: 1, NextStepIndex: x.release.Next(1), State: rollouts.BeforeStepUpgrade,
		Paused: x.Rollout.Status.Phase == rollouts.PhaseInitial && x.was().Paused,
	})
	x.stamp()
	x.openRecord()
}

// initialize waits for what the release needs, then lets it run. A release that
// is tried again leaves what its abort had not finished.
func (x *pass) initialize() {
	left := x.Batch != nil || x.Route != nil && x.Route.Routed || x.Routing.holds()
	if left && !x.run(replaced, rollouts.ReleasePlan{}) {
		return
	}
	x.settle(rollouts.VerbRetry, rollouts.OutcomeApplied)
	if missing := x.lacks(); missing != "" {
		x.cause = missing + " does not exist"
		x.become(rollouts.ActivityInitializing, "Rollout waits for "+missing+", which does not exist; the workload is held until then")
		return
	}
	if x.paused() {
		x.pauseRelease()
		return
	}
	x.become(rollouts.ActivityInRolling, "Rollout is in Progressing")
	x.step()
}

// yield does without the BatchRelease while somebody else's has its name, and says so.
func (x *pass) yield() {
	wanted := len(x.actions)
	if x.Occupied != "" {
		x.actions = slices.DeleteFunc(x.actions, func(a Action) bool { _, runs := a.(RunBatch); return runs })
	}
	switch {
	case len(x.actions) == wanted && x.stalledFor(rollouts.StalledOccupied):
		x.status.RemoveCondition(rollouts.ConditionStalled)
	case len(x.actions) < wanted && !x.stalledFor(rollouts.StalledOccupied):
		x.warn(string(rollouts.StalledOccupied), x.Occupied)
		fallthrough
	case len(x.actions) < wanted:
		x.stall(rollouts.StalledOccupied, x.Occupied)
	}
}

// setUnsupported says why the workload cannot be released.
func (x *pass) setUnsupported() {
	x.status.Phase = rollouts.PhaseInitial
	x.progress()
	x.stall(rollouts.StalledUnsupported, x.unsuited())
}

// workloadNotFound is also how verbs know of it.
const workloadNotFound = "Workload Not Found"

// reset forgets a release whose workload is gone, but not what it left in the network.
func (x *pass) reset() {
	if x.status.Message = x.absence(); !x.tidy(workloadGone) {
		return
	}
	x.settleAll()
	x.closeRecord(rollouts.ReleaseDeleted)
	x.status.Phase = rollouts.PhaseInitial
	for _, c := range []rollouts.ConditionType{rollouts.ConditionProgressing, rollouts.ConditionSucceeded, rollouts.ConditionStalled, rollouts.ConditionBypassed} {
		x.status.RemoveCondition(c)
	}
	x.status.SetActive(x.style, &rollouts.Progress{})
	x.status.WorkloadUID = ""
}

// absence says that the workload is gone, or what keeps it.
func (x *pass) absence() string {
	if x.Workload != nil && x.Workload.Deleted != "" {
		return workloadNotFound + ": " + x.Workload.Deleted
	}
	return workloadNotFound
}

// disable gives everything back and leaves the workload to its owner.
func (x *pass) disable() {
	if x.status.Phase == rollouts.PhaseDisabled {
		x.withdraw() // label and entry may have been seen too late
		return
	}
	if x.status.Phase != rollouts.PhaseDisabling {
		x.status.Phase = rollouts.PhaseDisabling
		x.progress().FinalisingStep = ""
	}
	x.because("Disabling rollout, release resources")
	if !x.giveBack() {
		return
	}
	if x.withdraw() {
		return
	}
	x.settleAll()
	x.closeRecord(rollouts.ReleaseDisabled)
	x.status.RemoveCondition(rollouts.ConditionStalled)
	x.status.RemoveCondition(rollouts.ConditionBypassed)
	x.status.Phase = rollouts.PhaseDisabled
	x.status.WorkloadUID = ""
	switch x.status.Message = "Rollout is disabled"; {
	case !x.aborted():
		x.conclude(x.status.Message)
	case x.doing(rollouts.ActivityAborting):
		x.become(rollouts.ActivityAborted, x.status.Message) // it is remembered, or enabling would release it
	}
	x.announce("RolloutDisabled", "the workload was given back to its own controller")
}

// terminate gives everything back and lets the Rollout go.
func (x *pass) terminate() {
	if x.status.Phase != rollouts.PhaseTerminating {
		x.status.Phase = rollouts.PhaseTerminating
		x.progress().FinalisingStep = ""
		x.terminating(metav1.ConditionTrue, "InTerminating")
	}
	x.because("Rollout is in terminating")
	if !x.giveBack() {
		return
	}
	x.closeRecord(rollouts.ReleaseDeleted)
	x.status.WorkloadUID = ""
	if others := rollouts.FinalizersOf(x.Rollout, rollouts.FinalizerRollout); others != "" {
		x.status.Message = "Rollout has given everything back, and stays until somebody takes these finalizers off: " + others
	}
	x.terminating(metav1.ConditionFalse, "Completed")
	x.withdraw()
	x.act(DropFinalizer{})
}

func (x *pass) terminating(s metav1.ConditionStatus, reason string) {
	x.status.SetCondition(rollouts.Condition{
		Type: rollouts.ConditionTerminating, Status: s, Reason: reason, Message: "Rollout is in terminating",
	}, x.now())
}

// giveBack runs the teardown of a Rollout that leaves. A version that was
// aborted is brought back first and is never released by leaving: everything
// is restored then but the pause.
func (x *pass) giveBack() bool {
	if x.w == nil {
		return x.run(workloadGone, rollouts.ReleasePlan{})
	}
	if x.condemned() {
		if x.run(replaced, rollouts.ReleasePlan{}) {
			x.passOn()
		}
		return false
	}
	if x.aborted() && x.notNamed() {
		x.askAgain() // whether it is what was aborted
		return false
	}
	if rejected := x.aborted() && x.live() && !x.w.AtStable; rejected {
		return x.broughtBack() && x.leavePaused()
	}
	return x.run(disableTeardown, x.lastPlan(rollouts.Immediate, "", false))
}

// leavePaused gives the workload back, and its pause with it.
func (x *pass) leavePaused() bool {
	if x.w.HasManagedFields && x.progress().FinalisingStep == "" && x.w.LiveRevision != x.w.StableRevision {
		x.warn("WorkloadKeptPaused", "the release was aborted, so the workload is given back paused; release another template, then resume it")
	}
	return x.run(disableTeardown, x.lastPlan(rollouts.Immediate, "", true))
}

// broughtBack reports whether an abort is over, as far as it can be.
func (x *pass) broughtBack() bool {
	if x.doing(rollouts.ActivityAborted) {
		return true
	}
	x.abort()
	if x.stalledFor(rollouts.StalledStableGone) || x.stalledFor(rollouts.StalledStableEdited) {
		// Then it can only be left as it is, and paused.
		x.become(rollouts.ActivityAborted, x.status.Message)
	}
	if x.doing(rollouts.ActivityAborting) {
		return false
	}
	x.progress().FinalisingStep = ""
	return true
}
