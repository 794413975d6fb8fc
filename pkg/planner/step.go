// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// stage is one position within a step. do returns whether the stage is done;
// what it wants, or waits for, is in the pass.
type stage struct {
	state rollouts.StepState
	do    func(*pass, *rollouts.Step) bool
	next  rollouts.StepState
	// routed reports whether the traffic of the step is in place.
	routed bool
}

// stages in their order. A stage that needs no effect is passed within the
// same write; StepReady decides itself what follows.
var stages = []stage{
	{rollouts.BeforeStepUpgrade, (*pass).prepare, rollouts.StepUpgrade, false},
	{rollouts.StepUpgrade, (*pass).upgrade, rollouts.StepTrafficRouting, false},
	{rollouts.StepTrafficRouting, (*pass).routeStep, rollouts.StepMetricsAnalysis, false},
	{rollouts.StepMetricsAnalysis, (*pass).analyse, rollouts.StepPaused, true},
	{rollouts.StepPaused, (*pass).pause, rollouts.StepReady, true},
	{rollouts.StepReady, (*pass).advance, rollouts.BeforeStepUpgrade, true},
}

// step moves through the stages as far as one pass can go.
func (x *pass) step() {
	if x.doing(rollouts.ActivityPaused) {
		x.become(rollouts.ActivityInRolling, "Rollout is in Progressing")
	}
	x.accept()
	x.recover()
	x.face(x.progress().CurrentStepIndex)
	x.rename()
	x.follow(true)
	x.ensureReference()
	for {
		p := x.progress()
		if p.State == rollouts.StepCompleted {
			x.finish()
			return
		}
		s := stageOf(p.State)
		step := x.release.Step(p.CurrentStepIndex)
		if step == nil {
			p.CurrentStepIndex, p.State = 1, rollouts.BeforeStepUpgrade
			continue
		}
		x.face(p.CurrentStepIndex)
		if !s.do(x, step) {
			return
		}
		if p.State == s.state {
			p.State = s.next
		}
		p.FinalisingStep = ""
		x.stamp()
	}
}

// recover takes a step up again from which another template had begun to take
// over, until it was taken back: routes and batches may be gone.
func (x *pass) recover() {
	p := x.progress()
	if p.FinalisingStep == "" || p.State == rollouts.BeforeStepUpgrade {
		return
	}
	p.FinalisingStep = ""
	if p.State != rollouts.StepReady && p.State != rollouts.StepCompleted {
		p.State = rollouts.BeforeStepUpgrade
	}
	x.stamp()
}

// face sees the network as it is for a step: a pass may have crossed into it.
func (x *pass) face(step int32) {
	if x.network != nil {
		route := x.network.At(step)
		x.Route = &route
	}
}

func stageOf(state rollouts.StepState) stage {
	for _, s := range stages {
		if s.state == state {
			return s
		}
	}
	return stages[0]
}

// stayed reports whether the stored status was already in the current stage, so
// that whatever the stage issues has been issued before.
func (x *pass) stayed() bool {
	was, p := x.was(), x.progress()
	return was.State == p.State && was.CurrentStepIndex == p.CurrentStepIndex && x.Rollout.Status.Activity() == rollouts.ActivityInRolling
}

// issue wants the target of a stage, and waits anew for one that has not shown.
func (x *pass) issue(target Action) {
	if !x.stayed() || x.reissueDue() {
		x.stamp()
	}
	x.aim(target)
	x.act(target)
}

func (x *pass) say(what string) {
	x.status.Message = fmt.Sprintf("Rollout is in step(%d/%d), and %s", x.progress().CurrentStepIndex, len(x.release.Steps), what)
}

// prepare readies the network before pods change: the stable Service selects
// stable pods only before the first new pod exists. A step without traffic has
// none of it, and neither has one that replaces every pod.
func (x *pass) prepare(step *rollouts.Step) bool {
	if x.jumpGrace() {
		return false
	}
	x.settle(rollouts.VerbJump, rollouts.OutcomeApplied)
	x.say("make the network ready for it")
	switch {
	case x.Route == nil:
		return true
	case step.Routed() && x.missing():
		if x.Route.Barred != "" && x.Route.Pinned != "" {
			x.act(Unpin{}) // its owner has given the Service to another workload
		}
		return false
	case !step.Routed():
		return x.run(unrouted, rollouts.ReleasePlan{})
	case !x.pins(step):
		return x.run(unpinned, rollouts.ReleasePlan{})
	case x.Route.Pinned != x.progress().StableRevision:
		x.say("keep traffic on the stable version while pods are upgraded")
		x.tellUnpinned()
		x.issue(x.pin())
		return false
	default:
		x.say("keep traffic on the stable version while pods are upgraded")
		return x.stands(x.pin())
	}
}

// pins reports whether the stable Service selects stable pods only at a step. One
// that is pinned to no pod would lose every request.
func (x *pass) pins(step *rollouts.Step) bool {
	return step.Routed() && !x.Route.Shared && !x.everyPod(step) && !x.stableEmpty() && !x.outgrown(step)
}

// outgrown reports whether the new version is to have every pod of a workload of this size,
// at a step or at one from which the release has gone back.
func (x *pass) outgrown(step *rollouts.Step) bool {
	return x.replaces() && x.w.Replicas > 0 && !x.w.AtStable && (x.everyPod(step) || max(x.given(), x.driven()) >= x.w.Replicas)
}

// missing reports whether the network lacks what the step needs, and says so.
func (x *pass) missing() bool {
	if x.Route.Missing != "" {
		x.cause = x.Route.obstacle()
		x.say("wait for " + x.Route.Missing + ", which does not exist")
		return true
	}
	return x.unable(x.Route.obstacle())
}

func (x *pass) unable(why string) bool {
	if why != "" {
		x.cause = why
		x.say("cannot route traffic to new version: " + why)
	}
	return why != ""
}

// lost is why the requests of a step that waits are no longer routed.
func (x *pass) lost(step *rollouts.Step) string {
	if x.Route == nil || !step.Routed() || x.everyPod(step) || x.spared(step) {
		return ""
	}
	if x.onlyStable() && !RouteOf(*step).Nothing() {
		return noReadyPod
	}
	return cmp.Or(x.Route.obstacle(), x.Route.refuses())
}

// tellLost says so.
func (x *pass) tellLost(why string) {
	if x.cause = why; why == "" {
		return
	}
	x.status.Message += "; its requests cannot be routed: " + why
	if !strings.Contains(x.Rollout.Status.Message, why) {
		x.warn("TrafficFailed", fmt.Sprintf("step(%d) requests cannot be routed: %s", x.progress().CurrentStepIndex, why))
	}
}

// jumpGracePeriod is how long a jump by nextStepIndex stays out of StepPaused: clients
// of OpenKruise look there for the jump, and give up soon when they miss it.
const jumpGracePeriod = 3 * time.Second

func (x *pass) jumpGrace() bool {
	for _, d := range x.status.Decisions {
		if d.Verb == rollouts.VerbJump && d.Via == rollouts.ViaStatus && d.Outcome == "" {
			return !x.elapsed(jumpGracePeriod)
		}
	}
	return false
}

// replaces reports whether update pods take the place of stable ones.
func (x *pass) replaces() bool { return x.style == rollouts.StylePartition }

// everyPod reports whether after the step no stable pod is left in the workload, or
// that there is none at all.
func (x *pass) everyPod(step *rollouts.Step) bool {
	return x.w.Replicas == 0 || x.replaces() && step.Replicas != nil && x.kept(x.progress().CurrentStepIndex-1, x.w.Limit(x.style, *step.Replicas)) >= x.w.Replicas
}

// spared reports whether a step has no pod of the new version, since the last stable one stays.
func (x *pass) spared(step *rollouts.Step) bool {
	return x.spares(step) && x.w.Replicas == 1 && x.w.UpdatedReplicas == 0
}

// spares reports whether a step would have every pod if the last stable one did not stay.
func (x *pass) spares(step *rollouts.Step) bool {
	return x.replaces() && step.Replicas != nil && x.w.Limit(x.style, *step.Replicas) < Limit(x.style, *step.Replicas, x.w.Replicas)
}

// stableEmpty reports whether stable has no ready pod though there should be pods.
func (x *pass) stableEmpty() bool { return x.w.StableReadyReplicas == 0 && x.w.Replicas > 0 }

// upgrade wants the batch of the step, and is done when it is ready and routers
// know what selects its pods.
func (x *pass) upgrade(step *rollouts.Step) bool {
	if x.stopped() && !x.stableEmpty() && !x.repinned(step) {
		x.say("keep traffic on the stable version while pods are upgraded")
		return false
	}
	ready := x.batchReady()
	introduced := x.introduce(step)
	if !ready {
		return false
	}
	if !introduced {
		x.say("routers learn of the service of the new version")
		return false
	}
	p := x.progress()
	p.PodTemplateHash = x.w.PodTemplateHash
	x.announce("StepUpgraded", fmt.Sprintf("upgrade step(%d) canary pods with new versions done", p.CurrentStepIndex))
	if x.everyPod(step) {
		p.State = rollouts.StepMetricsAnalysis
	}
	return true
}

// batchReady wants the batch of the current step, and tells whether it is ready.
func (x *pass) batchReady() bool {
	p, b := x.progress(), x.Batch
	if b != nil && b.Terminating {
		return false
	}
	want := x.plan(p.CurrentStepIndex)
	switch {
	case b == nil || batchPlanHash(b.Plan) != batchPlanHash(want):
		x.say("upgrade workload to new version")
		x.issue(RunBatch{Plan: want})
		return false
	case !b.Observed || b.State != rollouts.BatchReady || b.Index+1 < p.CurrentStepIndex:
		x.say("upgrade workload to new version")
		if b.Message != "" {
			x.status.Message += ": " + b.Message
		}
		return false
	default:
		return x.w.PodTemplateHash != "" || x.w.Replicas == 0
	}
}

// routeStep wants the traffic of the step, and that of a TrafficRouting.
func (x *pass) routeStep(step *rollouts.Step) bool {
	return x.spared(step) || x.linked() && x.route(step)
}

// analyse is where metrics would be judged; OpenKruise passes it at once too.
func (x *pass) analyse(*rollouts.Step) bool { return true }

// allOfThem is the one share that means every pod, however many there are.
var allOfThem = intstr.FromString("100%")

// pause waits for approval or for its time, which alone is not enough while the
// requests of the step are not routed. The last step passes when it is exactly
// "100%", since nothing is left to protect.
func (x *pass) pause(step *rollouts.Step) bool {
	p, lost := x.progress(), x.lost(step)
	last := int(p.CurrentStepIndex) == len(x.release.Steps)
	switch {
	case p.FullyPromoted:
		return true
	case last && x.style != rollouts.StyleBlueGreen && step.Replicas != nil && *step.Replicas == allOfThem:
		return true
	case step.Pause.Duration == nil:
		x.say("you need manually confirm to enter the next step")
	default:
		if x.elapsed(time.Duration(*step.Pause.Duration)*time.Second) && lost == "" {
			return true
		}
		x.say(fmt.Sprintf("wait duration(%d seconds) to enter the next step", *step.Pause.Duration))
	}
	if !x.stayed() {
		x.announce("StepPaused", x.status.Message)
	}
	x.tellLost(lost)
	x.tellAlone(step)
	x.tellSpared(step)
	x.tellSurplus(step)
	return false
}

// advance goes on to the next step: approved, timed out or free to pass.
func (x *pass) advance(*rollouts.Step) bool {
	p := x.progress()
	if who := x.approver(); who != "" {
		x.announce("StepApproved", fmt.Sprintf("step(%d) was approved by %s", p.CurrentStepIndex, who))
	}
	x.settle(rollouts.VerbPromote, rollouts.OutcomeApplied)
	if next := x.release.Next(p.CurrentStepIndex); next > 0 {
		p.CurrentStepIndex, p.NextStepIndex = next, x.release.Next(next)
		return true
	}
	p.NextStepIndex = -1
	p.State = rollouts.StepCompleted
	return true
}

// approver names whose promotion of the current step is still to be acted on.
func (x *pass) approver() string {
	for _, d := range x.status.Decisions {
		if d.Verb == rollouts.VerbPromote && d.Outcome == "" {
			return d.User
		}
	}
	return ""
}

// finish begins the teardown of a release whose steps are all done.
func (x *pass) finish() {
	x.progress().FinalisingStep = ""
	x.become(rollouts.ActivityFinalising, closing[rollouts.ActivityFinalising])
	x.end()
}

// cancel begins the teardown of a release whose template went back to stable.
func (x *pass) cancel() {
	p := x.progress()
	p.FinalisingStep = ""
	p.UpdateRevision = x.w.UpdateRevision
	if now := x.w.StableRevision; now != "" && p.StableRevision != now {
		p.StableRevision, p.StableTemplate = now, x.w.StableTemplate // a complete release was set again before its end
	}
	if p.RollingBack {
		x.settle(rollouts.VerbRollback, rollouts.OutcomeApplied)
	}
	if x.live() {
		x.settle(rollouts.VerbAbort, rollouts.OutcomeApplied) // the template was stable's before it
	}
	p.FullyPromoted, p.Paused, p.RollingBack = false, false, false
	x.settleAll()
	x.status.RemoveCondition(rollouts.ConditionStalled)
	x.become(rollouts.ActivityCancelling, closing[rollouts.ActivityCancelling])
	x.announce("RolloutCancelled", "workload has been rollback, then rollout is canceled")
	x.end()
}
