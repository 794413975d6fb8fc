// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/judge"
)

// stage is one position within a step.
type stage struct {
	state rollouts.StepState
	// begin prepares what the gates judge; nil for nothing.
	begin func(*draft, *rollouts.Step)
	// gates are what the stage has to pass, and hold says what it waits for meanwhile.
	gates        []Gate
	whileWaiting func(*draft, *rollouts.Step)
	// goal is what the stage wants, in order.
	goal []stageTarget
	// pass is what follows when gates and goal are passed.
	pass func(*draft, *rollouts.Step)
	next rollouts.StepState
	// routed reports whether the traffic of the step is in place.
	routed bool
	// unhurried reports whether the stage waits for people or for time, so that no deadline
	// runs.
	unhurried bool
}

// stages in their order. A stage that needs no effect is passed within the same write.
var stages = []stage{
	{
		state: rollouts.BeforeStepUpgrade, begin: restartJump, gates: []Gate{{"jump", judgeJump}},
		goal: []stageTarget{{"network", prepareNetwork}}, next: rollouts.StepUpgrade,
	},
	{
		state: rollouts.StepUpgrade, goal: []stageTarget{{"pin", pinBeforeBatch}, {"pods", upgradePods}, {"canary service", introduceCanaryService}},
		pass: completeUpgrade, next: rollouts.StepTrafficRouting,
	},
	{
		state: rollouts.StepTrafficRouting, begin: startTrafficChecks, gates: []Gate{{"checks", judgeTrafficChecks}}, whileWaiting: setTrafficCheckMessage,
		goal: []stageTarget{{"traffic routing", linkRouting}, {"route", routeStepTraffic}}, pass: storeTrafficChecks, next: rollouts.StepMetricsAnalysis,
	},
	{
		state: rollouts.StepMetricsAnalysis, begin: beginStepAnalysis, gates: []Gate{{"checks", judgeStepChecks}}, whileWaiting: setAnalysisMessage,
		next: rollouts.StepPaused, routed: true, unhurried: true,
	},
	{
		state: rollouts.StepPaused, begin: restartPause, gates: gates, whileWaiting: setPauseMessage, next: rollouts.StepReady,
		routed: true, unhurried: true,
	},
	{
		state: rollouts.StepReady, gates: approvedGates, whileWaiting: setApprovedMessage, pass: advanceStep, next: rollouts.BeforeStepUpgrade,
		routed: true, unhurried: true,
	},
}

// stageTarget is a row of the goal of a stage.
type stageTarget struct {
	name string
	left func(*facts, *rollouts.Step) targetResult
}

// targetResult is what is left to do until a target of a stage is met.
type targetResult struct {
	remainingWork
	// orders reports whether the action is waited for again when it has not shown.
	orders bool
	// pursueOn reports whether later targets are pursued while this one is not met.
	pursueOn bool
	// message says what the step does about it, or waits for.
	message string
	// applies is a verb whose decisions are carried out with it.
	applies rollouts.Verb
	// found is an action that was found carried out, and stale one that is to be found again.
	found, stale Effect
	// undone is what somebody has undone.
	undone string
	// again is the time until the next pass, even if no object changes before.
	again time.Duration
}

// waitFor is what is left of a target that is met by something else.
func waitFor(message, cause string) targetResult {
	return targetResult{remainingWork: remainingWork{waits: true, cause: cause}, message: message}
}

// runStep moves through the stages of the current step as far as one pass can go.
func runStep(d *draft) {
	clearPaused(d)
	d.unstall(rollouts.StalledRefused) // no other template is set any more
	resumeStep(d)
	withdrawApproval(d)
	applyRolloutID(d)
	reconcileTraffic(d, true)
	ensureReference(d)
	for d.waits = false; !d.waits && d.progress().State != rollouts.StepCompleted; {
		if checkFailed(d.facts) {
			d.continueWith(CaseCheckFailed) // it failed by what was measured before its step began
			return
		}
		runStage(d)
	}
	if !d.waits {
		d.continueWith(CaseCompleted)
	}
}

// resumeStep takes a step up again from which another template had begun to take
// over, until it was taken back: routes and batches may be gone.
func resumeStep(d *draft) {
	p := d.progress()
	if p.FinalisingStep == "" || p.State == rollouts.BeforeStepUpgrade {
		return
	}
	p.FinalisingStep = ""
	if p.State != rollouts.StepReady && p.State != rollouts.StepCompleted {
		p.State = rollouts.BeforeStepUpgrade
	}
	d.startWait()
}

// withdrawApproval has an approved step wait again if a check has failed since the approval. An
// approval by a write of the status or the spec stays in StepReady until the next pass, and a
// release that is paused stays there until it is resumed. An approval that overrides the checks
// stands.
func withdrawApproval(d *draft) {
	p := d.progress()
	failed := slices.ContainsFunc(checks(d.facts), func(c checked) bool { return c.verdict.Is == judge.Failed && awaitsDecision(d.facts, &c) })
	overrides := slices.ContainsFunc(d.status.Decisions, func(of rollouts.Decision) bool {
		return of.Outcome == "" && of.Verb == rollouts.VerbPromote && of.Step == p.CurrentStepIndex && len(of.Overrode) > 0
	})
	if p.State != rollouts.StepReady || !failed || overrides {
		return
	}
	p.State = rollouts.StepPaused
	d.setOutcome(rollouts.VerbPromote, rollouts.OutcomeSuperseded)
	d.startWait()
}

// runStage pursues the current stage, and enters the next where nothing is left to do.
func runStage(d *draft) {
	p, step := d.progress(), d.step()
	if step == nil {
		p.CurrentStepIndex, p.State = 1, rollouts.BeforeStepUpgrade
		return
	}
	s := stageOf(p.State)
	d.reason = fmt.Sprintf("step %d %s", p.CurrentStepIndex, s.state)
	d.trail = append(d.trail, d.reason)
	if s.begin != nil {
		s.begin(d, step)
	}
	if checkGates(d, s.gates, step); d.waits {
		if s.whileWaiting != nil {
			s.whileWaiting(d, step)
		}
		return
	}
	if runTargets(d, s.goal, step); d.waits {
		return
	}
	if s.pass != nil {
		s.pass(d, step)
	}
	enterNextStage(d, s, p)
}

// enterNextStage enters the stage after one that is passed, unless that has named another.
func enterNextStage(d *draft, s stage, p *rollouts.Progress) {
	if p.State == s.state {
		p.State = s.next
	}
	p.FinalisingStep = ""
	d.startWait()
}

// checkGates has the gates judge the step, and waits for those that want it.
func checkGates(d *draft, gates []Gate, step *rollouts.Step) {
	for _, gate := range gates {
		v := gate.Judge(d.facts, step)
		v.Gate = gate.Name
		d.verdicts = append(d.verdicts, v)
		d.waits = d.waits || v.Result != ResultPass
		if !v.Until.IsZero() {
			d.wakeIn(d.until(v.Until))
		}
	}
}

// runTargets pursues the targets of a goal in order, as far as one pass can go.
func runTargets(d *draft, goal []stageTarget, step *rollouts.Step) {
	for _, t := range goal {
		w := t.left(d.facts, step)
		applyTarget(d, w)
		if d.waits = d.waits || !w.isDone(); d.waits && !w.pursueOn {
			return
		}
	}
}

// applyTarget does what is left to do until a target is met.
func applyTarget(d *draft, w targetResult) {
	d.setOutcome(w.applies, rollouts.OutcomeApplied)
	d.wakeIn(w.again)
	if w.message != "" {
		d.setStepMessage(w.message)
	}
	if w.found != nil {
		d.recordEffective(w.found)
	}
	if w.stale != nil {
		d.clearOtherTarget(w.stale)
	}
	if w.undone != "" {
		reportUndone(d, w.undone)
	}
	if w.orders && w.action != nil {
		d.orderAction(w.action)
		w.action = nil
	}
	d.applyRemaining(w.remainingWork)
}

func stageOf(state rollouts.StepState) stage {
	for _, s := range stages {
		if s.state == state {
			return s
		}
	}
	return stages[0]
}

// completeUpgrade goes on when the pods of the step are ready, and routers know what selects
// them. A step that has every pod routes nothing.
func completeUpgrade(d *draft, step *rollouts.Step) {
	p := d.progress()
	p.PodTemplateHash = d.w.PodTemplateHash
	d.upgraded = true
	beginAnalysis(d)
	if replacesAllPods(d.facts, step) && !hasTrafficChecks(d.release, p.CurrentStepIndex) {
		p.State = rollouts.StepMetricsAnalysis
	}
}

// advanceStep goes on to the next step: approved, timed out or free to pass. Of a step that
// waited it was said already; the last one is said with the end.
func advanceStep(d *draft, _ *rollouts.Step) {
	p := d.progress()
	d.setOutcome(rollouts.VerbPromote, rollouts.OutcomeApplied)
	if next := d.release.Next(p.CurrentStepIndex); next > 0 {
		if !stepWaited(d.facts) {
			d.announce("StepPassed", stepSummary(d.facts, "it needs no approval"))
		}
		p.CurrentStepIndex, p.NextStepIndex = next, d.release.Next(next)
		return
	}
	p.NextStepIndex = -1
	p.State = rollouts.StepCompleted
}

// stepWaited reports whether the step has waited for approval or time before this pass.
func stepWaited(f *facts) bool {
	was := f.stored()
	return was.CurrentStepIndex == f.progress().CurrentStepIndex && (was.State == rollouts.StepPaused || was.State == rollouts.StepReady)
}

// stepSummary says in one sentence how the release came to where the current step is done: who
// approved the one before, what was done, and how it goes on.
func stepSummary(f *facts, goes string) string {
	p := f.progress()
	done := fmt.Sprintf("upgrade step(%d) canary pods with new versions done", p.CurrentStepIndex)
	if step := f.step(); step != nil && f.route() != nil && step.Routed() && !replacesAllPods(f, step) {
		done += ", its traffic reaches the new version"
	}
	return approvedBefore(f, p.CurrentStepIndex-1) + done + "; " + goes
}

// approvedBefore begins a sentence with who approved a step; empty if nobody has.
func approvedBefore(f *facts, step int32) string {
	if by := approver(&f.status, step, rollouts.OutcomeApplied); by != "" {
		return fmt.Sprintf("step(%d) was approved by %s; ", step, by)
	}
	return ""
}

// approver returns the user of the latest promotion of a step of this release that has the
// given outcome.
func approver(s *rollouts.RolloutStatus, step int32, outcome rollouts.Outcome) string {
	for _, d := range slices.Backward(s.Decisions) {
		if d.Verb == rollouts.VerbPromote && d.Outcome == outcome && d.Step == step && d.IsAbout(s.Active()) {
			return d.User
		}
	}
	return ""
}
