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

// How a release ends: completed, or cancelled.

// teardownMessages is what is said of an end that takes a while.
var teardownMessages = map[rollouts.Activity]string{
	rollouts.ActivityFinalising: "Rollout has been completed and some closing work is being done",
	rollouts.ActivityCancelling: "The workload has been rolled back and the rollout process will be canceled",
}

// startTeardown begins the teardown of a release whose steps are all done.
func startTeardown(d *draft) {
	d.progress().FinalisingStep = ""
	d.setActivity(rollouts.ActivityFinalising, teardownMessages[rollouts.ActivityFinalising])
	d.continueWith(CaseEnding)
}

// startCancellation begins the teardown of a release whose template went back to stable.
func startCancellation(d *draft) {
	p := d.progress()
	p.FinalisingStep = ""
	p.UpdateRevision, p.UpdateTemplate = d.w.UpdateRevision, d.w.UpdateTemplate
	if now := d.w.StableRevision; now != "" && p.StableRevision != now {
		p.StableRevision, p.StableTemplate = now, d.w.StableTemplate // a complete release was set again before its end
	}
	if p.RollingBack {
		d.setOutcome(rollouts.VerbRollback, rollouts.OutcomeApplied)
	}
	if d.hasReleasedTemplate() {
		d.setOutcome(rollouts.VerbAbort, rollouts.OutcomeApplied) // the template was stable's before it
	}
	p.FullyPromoted, p.Paused, p.RollingBack = false, false, false
	d.supersedeDecisions()
	d.status.RemoveCondition(rollouts.ConditionStalled)
	d.setActivity(rollouts.ActivityCancelling, teardownMessages[rollouts.ActivityCancelling])
	d.announce("RolloutCancelled", "workload has been rollback, then rollout is canceled")
	d.continueWith(CaseEnding)
}

// teardownResults are what an end leads to, by what the release is doing.
var teardownResults = map[rollouts.Activity]struct {
	outcome   rollouts.ReleaseOutcome
	succeeded metav1.ConditionStatus
	message   string
	event     string
}{
	rollouts.ActivityFinalising: {rollouts.ReleaseSucceeded, metav1.ConditionTrue, "Rollout progressing has been completed", "RolloutSucceeded"},
	rollouts.ActivityCancelling: {rollouts.ReleaseCancelled, metav1.ConditionFalse, "Rollout progressing has been canceled", ""},
}

// tearDownRelease runs the teardown of a completed or cancelled release.
func tearDownRelease(d *draft) {
	ending := teardownResults[d.activity()]
	rows, still := teardowns[d.style].succeeded, d.hasReleasedTemplate()
	if ending.outcome == rollouts.ReleaseCancelled {
		rows, still = teardowns[d.style].cancelled, d.w.HasTemplateOf(updateRevision(*d.progress()))
		if d.w.StableRevisionGone {
			repairStableService(d) // its template was set again, and it has no pods yet
		} else {
			unpinWithoutReadyStablePods(d)
		}
	}
	revision := d.revision()
	if !d.w.Held && !still {
		// It was given back, its template changed unheld, and it goes on natively.
		if revision = (Revision{}); ending.outcome == rollouts.ReleaseCancelled {
			rows = disableTeardown
		}
	}
	left := remainingTeardown(d.facts, rows, restorePlan(d.facts, rollouts.WaitResume, revision, false))
	if d.applyRemaining(left); !left.isDone() {
		setTeardownMessage(d, teardownMessages[d.activity()])
		return
	}
	d.supersedeDecisions()
	closeRecord(d, ending.outcome)
	d.status.RemoveCondition(rollouts.ConditionBypassed)
	d.setActivity(rollouts.ActivityCompleted, ending.message)
	d.setCondition(rollouts.ConditionSucceeded, ending.succeeded, "", "")
	d.status.Phase = rollouts.PhaseHealthy
	p := d.progress()
	if ending.outcome == rollouts.ReleaseCancelled {
		p.PodTemplateHash = d.w.LiveRevision     // what serves, of which the next release starts
		p.ObservedRolloutID = rolloutID(d.facts) // the name that came with the stable template is no wish for another release
	}
	p.ObservedWorkloadGeneration = d.w.Generation
	p.State, p.NextStepIndex = rollouts.StepCompleted, -1
	d.startWait()
	if ending.event != "" {
		d.announce(ending.event, approvedBefore(d.facts, p.CurrentStepIndex)+fmt.Sprintf("revision %s is released", p.UpdateRevision))
	}
}

// setTeardownMessage says what an end waits for, if the batches know it, or without them the workload.
func setTeardownMessage(d *draft, message string) {
	why := ""
	if d.Batch != nil {
		why = d.Batch.Message
	} else if d.w != nil {
		why = cmp.Or(d.w.AdoptableSet, d.w.DeletedPodsRun)
	}
	if d.status.Message = message; why != "" {
		d.status.Message += ": " + why
	}
}

// copyBatchProgress shows what is known of the batches where clients look for it.
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

// copyGenerationAfter is how long a batch that goes on keeps the generation of the workload from
// being shown.
const copyGenerationAfter = 5 * time.Second

// copyWorkloadGeneration shows which generation of the workload was seen. A batch, and a give-back,
// make new ones themselves; to show each would be a write for each.
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

// skipOccupiedBatch does without the BatchRelease while another object has its name, and says so.
func skipOccupiedBatch(d *draft) {
	wanted := len(d.actions)
	if d.BatchNameConflict != "" {
		d.removeActions(func(a Effect) bool { _, runs := a.(RunBatch); return runs })
	}
	switch yields := len(d.actions) < wanted; {
	case !yields:
		d.unstall(rollouts.StalledOccupied)
	case !d.isStalledFor(rollouts.StalledOccupied):
		d.warn(string(rollouts.StalledOccupied), d.BatchNameConflict)
		fallthrough
	default:
		d.stall(rollouts.StalledOccupied, d.BatchNameConflict)
	}
}
