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
	freeze(d)
	d.unstall(rollouts.StalledRefused)
	switch {
	case !halfBack(d.facts):
		stopBatch(d)
		keep(d)
	case noStable(d.facts):
		stallWithoutStable(d)
	default:
		d.unstall(rollouts.StalledStableGone, rollouts.StalledStableEdited)
		if goBack(d); d.waits {
			d.status.Message += "; what its abort had begun comes to its end"
		}
	}
}

// freeze says that the release is paused.
func freeze(d *draft) {
	if !d.doing(rollouts.ActivityPaused) {
		d.become(rollouts.ActivityPaused, PausedMessage)
	}
	d.status.Message = PausedMessage
	d.settle(rollouts.VerbRetry, rollouts.OutcomeApplied)
}

// goOnInStep says that it goes on.
func goOnInStep(d *draft) {
	if d.doing(rollouts.ActivityPaused) {
		d.become(rollouts.ActivityInRolling, "Rollout is in Progressing")
	}
}

// halfBack reports whether the release was aborted, and tried again since: requests and
// pods may be anywhere on their way back.
func halfBack(f *facts) bool {
	return f.Batch != nil && f.Batch.Plan.Abort && f.progress().State == rollouts.BeforeStepUpgrade
}

// refuse says so, and goes no further until the template is taken back, the stable
// one is set, or the release is aborted.
func refuse(d *draft) {
	d.status.Message = "new version releasing detected in the progress of blue-green release, please rollback first"
	keep(d)
	d.stall(rollouts.StalledRefused, d.status.Message)
}

// stopBatch stops a batch that is under way: no more pods come than there are.
func stopBatch(d *draft) {
	b, p := d.Batch, d.progress()
	if !b.running() || p.State != rollouts.StepUpgrade || p.FinalisingStep != "" || !d.live() {
		return
	}
	plan := b.Plan
	plan.Paused = true
	d.act(RunBatch{Plan: plan})
}

// keep has the network do what it did, and says what it cannot do.
func keep(d *draft) {
	follow(d, false)
	if step := d.step(); d.Route != nil && step != nil && !betweenSteps(d.facts) {
		if why := lost(d.facts, step); why != "" {
			d.status.Message += "; " + lostPrefix + why
		}
		warnUnrouted(d, step)
		addNotes(d, step)
	}
}

// lost is why the requests of a step that waits are no longer routed.
func lost(f *facts, step *rollouts.Step) string {
	r := f.route()
	if r == nil || !step.Routed() || everyPod(f, step) || spared(f, step) {
		return ""
	}
	if onlyStable(f) && !RouteOf(*step).Nothing() {
		return noReadyPod
	}
	if !r.able() {
		return r.Obstacle()
	}
	return r.refuses()
}

// notes say of a step that waits what is not as its plan says.
var notes = []func(*facts, *rollouts.Step) string{aloneNote, sparedNote, surplusNote, changedNote}

// lostPrefix begins what is said of a step whose requests are lost.
const lostPrefix = "its requests cannot be routed: "

// warnUnrouted announces why the requests of a step are lost, once for each reason.
func warnUnrouted(d *draft, step *rollouts.Step) {
	d.cause = lost(d.facts, step)
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

// aloneNote says that the new version gets every request before its time, as it does
// where a workload was made so small that there is one pod.
func aloneNote(f *facts, step *rollouts.Step) string {
	r, all := f.route(), step.Replicas != nil && *step.Replicas == allOfThem
	if r != nil && step.Routed() && !r.Shared && f.replaces() && f.w.Replicas == 1 && onlyUpdate(f) && !all {
		return "the one pod that there is runs the new version and gets every request"
	}
	return ""
}

// sparedNote says that the last stable pod stays.
func sparedNote(f *facts, step *rollouts.Step) string {
	switch {
	case spared(f, step):
		return "the one pod that there is stays of the stable version until a step of 100%, or the end of the steps"
	case spares(f, step) && f.w.Replicas > 1:
		return "one pod stays of the stable version until a step of 100%, or the end of the steps"
	default:
		return ""
	}
}

// surplusNote says that more pods are of the new version than the step has, and stay, as
// the native controller brings them where a workload grows before it is told otherwise.
func surplusNote(f *facts, step *rollouts.Step) string {
	if !f.w.BackByTemplate || !f.replaces() || step.Replicas == nil || f.w.UpdateRevision == f.w.StableRevision {
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
