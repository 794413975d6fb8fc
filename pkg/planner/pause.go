// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// A release that is paused, or that refuses another template, goes no further, and
// keeps what it has promised: sizes follow the workload within the step, stable keeps
// its Service, and routers do what they were told. What cannot be kept is said.

// pauseRelease stays where it is until nobody wants it paused.
func (x *pass) pauseRelease() {
	if !x.doing(rollouts.ActivityPaused) {
		x.become(rollouts.ActivityPaused, pausedMessage)
	}
	x.accept()
	x.status.Message = pausedMessage
	x.settle(rollouts.VerbRetry, rollouts.OutcomeApplied)
	if x.halfBack() {
		if x.hasStable() && !x.goBack() {
			x.status.Message += "; what its abort had begun comes to its end"
		}
		return
	}
	x.stopBatch()
	x.keep()
}

// halfBack reports whether the release was aborted, and tried again since: requests and
// pods may be anywhere on their way back.
func (x *pass) halfBack() bool {
	return x.Batch != nil && x.Batch.Plan.Abort && x.progress().State == rollouts.BeforeStepUpgrade
}

// refuse says so, and goes no further until the template is taken back, the stable
// one is set, or the release is aborted.
func (x *pass) refuse() {
	x.status.Message = "new version releasing detected in the progress of blue-green release, please rollback first"
	x.keep()
	x.stall(rollouts.StalledRefused, x.status.Message)
}

// accept notes that no other template is set any more.
func (x *pass) accept() {
	if x.stalledFor(rollouts.StalledRefused) {
		x.status.RemoveCondition(rollouts.ConditionStalled)
	}
}

// stopBatch stops a batch that is under way: no more pods come than there are.
func (x *pass) stopBatch() {
	b, p := x.Batch, x.progress()
	if !b.running() || p.State != rollouts.StepUpgrade || p.FinalisingStep != "" || !x.live() {
		return
	}
	plan := b.Plan
	plan.Paused = true
	x.act(RunBatch{Plan: plan})
}

// forward reports whether a batch is there for a step, whether it is stopped or not.
func (b *Batch) forward() bool {
	return b != nil && !b.Terminating && !b.Plan.Abort && b.Plan.BatchPartition != nil
}

// running reports whether a batch brings up pods.
func (b *Batch) running() bool {
	return b.forward() && !b.Plan.Paused && (!b.Observed || b.State != rollouts.BatchReady)
}

// keep has the network do what it did, and says what it cannot do.
func (x *pass) keep() {
	x.follow(false)
	step := x.release.Step(x.progress().CurrentStepIndex)
	if x.Route == nil || step == nil || x.between() {
		return
	}
	x.tellLost(x.lost(step))
	x.tellAlone(step)
	x.tellSpared(step)
	x.tellSurplus(step)
}

// onlyOthers reports whether stable has no ready pod, and other revisions have some.
func (x *pass) onlyOthers() bool {
	if x.onlyUpdate() {
		return true
	}
	return x.w.StableReadyReplicas == 0 && (x.w.StableGone || !x.live()) && x.w.SupersededReplicas > 0
}

// tellAlone says that the new version gets every request before its time, as it does
// where a workload was made so small that there is one pod.
func (x *pass) tellAlone(step *rollouts.Step) {
	if x.Route != nil && step.Routed() && !x.Route.Shared && x.replaces() && x.w.Replicas == 1 && x.onlyUpdate() && (step.Replicas == nil || *step.Replicas != allOfThem) {
		x.status.Message += "; the one pod that there is runs the new version and gets every request"
	}
}

// tellSpared says that the last stable pod stays.
func (x *pass) tellSpared(step *rollouts.Step) {
	switch {
	case x.spared(step):
		x.status.Message += "; the one pod that there is stays of the stable version until a step of 100%, or the end of the steps"
	case x.spares(step) && x.w.Replicas > 1:
		x.status.Message += "; one pod stays of the stable version until a step of 100%, or the end of the steps"
	}
}

// tellSurplus says that more pods are of the new version than the step has, and stay, as
// the native controller brings them where a workload grows before it is told otherwise.
func (x *pass) tellSurplus(step *rollouts.Step) {
	if !x.w.BackByTemplate || !x.replaces() || step.Replicas == nil || x.w.UpdateRevision == x.w.StableRevision {
		return
	}
	if has := x.w.Limit(x.style, *step.Replicas); x.w.UpdatedReplicas > has {
		x.status.Message += fmt.Sprintf("; %d pods run the new version, and the step asks for %d", x.w.UpdatedReplicas, has)
	}
}
