// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "github.com/weir-rollouts/weir/pkg/apis/rollouts"

// A workload of size 0 has no pods, so its Service needs no pin. Other workloads may have pods behind the
// same Service, and a pinned Service would exclude them. Therefore, Weir removes the pin and the routes
// while the size is 0. Before that it pauses the batch, so that the first pods after a scale-up are pods of
// the stable revision. The batch resumes when the Service is pinned again.

// pinsStable reports whether a step pins the Service to stable pods at a size above 0.
func pinsStable(f facts, step *rollouts.Step) bool {
	replacesAll := f.replacesPods() && step.Replicas != nil && *step.Replicas == allPods
	return f.Route != nil && step.AsksForTraffic() && !f.Route.Shared && !replacesAll
}

// disableRoutes pauses the batch of a workload of size 0, and then removes the pin and the routes, so that
// requests reach the pods of other workloads. The argument running reports whether the release continues
// now: it is neither paused nor refused.
func disableRoutes(d *draft, step *rollouts.Step, running bool) {
	b := d.Batch
	mustPause := b.isForward() && d.hasReleasedTemplate() && pinsStable(d.facts, step)
	if mustPause && !b.Plan.Paused {
		pausedByStopBatch := !running && d.progress().State == rollouts.StepUpgrade && b.isRunning()
		updatedByStage := running && d.progress().State == rollouts.StepUpgrade
		if plan := b.Plan; !pausedByStopBatch && !updatedByStage {
			plan.Paused = true
			d.act(RunBatch{Plan: plan})
		}
		return
	}
	if mustPause && !b.Observed {
		return // wait until the batch is paused
	}
	r := d.route()
	if r.Pinned != "" {
		d.act(UnpinService{})
	}
	if r.Routed && !r.lastWritten().IsEmpty() {
		d.act(RemoveRoute{})
	}
}

// resumeBatchAfterZero resumes a batch that was paused at size 0.
func resumeBatchAfterZero(d *draft, step *rollouts.Step) {
	if !stoppedAtZero(d.facts) || !d.hasReleasedTemplate() || d.progress().State == rollouts.StepUpgrade {
		return
	}
	pin := pinIsEffective(d.facts, step)
	if applyTarget(d, pin); pin.isDone() {
		plan := d.Batch.Plan
		plan.Paused = false
		d.act(RunBatch{Plan: plan})
	}
}

// stoppedAtZero reports whether the batch was paused at size 0, and the workload has been scaled up again.
func stoppedAtZero(f facts) bool {
	return f.Batch.isForward() && f.Batch.Plan.Paused && f.w.Replicas > 0
}

// pinBeforeBatch returns the target that pins the Service before a batch resumes that was paused at size 0.
func pinBeforeBatch(f facts, step *rollouts.Step) targetResult {
	if !stoppedAtZero(f) || stableEmpty(f) {
		return targetResult{}
	}
	pin := pinIsEffective(f, step)
	if !pin.isDone() {
		pin.message = keepOnStable
	}
	return pin
}

// pinIsEffective returns the target that every router knows the pin of the Service to stable pods, if the step
// needs the pin. When it is reached, the routes have to be observed again.
func pinIsEffective(f facts, step *rollouts.Step) targetResult {
	r, pin := f.route(), pinToStable(f)
	if !pinsStable(f, step) || r.StableServiceMissing || r.OwnershipConflict != "" || pin.Revision == "" || replacesAllPods(f, step) || allPodsUpdated(f, step) {
		return targetResult{}
	}
	if r.Pinned != pin.Revision {
		return targetResult{remainingWork: remainingWork{waits: true}}
	}
	result := targetResult{remainingWork: remainingWork{settles: graceRemainingFor(f, pin)}, effective: pin}
	if result.isDone() {
		result.stale = UnpinService{}
	}
	return result
}
