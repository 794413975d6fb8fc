// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "github.com/weir-rollouts/weir/pkg/apis/rollouts"

// A workload of size 0 has no pod that a Service must be kept from, and pods of others
// may serve behind the same Service. So it is pinned to none then. The batch is stopped
// before, so that the first pods that come are stable's, and goes on when the Service
// is pinned again.

// emptied reports whether no pod is left of a workload of size 0.
func (x *pass) emptied() bool {
	return x.w.Replicas == 0 && !x.w.hasPods() && !x.w.Shrinks && x.w.RunsOn == ""
}

// guards reports whether a step keeps the Service on stable pods, unless the size says
// otherwise.
func (x *pass) guards(step *rollouts.Step) bool {
	every := x.replaces() && step.Replicas != nil && *step.Replicas == allOfThem
	return x.Route != nil && step.Routed() && !x.Route.Shared && !every
}

// sleep stops the batch of a workload of size 0, and then has no request go to its pods
// alone.
func (x *pass) sleep(step *rollouts.Step, goes bool) {
	b := x.Batch
	runs := b.forward() && x.live() && x.guards(step)
	if runs && !b.Plan.Paused {
		if plan := b.Plan; !goes || x.progress().State != rollouts.StepUpgrade { // else the stage does it
			plan.Paused = true
			x.act(RunBatch{Plan: plan})
		}
		return
	}
	if !runs || b.Observed {
		x.letAll()
	}
}

// letAll lets every request reach the pods of others.
func (x *pass) letAll() {
	if x.Route.Pinned != "" {
		x.act(Unpin{})
	}
	if x.Route.Routed && !x.Route.told().Nothing() {
		x.act(Unroute{})
	}
}

// awake has a batch go on that was stopped at size 0.
func (x *pass) awake(step *rollouts.Step) {
	if x.stopped() && x.live() && x.progress().State != rollouts.StepUpgrade && x.repinned(step) {
		plan := x.Batch.Plan
		plan.Paused = false
		x.act(RunBatch{Plan: plan})
	}
}

// stopped reports whether the batch was, of a workload that has a size again.
func (x *pass) stopped() bool {
	return x.Batch.forward() && x.Batch.Plan.Paused && x.w.Replicas > 0
}

// repinned reports whether every router knows that the Service selects stable pods alone,
// where the step needs that. What routers were told is to be found again then.
func (x *pass) repinned(step *rollouts.Step) bool {
	r, pin := x.Route, x.pin()
	if !x.guards(step) || r.Unserved || r.Barred != "" || pin.Revision == "" || x.everyPod(step) || x.outgrown(step) {
		return true
	}
	if r.Pinned != pin.Revision || !x.stands(pin) {
		return false
	}
	x.aim(Unpin{})
	return true
}
