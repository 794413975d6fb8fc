// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "github.com/weir-rollouts/weir/pkg/apis/rollouts"

// A workload of size 0 has no pod that a Service must be kept from, and pods of others
// may serve behind the same Service. So it is pinned to none then. The batch is stopped
// before, so that the first pods that come are stable's, and goes on when the Service
// is pinned again.

// pinsStable reports whether a step keeps the Service on stable pods, unless the size says
// otherwise.
func pinsStable(f *facts, step *rollouts.Step) bool {
	every := f.replacesPods() && step.Replicas != nil && *step.Replicas == allPods
	return f.Route != nil && step.Routed() && !f.Route.Shared && !every
}

// disableRoutes stops the batch of a workload of size 0, and then has no request go to its pods
// alone.
func disableRoutes(d *draft, step *rollouts.Step, goes bool) {
	b := d.Batch
	runs := b.isForward() && d.hasReleasedTemplate() && pinsStable(d.facts, step)
	if runs && !b.Plan.Paused {
		stops := !goes && d.progress().State == rollouts.StepUpgrade && b.isRunning()        // stopBatch does it
		if plan := b.Plan; !stops && (!goes || d.progress().State != rollouts.StepUpgrade) { // in StepUpgrade, the stage itself updates the plan
			plan.Paused = true
			d.act(RunBatch{Plan: plan})
		}
		return
	}
	if !runs || b.Observed {
		unpinForOthers(d)
	}
}

// unpinForOthers lets every request reach the pods of others.
func unpinForOthers(d *draft) {
	r := d.route()
	if r.Pinned != "" {
		d.act(UnpinService{})
	}
	if r.Routed && !r.lastWritten().IsEmpty() {
		d.act(RemoveRoute{})
	}
}

// resumeBatchAfterZero has a batch go on that was stopped at size 0.
func resumeBatchAfterZero(d *draft, step *rollouts.Step) {
	if !stoppedAtZero(d.facts) || !d.hasReleasedTemplate() || d.progress().State == rollouts.StepUpgrade {
		return
	}
	w := pinIsEffective(d.facts, step)
	if applyTarget(d, w); w.isDone() {
		plan := d.Batch.Plan
		plan.Paused = false
		d.act(RunBatch{Plan: plan})
	}
}

// stoppedAtZero reports whether the batch was, of a workload that has a size again.
func stoppedAtZero(f *facts) bool {
	return f.Batch.isForward() && f.Batch.Plan.Paused && f.w.Replicas > 0
}

// pinBeforeBatch wants the Service pinned before the batch goes on.
func pinBeforeBatch(f *facts, step *rollouts.Step) targetResult {
	if !stoppedAtZero(f) || stableEmpty(f) {
		return targetResult{}
	}
	w := pinIsEffective(f, step)
	if !w.isDone() {
		w.message = keepOnStable
	}
	return w
}

// pinIsEffective wants every router to know that the Service selects stable pods alone,
// where the step needs that. What routers were told is to be found again then.
func pinIsEffective(f *facts, step *rollouts.Step) targetResult {
	r, to := f.route(), pinToStable(f)
	if !pinsStable(f, step) || r.Unserved || r.Barred != "" || to.Revision == "" || replacesAllPods(f, step) || allPodsUpdated(f, step) {
		return targetResult{}
	}
	if r.Pinned != to.Revision {
		return targetResult{remainingWork: remainingWork{waits: true}}
	}
	w := targetResult{remainingWork: remainingWork{settles: graceRemainingFor(f, to)}, found: to}
	if w.isDone() {
		w.stale = UnpinService{}
	}
	return w
}
