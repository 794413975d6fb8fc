// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// teardownMessages are the messages of a Rollout while a completed or cancelled release is torn down.
var teardownMessages = map[rollouts.Activity]string{
	rollouts.ActivityFinalising: "Rollout has been completed and some closing work is being done",
	rollouts.ActivityCancelling: "The workload has been rolled back and the rollout process will be canceled",
}

// startTeardown starts the teardown of a release whose steps are all completed.
func startTeardown(d *draft) {
	d.progress().FinalisingStep = ""
	d.setActivity(rollouts.ActivityFinalising, teardownMessages[rollouts.ActivityFinalising])
	d.continueWith(CaseEnding)
}

// startCancellation starts the teardown of a release whose workload has the stable template again.
func startCancellation(d *draft) {
	p := d.progress()
	p.FinalisingStep = ""
	p.UpdateRevision, p.UpdateTemplate = d.w.UpdateRevision, d.w.UpdateTemplate
	if stable := d.w.StableRevision; stable != "" && p.StableRevision != stable {
		// The template of a completed release was set again before the teardown of the next release ended.
		p.StableRevision, p.StableTemplate = stable, d.w.StableTemplate
	}
	if p.RollingBack {
		d.setOutcome(rollouts.VerbRollback, rollouts.OutcomeApplied)
	}
	if d.hasReleasedTemplate() {
		// An earlier pass had accepted the stable template before the abort, so the abort has nothing left to do.
		d.setOutcome(rollouts.VerbAbort, rollouts.OutcomeApplied)
	}
	p.FullyPromoted, p.Paused, p.RollingBack = false, false, false
	d.supersedeDecisions()
	d.status.RemoveCondition(rollouts.ConditionStalled)
	d.setActivity(rollouts.ActivityCancelling, teardownMessages[rollouts.ActivityCancelling])
	d.announce("RolloutCancelled", "workload has been rollback, then rollout is canceled")
	d.continueWith(CaseEnding)
}

// teardownResults have the results of a completed teardown, by the activity of the release during the teardown.
var teardownResults = map[rollouts.Activity]struct {
	outcome   rollouts.ReleaseOutcome
	succeeded metav1.ConditionStatus
	message   string
	event     string
}{
	rollouts.ActivityFinalising: {rollouts.ReleaseSucceeded, metav1.ConditionTrue, "Rollout progressing has been completed", "RolloutSucceeded"},
	rollouts.ActivityCancelling: {rollouts.ReleaseCancelled, metav1.ConditionFalse, "Rollout progressing has been canceled", ""},
}

// tearDownRelease runs the teardown of a completed or cancelled release as far as one pass can. When the teardown
// is complete, the Rollout becomes Healthy.
func tearDownRelease(d *draft) {
	d.unstall(rollouts.StalledStableEdited) // the edited template of the stable revision is not set any more
	result := teardownResults[d.activity()]
	isCancelled := result.outcome == rollouts.ReleaseCancelled
	rows, templateUnchanged := teardowns[d.style].succeeded, d.hasReleasedTemplate()
	if isCancelled {
		rows, templateUnchanged = teardowns[d.style].cancelled, d.w.HasTemplateOf(updateRevision(*d.progress()))
		if d.w.StableRevisionGone {
			repairStableService(d) // the stable template was set again, and has no pods yet
		} else {
			unpinWithoutReadyStablePods(d)
		}
	}
	revision := d.revision()
	if !d.w.Held && !templateUnchanged {
		// The workload was restored, and its template was then changed without a hold. The native controller
		// releases this template.
		revision = Revision{}
		if isCancelled {
			rows = disableTeardown
		}
	}
	left := remainingTeardown(d.facts, rows, restorePlan(d.facts, rollouts.WaitResume, revision, false))
	d.applyRemaining(left)
	if !left.isDone() {
		setTeardownMessage(d, teardownMessages[d.activity()])
		return
	}
	d.supersedeDecisions()
	closeRecord(d, result.outcome)
	d.status.RemoveCondition(rollouts.ConditionBypassed)
	d.setActivity(rollouts.ActivityCompleted, result.message)
	d.setCondition(rollouts.ConditionSucceeded, result.succeeded, "", "")
	d.status.Phase = rollouts.PhaseHealthy
	p := d.progress()
	if isCancelled {
		p.PodTemplateHash = d.w.LiveRevision // the next release starts from the revision that serves now
		// The user may have changed the rollout ID together with the template. This does not request another
		// release.
		p.ObservedRolloutID = rolloutID(d.facts)
	}
	p.ObservedWorkloadGeneration = d.w.Generation
	p.State, p.NextStepIndex = rollouts.StepCompleted, -1
	d.startWait()
	if result.event != "" {
		d.announce(result.event, approvedBefore(d.facts, p.CurrentStepIndex)+fmt.Sprintf("revision %s is released", p.UpdateRevision))
	}
}

// setTeardownMessage sets the message of the Rollout during a teardown or an abort. It adds the reason for the wait
// if the BatchRelease or, without a BatchRelease, the workload has one.
func setTeardownMessage(d *draft, message string) {
	reason := ""
	if d.Batch != nil {
		reason = d.Batch.Message
	} else if d.w != nil {
		reason = cmp.Or(d.w.AdoptableSet, d.w.DeletedPodsRun)
	}
	if d.status.Message = message; reason != "" {
		d.status.Message += ": " + reason
	}
}

// copyBatchProgress copies the progress of the BatchRelease to the status of the Rollout, where clients of
// OpenKruise Rollouts expect it.
func copyBatchProgress(d *draft) {
	p := d.status.Active()
	if p == nil {
		return
	}
	if d.cause == "" && d.Batch != nil {
		d.cause = d.Batch.Message
	}
	if p.Message = d.cause; !deadlineRuns(d.facts) {
		p.Message = strings.Join(waitMessages(d.verdicts), "; ")
	}
	if d.Batch == nil || d.status.Phase != rollouts.PhaseProgressing {
		return
	}
	b := d.Batch
	p.UpdateReplicas, p.UpdateReadyReplicas = b.UpdatedReplicas, b.UpdatedReadyReplicas
	copyWorkloadGeneration(d, p)
}

// copyGenerationAfter is the time after the last progress of a running batch at which the generation of the
// workload is copied to the status.
const copyGenerationAfter = 5 * time.Second

// copyWorkloadGeneration copies the observed generation of the workload to the status. A running batch and a
// teardown change the generation themselves, so the copy is delayed for them. Otherwise each change would
// cause a status write.
func copyWorkloadGeneration(d *draft, p *rollouts.Progress) {
	if d.w == nil || !d.w.HasTemplateOf(updateRevision(*p)) || d.w.Generation == p.ObservedWorkloadGeneration {
		return
	}
	if since := p.LastProgressTime; since != nil && (d.Batch.isRunning() || d.isEnding()) && d.until(since.Add(copyGenerationAfter)) > 0 {
		d.wakeIn(d.until(since.Add(copyGenerationAfter)))
		return
	}
	p.ObservedWorkloadGeneration = d.w.Generation
}

// skipOccupiedBatch removes the actions that create or update the BatchRelease while another object uses the
// name of the BatchRelease, and sets the Stalled condition.
func skipOccupiedBatch(d *draft) {
	hasSkipped := false
	if d.BatchNameConflict != "" {
		before := len(d.actions)
		d.removeActions(func(e Effect) bool { _, runsBatch := e.(RunBatch); return runsBatch })
		hasSkipped = len(d.actions) < before
	}
	if !hasSkipped {
		d.unstall(rollouts.StalledOccupied)
		return
	}
	if !d.isStalledFor(rollouts.StalledOccupied) {
		d.warn(string(rollouts.StalledOccupied), d.BatchNameConflict)
	}
	d.stall(rollouts.StalledOccupied, d.BatchNameConflict)
}
