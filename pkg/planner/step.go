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

// stage is one stage of a step. A release enters it, waits until its gates pass and its targets are met,
// and then enters the next one.
type stage struct {
	state rollouts.StepState
	// enter prepares what the gates need; nil if they need nothing.
	enter func(*draft, *rollouts.Step)
	// gates must all pass before the targets are run. While one of them waits, whileWaiting sets the
	// message of the step.
	gates        []Gate
	whileWaiting func(*draft, *rollouts.Step)
	// targets are what the stage changes in the cluster, in their order.
	targets []stageTarget
	// leave runs when all gates have passed and all targets are met. It may choose another next stage.
	leave func(*draft, *rollouts.Step)
	next  rollouts.StepState
	// keepsRoute reports whether the route of the step is in place during the stage, and is repaired if others change it.
	keepsRoute bool
	// waitsForPeople reports whether the stage waits for people or for time, so that the progress
	// deadline does not run.
	waitsForPeople bool
}

// stages are the stages of a step in their order. A release passes several stages in one pass if
// nothing is left to do in them.
var stages = []stage{
	{
		// Make the network ready before any pod changes.
		state: rollouts.BeforeStepUpgrade,
		enter: restartJump, gates: []Gate{{"jump", judgeJump}},
		targets: []stageTarget{{"network", prepareNetwork}},
		next:    rollouts.StepUpgrade,
	},
	{
		// Update the pods of the step.
		state:   rollouts.StepUpgrade,
		targets: []stageTarget{{"pin", pinBeforeBatch}, {"pods", upgradePods}, {"canary service", introduceCanaryService}},
		leave:   completeUpgrade,
		next:    rollouts.StepTrafficRouting,
	},
	{
		// Send the traffic of the step to the new version.
		state: rollouts.StepTrafficRouting,
		enter: startTrafficChecks, gates: []Gate{{"checks", judgeTrafficChecks}}, whileWaiting: setTrafficCheckMessage,
		targets: []stageTarget{{"traffic routing", linkRouting}, {"route", routeStepTraffic}},
		leave:   storeTrafficChecks,
		next:    rollouts.StepMetricsAnalysis,
	},
	{
		// Wait for the checks of the step.
		state: rollouts.StepMetricsAnalysis,
		enter: beginStepAnalysis, gates: []Gate{{"checks", judgeStepChecks}}, whileWaiting: setAnalysisMessage,
		next: rollouts.StepPaused, keepsRoute: true, waitsForPeople: true,
	},
	{
		// Wait for an approval, or for the duration of the pause.
		state: rollouts.StepPaused,
		enter: restartPause, gates: gates, whileWaiting: setPauseMessage,
		next: rollouts.StepReady, keepsRoute: true, waitsForPeople: true,
	},
	{
		// The step is approved: go to the next one.
		state: rollouts.StepReady,
		gates: approvedGates, whileWaiting: setApprovedMessage,
		leave: advanceStep,
		next:  rollouts.BeforeStepUpgrade, keepsRoute: true, waitsForPeople: true,
	},
}

// stageTarget is one change in the cluster that a stage makes. check returns what is left to do for it.
type stageTarget struct {
	name  string
	check func(facts, *rollouts.Step) targetResult
}

// targetResult is what is left to do until a target of a stage is met.
type targetResult struct {
	remainingWork
	// restartsGrace reports whether the grace period starts again each time that the effect of the action
	// is not observed.
	restartsGrace bool
	// runsNext reports whether the next target is run even if this one is not met.
	runsNext bool
	// message says what the step does for the target, or waits for.
	message string
	// appliedVerb is a verb whose decisions are carried out by the target; empty if there is none.
	appliedVerb rollouts.Verb
	// effective is an effect that was observed, and stale is one that must be observed again.
	effective, stale Effect
	// undone says what somebody has undone; empty if nobody has.
	undone string
	// checkAgain is the time until the next pass, even if no object changes before; zero for none.
	checkAgain time.Duration
}

// waitFor returns the result of a target that waits for something that Weir does not change.
func waitFor(message, cause string) targetResult {
	return targetResult{remainingWork: remainingWork{waits: true, cause: cause}, message: message}
}

// runStep takes the release through the stages of its steps, as far as one pass can go.
func runStep(d *draft) {
	clearPaused(d)
	// The template that was refused, or the edited template of the stable revision, is not set any more.
	d.unstall(rollouts.StalledRefused, rollouts.StalledStableEdited)
	resumeStep(d)
	recordHashAfterZero(d)
	withdrawApproval(d)
	applyRolloutID(d)
	reconcileTraffic(d, true)
	ensureReference(d)
	for d.progress().State != rollouts.StepCompleted {
		if checkFailed(d.facts) {
			d.continueWith(CaseCheckFailed) // the measurements failed the check before its step began
			return
		}
		if done := runStage(d); !done {
			return
		}
	}
	d.continueWith(CaseCompleted)
}

// resumeStep starts the current step again after a newer template, which had begun to supersede the
// release, was reverted: routes and batches of the step may be gone.
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

// recordHashAfterZero records the label value of the pods of the update revision. At size 0 the revision had no
// ReplicaSet, and so no such value, when the step updated its pods.
func recordHashAfterZero(d *draft) {
	p := d.progress()
	if p.PodTemplateHash == "" && p.State != rollouts.BeforeStepUpgrade && p.State != rollouts.StepUpgrade && d.hasReleasedTemplate() {
		p.PodTemplateHash = d.w.PodTemplateHash
	}
}

// withdrawApproval makes an approved step wait again if a check has failed since the approval. An
// approval by a write of the status or the spec stays in StepReady until the next pass, and a
// release that is paused stays there until it is resumed. An approval that overrides the checks
// stands.
func withdrawApproval(d *draft) {
	p := d.progress()
	failed := slices.ContainsFunc(judgedChecks(d.facts), func(c judgedCheck) bool { return c.verdict.Is == judge.Failed && awaitsDecision(d.facts, &c) })
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

// runStage runs the current stage. If nothing is left to do in it, runStage enters the next stage and
// reports true.
func runStage(d *draft) (done bool) {
	p, step := d.progress(), d.step()
	if step == nil {
		p.CurrentStepIndex, p.State = 1, rollouts.BeforeStepUpgrade
		return true
	}
	s := stageOf(p.State)
	d.reason = fmt.Sprintf("step %d %s", p.CurrentStepIndex, s.state)
	d.trail = append(d.trail, d.reason)
	if s.enter != nil {
		s.enter(d, step)
	}
	if !checkGates(d, s.gates, step) {
		if s.whileWaiting != nil {
			s.whileWaiting(d, step)
		}
		return false
	}
	if !runTargets(d, s.targets, step) {
		return false
	}
	leaveStage(d, s, step)
	return true
}

// leaveStage completes a stage and enters the next one.
func leaveStage(d *draft, s stage, step *rollouts.Step) {
	p := d.progress()
	if s.leave != nil {
		s.leave(d, step)
	}
	if p.State == s.state {
		p.State = s.next
	}
	p.FinalisingStep = ""
	d.startWait()
}

// checkGates records the verdicts of all gates about the step, and reports whether all gates pass.
func checkGates(d *draft, gates []Gate, step *rollouts.Step) (pass bool) {
	pass = true
	for _, gate := range gates {
		v := gate.Judge(d.facts, step)
		v.Gate = gate.Name
		d.verdicts = append(d.verdicts, v)
		pass = pass && v.Result == ResultPass
		if !v.Until.IsZero() {
			d.wakeIn(d.until(v.Until))
		}
	}
	return pass
}

// runTargets orders what is left to do for the targets, as far as one pass can go, and reports whether
// all targets are met.
func runTargets(d *draft, targets []stageTarget, step *rollouts.Step) (met bool) {
	met = true
	for _, target := range targets {
		result := target.check(d.facts, step)
		applyTarget(d, result)
		met = met && result.isDone()
		if !met && !result.runsNext {
			return false
		}
	}
	return met
}

// applyTarget adds what is left to do for a target to the decision.
func applyTarget(d *draft, t targetResult) {
	d.setOutcome(t.appliedVerb, rollouts.OutcomeApplied)
	d.wakeIn(t.checkAgain)
	if t.message != "" {
		d.setStepMessage(t.message)
	}
	if t.effective != nil {
		d.recordEffective(t.effective)
	}
	if t.stale != nil {
		d.clearOtherTarget(t.stale)
	}
	if t.undone != "" {
		reportUndone(d, t.undone)
	}
	if t.restartsGrace && t.action != nil {
		d.orderAction(t.action)
		t.action = nil
	}
	d.applyRemaining(t.remainingWork)
}

func stageOf(state rollouts.StepState) stage {
	for _, s := range stages {
		if s.state == state {
			return s
		}
	}
	return stages[0]
}

// completeUpgrade runs when the pods of the step are ready and routers know the Service that selects them.
// A step that replaces all pods routes nothing, so its traffic stage is skipped.
func completeUpgrade(d *draft, step *rollouts.Step) {
	p := d.progress()
	p.PodTemplateHash = d.w.PodTemplateHash
	d.upgraded = true
	beginAnalysis(d)
	if replacesAllPods(d.facts, step) && !hasTrafficChecks(d.plan, p.CurrentStepIndex) {
		p.State = rollouts.StepMetricsAnalysis
	}
}

// advanceStep enters the next step, or completes the last one. It announces a step that passed without
// waiting; a step that waited was announced when it began to wait, and the last step is announced with
// the end of the release.
func advanceStep(d *draft, _ *rollouts.Step) {
	p := d.progress()
	d.setOutcome(rollouts.VerbPromote, rollouts.OutcomeApplied)
	if next := d.plan.Next(p.CurrentStepIndex); next > 0 {
		if !stepWaited(d.facts) {
			d.announce("StepPassed", stepSummary(d.facts, "it needs no approval"))
		}
		p.CurrentStepIndex, p.NextStepIndex = next, d.plan.Next(next)
		return
	}
	p.NextStepIndex = -1
	p.State = rollouts.StepCompleted
}

// stepWaited reports whether the step has waited for approval or time before this pass.
func stepWaited(f facts) bool {
	stored := f.stored()
	return stored.CurrentStepIndex == f.progress().CurrentStepIndex && (stored.State == rollouts.StepPaused || stored.State == rollouts.StepReady)
}

// stepSummary returns one sentence about a completed step: who approved the step before, what was done,
// and what happens next.
func stepSummary(f facts, next string) string {
	p := f.progress()
	done := fmt.Sprintf("upgrade step(%d) canary pods with new versions done", p.CurrentStepIndex)
	if step := f.step(); step != nil && f.route() != nil && step.AsksForTraffic() && !replacesAllPods(f, step) {
		done += ", its traffic reaches the new version"
	}
	return approvedBefore(f, p.CurrentStepIndex-1) + done + "; " + next
}

// approvedBefore returns the beginning of a sentence that names who approved a step; empty if nobody has.
func approvedBefore(f facts, step int32) string {
	if user := approver(&f.status, step, rollouts.OutcomeApplied); user != "" {
		return fmt.Sprintf("step(%d) was approved by %s; ", step, user)
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
