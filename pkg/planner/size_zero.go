// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "github.com/weir-rollouts/weir/pkg/apis/rollouts"

// A workload of size 0 has no pod that a Service must be kept from, and pods of others
// may serve behind the same Service. So it is pinned to none then. The batch is stopped
// before, so that the first pods that come are stable's, and goes on when the Service
// is pinned again.

// guards reports whether a step keeps the Service on stable pods, unless the size says
// otherwise.
func guards(f *facts, step *rollouts.Step) bool {
	every := f.replaces() && step.Replicas != nil && *step.Replicas == allOfThem
	return f.Route != nil && step.Routed() && !f.Route.Shared && !every
}

// sleep stops the batch of a workload of size 0, and then has no request go to its pods
// alone.
func sleep(d *draft, step *rollouts.Step, goes bool) {
	b := d.Batch
	runs := b.forward() && d.live() && guards(d.facts, step)
	if runs && !b.Plan.Paused {
		stops := !goes && d.progress().State == rollouts.StepUpgrade && b.running()          // stopBatch does it
		if plan := b.Plan; !stops && (!goes || d.progress().State != rollouts.StepUpgrade) { // in StepUpgrade, the stage itself updates the plan
			plan.Paused = true
			d.act(RunBatch{Plan: plan})
		}
		return
	}
	if !runs || b.Observed {
		letAll(d)
	}
}

// letAll lets every request reach the pods of others.
func letAll(d *draft) {
	r := d.route()
	if r.Pinned != "" {
		d.act(Unpin{})
	}
	if r.Routed && !r.told().Nothing() {
		d.act(Unroute{})
	}
}

// awake has a batch go on that was stopped at size 0.
func awake(d *draft, step *rollouts.Step) {
	if !stopped(d.facts) || !d.live() || d.progress().State == rollouts.StepUpgrade {
		return
	}
	w := repinned(d.facts, step)
	if pursueTarget(d, w); w.done() {
		plan := d.Batch.Plan
		plan.Paused = false
		d.act(RunBatch{Plan: plan})
	}
}

// stopped reports whether the batch was, of a workload that has a size again.
func stopped(f *facts) bool {
	return f.Batch.forward() && f.Batch.Plan.Paused && f.w.Replicas > 0
}

// repinning wants the Service pinned before the batch goes on.
func repinning(f *facts, step *rollouts.Step) want {
	if !stopped(f) || stableEmpty(f) {
		return want{}
	}
	w := repinned(f, step)
	if !w.done() {
		w.message = keepOnStable
	}
	return w
}

// repinned wants every router to know that the Service selects stable pods alone,
// where the step needs that. What routers were told is to be found again then.
func repinned(f *facts, step *rollouts.Step) want {
	r, to := f.route(), pin(f)
	if !guards(f, step) || r.Unserved || r.Barred != "" || to.Revision == "" || everyPod(f, step) || outgrown(f, step) {
		return want{}
	}
	if r.Pinned != to.Revision {
		return want{remains: remains{waits: true}}
	}
	w := want{remains: remains{settles: settles(f, to)}, found: to}
	if w.done() {
		w.stale = Unpin{}
	}
	return w
}
