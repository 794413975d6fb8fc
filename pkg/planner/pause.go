// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/judge"
)

// A release that is paused, or that refuses another template, stays in its step and maintains the
// state of the step: pod counts follow the size of the workload, the stable Service stays pinned, and
// routers keep their routes. If some of this is impossible, the status message says why.

// pauseRelease keeps the release in its step until neither the spec nor the status pauses it.
func pauseRelease(d *draft) {
	setPaused(d)
	d.unstall(rollouts.StalledRefused)
	switch {
	case !retriesUnfinishedAbort(d.facts):
		stopBatch(d)
		maintainTraffic(d)
	case stableCannotBeRestored(d.facts):
		stallWithoutStable(d)
	default:
		d.unstall(rollouts.StalledStableGone, rollouts.StalledStableEdited)
		if done := moveBackToStable(d); !done {
			d.status.Message += "; its abort is being completed first"
		}
	}
}

// setPaused sets the activity and the message of a paused release.
func setPaused(d *draft) {
	if !d.isDoing(rollouts.ActivityPaused) {
		d.setActivity(rollouts.ActivityPaused, PausedMessage)
	}
	d.status.Message = PausedMessage
	d.setOutcome(rollouts.VerbRetry, rollouts.OutcomeApplied)
}

// clearPaused sets the activity of a paused release back to InRolling.
func clearPaused(d *draft) {
	if d.isDoing(rollouts.ActivityPaused) {
		d.setActivity(rollouts.ActivityInRolling, "Rollout is in Progressing")
	}
}

// retriesUnfinishedAbort reports whether an aborted release was retried before its abort completed. Some requests
// and pods may have returned to the stable revision, and others not.
func retriesUnfinishedAbort(f facts) bool {
	return f.Batch != nil && f.Batch.Plan.Abort && f.progress().State == rollouts.BeforeStepUpgrade
}

// refuseTemplate refuses a third template during a blue-green release. The release waits until the user
// sets the released or the stable template, or aborts the release.
func refuseTemplate(d *draft) {
	d.status.Message = "new version releasing detected in the progress of blue-green release, please rollback first"
	maintainTraffic(d)
	d.stall(rollouts.StalledRefused, d.status.Message)
}

// stopBatch pauses the running batch, so that it creates no further pods of the update revision.
func stopBatch(d *draft) {
	b, p := d.Batch, d.progress()
	if !b.isRunning() || p.State != rollouts.StepUpgrade || p.FinalisingStep != "" || !d.hasReleasedTemplate() {
		return
	}
	plan := b.Plan
	plan.Paused = true
	d.act(RunBatch{Plan: plan})
}

// maintainTraffic keeps the Services and routes of a step that waits, and reports problems in the message.
func maintainTraffic(d *draft) {
	reconcileTraffic(d, false)
	if step := d.step(); d.Route != nil && step != nil && !betweenSteps(d.facts) {
		if reason := routeLostReason(d.facts, step); reason != "" {
			d.status.Message += "; " + lostPrefix + reason
		}
		warnUnrouted(d, step)
		addNotes(d, step)
	}
}

// routeLostReason returns the reason why the requests of a waiting step are no longer routed to the new
// version; empty if they are.
func routeLostReason(f facts, step *rollouts.Step) string {
	r := f.route()
	if r == nil || !step.AsksForTraffic() || replacesAllPods(f, step) || onlyStablePodKept(f, step) {
		return ""
	}
	if onlyStableReady(f) && !RouteOf(*step).IsEmpty() {
		return noReadyPod
	}
	if !r.canChange() {
		return r.Obstacle()
	}
	return r.refusal()
}

// notes are the functions that describe how a waiting step deviates from its plan.
var notes = []func(facts, *rollouts.Step) string{allTrafficNote, lastStablePodNote, surplusNote, changedNote}

// lostPrefix begins the message about a routeLostReason.
const lostPrefix = "its requests cannot be routed: "

// warnUnrouted emits an event about the routeLostReason of a step, once for each reason.
func warnUnrouted(d *draft, step *rollouts.Step) {
	d.cause = routeLostReason(d.facts, step)
	if d.cause != "" && !strings.Contains(d.Rollout.Status.Message, d.cause) {
		d.warn("TrafficFailed", fmt.Sprintf("step(%d) requests cannot be routed: %s", d.progress().CurrentStepIndex, d.cause))
	}
}

// addNotes appends the notes about a step to the message.
func addNotes(d *draft, step *rollouts.Step) {
	for _, note := range notes {
		if text := note(d.facts, step); text != "" {
			d.status.Message += "; " + text
		}
	}
}

// allTrafficNote returns the note that the new version gets all requests earlier than planned. This happens
// if the workload was scaled down to one pod.
func allTrafficNote(f facts, step *rollouts.Step) string {
	r, asksForAllPods := f.route(), step.Replicas != nil && *step.Replicas == allPods
	if r != nil && step.AsksForTraffic() && !r.Shared && f.replacesPods() && f.w.Replicas == 1 && onlyUpdateReady(f) && !asksForAllPods {
		return "the only pod of the workload runs the new version and receives all requests"
	}
	return ""
}

// lastStablePodNote returns the note that the last stable pod stays.
func lastStablePodNote(f facts, step *rollouts.Step) string {
	switch {
	case onlyStablePodKept(f, step):
		return "the only pod keeps the stable version until a step of 100% or the end of the release"
	case keepsOnlyStablePod(f, step) && f.w.Replicas > 1:
		return "one pod keeps the stable version until a step of 100% or the end of the release"
	default:
		return ""
	}
}

// surplusNote returns the note that the new version has more pods than the step asks for. The native
// controller creates such pods if a workload is scaled up before Weir has written a new partition.
func surplusNote(f facts, step *rollouts.Step) string {
	if !f.w.AbortSetsTemplate || !f.replacesPods() || step.Replicas == nil || f.w.UpdateRevision == f.w.StableRevision {
		return ""
	}
	if planned := f.w.Limit(f.style, *step.Replicas); f.w.UpdatedReplicas > planned {
		return fmt.Sprintf("%d pods run the new version, and the step asks for %d", f.w.UpdatedReplicas, planned)
	}
	return ""
}

// changedNote returns the note about checks that passed after they were edited in this attempt, because
// the edit may have made them pass. The results of other checks mention the edit themselves.
func changedNote(f facts, _ *rollouts.Step) string {
	var changed []string
	for _, c := range judgedChecks(f) {
		if c.changedAt != nil && c.verdict.Is == judge.Passed {
			changed = append(changed, fmt.Sprintf("check %s has passed after it was changed at %s", c.name, c.changedAt.UTC().Format(time.TimeOnly)))
		}
	}
	return strings.Join(changed, "; ")
}
