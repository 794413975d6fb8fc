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

// A release that is paused, or that refuses another template, goes no further, and
// keeps what it has promised: sizes follow the workload within the step, stable keeps
// its Service, and routers do what they were told. What cannot be kept is said.

// pauseRelease stays where it is until nobody wants it paused.
func pauseRelease(d *draft) {
	setPaused(d)
	d.unstall(rollouts.StalledRefused)
	switch {
	case !retryIsHalfBack(d.facts):
		stopBatch(d)
		maintainTraffic(d)
	case stableCannotBeRestored(d.facts):
		stallWithoutStable(d)
	default:
		d.unstall(rollouts.StalledStableGone, rollouts.StalledStableEdited)
		if done := moveBackToStable(d); !done {
			d.status.Message += "; what its abort had begun comes to its end"
		}
	}
}

// setPaused says that the release is paused.
func setPaused(d *draft) {
	if !d.isDoing(rollouts.ActivityPaused) {
		d.setActivity(rollouts.ActivityPaused, PausedMessage)
	}
	d.status.Message = PausedMessage
	d.setOutcome(rollouts.VerbRetry, rollouts.OutcomeApplied)
}

// clearPaused says that it goes on.
func clearPaused(d *draft) {
	if d.isDoing(rollouts.ActivityPaused) {
		d.setActivity(rollouts.ActivityInRolling, "Rollout is in Progressing")
	}
}

// retryIsHalfBack reports whether the release was aborted, and tried again since: requests and
// pods may be anywhere on their way back.
func retryIsHalfBack(f *facts) bool {
	return f.Batch != nil && f.Batch.Plan.Abort && f.progress().State == rollouts.BeforeStepUpgrade
}

// refuseTemplate says so, and goes no further until the template is taken back, the stable
// one is set, or the release is aborted.
func refuseTemplate(d *draft) {
	d.status.Message = "new version releasing detected in the progress of blue-green release, please rollback first"
	maintainTraffic(d)
	d.stall(rollouts.StalledRefused, d.status.Message)
}

// stopBatch stops a batch that is under way: no more pods come than there are.
func stopBatch(d *draft) {
	b, p := d.Batch, d.progress()
	if !b.isRunning() || p.State != rollouts.StepUpgrade || p.FinalisingStep != "" || !d.hasReleasedTemplate() {
		return
	}
	plan := b.Plan
	plan.Paused = true
	d.act(RunBatch{Plan: plan})
}

// maintainTraffic has the network do what it did, and says what it cannot do.
func maintainTraffic(d *draft) {
	reconcileTraffic(d, false)
	if step := d.step(); d.Route != nil && step != nil && !betweenSteps(d.facts) {
		if why := routeLostReason(d.facts, step); why != "" {
			d.status.Message += "; " + lostPrefix + why
		}
		warnUnrouted(d, step)
		addNotes(d, step)
	}
}

// routeLostReason is why the requests of a step that waits are no longer routed.
func routeLostReason(f *facts, step *rollouts.Step) string {
	r := f.route()
	if r == nil || !step.Routed() || replacesAllPods(f, step) || onlyStablePodKept(f, step) {
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

// notes say of a step that waits what is not as its plan says.
var notes = []func(*facts, *rollouts.Step) string{allTrafficNote, lastStablePodNote, surplusNote, changedNote}

// lostPrefix begins what is said of a step whose requests are lost.
const lostPrefix = "its requests cannot be routed: "

// warnUnrouted announces why the requests of a step are lost, once for each reason.
func warnUnrouted(d *draft, step *rollouts.Step) {
	d.cause = routeLostReason(d.facts, step)
	if d.cause != "" && !strings.Contains(d.Rollout.Status.Message, d.cause) {
		d.warn("TrafficFailed", fmt.Sprintf("step(%d) requests cannot be routed: %s", d.progress().CurrentStepIndex, d.cause))
	}
}

// addNotes adds the notes of a step to the message.
func addNotes(d *draft, step *rollouts.Step) {
	for _, note := range notes {
		if text := note(d.facts, step); text != "" {
			d.status.Message += "; " + text
		}
	}
}

// allTrafficNote says that the new version gets every request before its time, as it does
// where a workload was made so small that there is one pod.
func allTrafficNote(f *facts, step *rollouts.Step) string {
	r, all := f.route(), step.Replicas != nil && *step.Replicas == allPods
	if r != nil && step.Routed() && !r.Shared && f.replacesPods() && f.w.Replicas == 1 && onlyUpdateReady(f) && !all {
		return "the one pod that there is runs the new version and gets every request"
	}
	return ""
}

// lastStablePodNote says that the last stable pod stays.
func lastStablePodNote(f *facts, step *rollouts.Step) string {
	switch {
	case onlyStablePodKept(f, step):
		return "the one pod that there is stays of the stable version until a step of 100%, or the end of the steps"
	case keepsOnlyStablePod(f, step) && f.w.Replicas > 1:
		return "one pod stays of the stable version until a step of 100%, or the end of the steps"
	default:
		return ""
	}
}

// surplusNote says that more pods are of the new version than the step has, and stay, as
// the native controller brings them where a workload grows before it is told otherwise.
func surplusNote(f *facts, step *rollouts.Step) string {
	if !f.w.AbortSetsTemplate || !f.replacesPods() || step.Replicas == nil || f.w.UpdateRevision == f.w.StableRevision {
		return ""
	}
	if has := f.w.Limit(f.style, *step.Replicas); f.w.UpdatedReplicas > has {
		return fmt.Sprintf("%d pods run the new version, and the step asks for %d", f.w.UpdatedReplicas, has)
	}
	return ""
}

// changedNote names checks that have passed after they were edited in this attempt, since the edit may
// have made them pass. Other checks say it with their results.
func changedNote(f *facts, _ *rollouts.Step) string {
	var changed []string
	for _, c := range checks(f) {
		if c.changedAt != nil && c.verdict.Is == judge.Passed {
			changed = append(changed, fmt.Sprintf("check %s has passed after it was changed at %s", c.name, c.changedAt.UTC().Format(time.TimeOnly)))
		}
	}
	return strings.Join(changed, "; ")
}
