// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package verb

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// verbRule describes one verb.
type verbRule struct {
	// allowedStates are the states in which the verb is possible.
	allowedStates []planner.State
	// alreadyDone returns a warning if the release is already as the verb would make it; empty if it is not. The
	// function is nil if the verb always changes something.
	alreadyDone func(r *rollouts.Rollout, s planner.State, c Command) string
	// changeStatus makes the changes of the verb in next.
	changeStatus func(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error
	// supersedes are the verbs whose open decisions this verb supersedes.
	supersedes []rollouts.Verb
	// immediateOutcome is the outcome of a verb that takes effect when it is stored; empty if the controller sets the
	// outcome later.
	immediateOutcome rollouts.Outcome
	// isInForce reports whether the state of the release is still as a decision of this release requested.
	isInForce func(p *rollouts.Progress, s planner.State, d *rollouts.Decision, c Command) bool
	// isSafety reports whether the verb keeps a version from serving requests, or undoes this. The record always has
	// room for such verbs.
	isSafety bool
}

// abortableStates are the states in which an abort has something to undo or to prevent.
var abortableStates = []planner.State{
	planner.StateLeaving, planner.StateInitializing, planner.StateInStep, planner.StateRefused, planner.StatePaused, planner.StateSuperseding, planner.StateFinalising,
	planner.StateAborted, planner.StateLeavingAborted,
}

var verbRules = map[rollouts.Verb]verbRule{
	rollouts.VerbPromote: {allowedStates: []planner.State{planner.StateInitializing, planner.StateInStep}, alreadyDone: alreadyPromoted, changeStatus: promote, isInForce: isApprovalInForce},
	rollouts.VerbAbort: {
		allowedStates: abortableStates, alreadyDone: alreadyAborted, changeStatus: abort, isSafety: true,
		supersedes: []rollouts.Verb{rollouts.VerbPromote, rollouts.VerbJump, rollouts.VerbRetry},
		isInForce:  func(_ *rollouts.Progress, s planner.State, _ *rollouts.Decision, _ Command) bool { return goesBack(s) },
	},
	rollouts.VerbRollback: {
		allowedStates: []planner.State{planner.StateInitializing, planner.StateInStep, planner.StateRefused, planner.StatePaused, planner.StateSuperseding, planner.StateFinalising, planner.StateAborted}, alreadyDone: alreadyRollingBack, changeStatus: rollback, isSafety: true,
		supersedes: []rollouts.Verb{rollouts.VerbPromote, rollouts.VerbJump, rollouts.VerbRetry},
		isInForce: func(p *rollouts.Progress, s planner.State, _ *rollouts.Decision, _ Command) bool {
			return goesBack(s) && p.RollingBack || s == planner.StateCancelling
		},
	},
	rollouts.VerbRetry: {
		allowedStates: []planner.State{planner.StateAborted}, changeStatus: retry, isSafety: true,
		supersedes: []rollouts.Verb{rollouts.VerbAbort, rollouts.VerbRollback},
		isInForce:  func(_ *rollouts.Progress, s planner.State, _ *rollouts.Decision, _ Command) bool { return continues(s) },
	},
	rollouts.VerbPause: {
		allowedStates: []planner.State{planner.StateInitializing, planner.StateInStep, planner.StateRefused, planner.StatePaused, planner.StateSuperseding}, alreadyDone: alreadyPaused, changeStatus: pause, isSafety: true,
		immediateOutcome: rollouts.OutcomeApplied,
		isInForce: func(p *rollouts.Progress, s planner.State, _ *rollouts.Decision, _ Command) bool {
			return continues(s) && p.Paused
		},
	},
	rollouts.VerbResume: {
		allowedStates: []planner.State{planner.StateRefused, planner.StatePaused}, alreadyDone: alreadyResumed, changeStatus: resume, isSafety: true,
		immediateOutcome: rollouts.OutcomeApplied,
		isInForce: func(p *rollouts.Progress, s planner.State, _ *rollouts.Decision, _ Command) bool {
			return continues(s) && !p.Paused
		},
	},
	rollouts.VerbJump: {
		allowedStates: []planner.State{planner.StateInitializing, planner.StateInStep, planner.StatePaused}, changeStatus: jump,
		supersedes: []rollouts.Verb{rollouts.VerbPromote, rollouts.VerbJump},
		isInForce: func(p *rollouts.Progress, s planner.State, _ *rollouts.Decision, c Command) bool {
			return continues(s) && p.CurrentStepIndex == c.Step
		},
	},
}

// continues reports whether a release has not ended and does not go back to the stable revision.
func continues(s planner.State) bool {
	return slices.Contains([]planner.State{planner.StateInitializing, planner.StateInStep, planner.StateRefused, planner.StatePaused, planner.StateSuperseding, planner.StateFinalising}, s)
}

// goesBack reports whether a release goes back to the stable revision or has gone back.
func goesBack(s planner.State) bool {
	return isBackToStable(s) || s == planner.StateCancelling
}

// isApprovalInForce reports whether an approval is in force: the step that it approved is approved, or the release
// has just continued to the next step.
func isApprovalInForce(p *rollouts.Progress, s planner.State, d *rollouts.Decision, c Command) bool {
	if c.Full {
		return continues(s) && p.FullyPromoted
	}
	here := p.CurrentStepIndex == d.Step && (p.State == rollouts.StepReady || p.State == rollouts.StepCompleted)
	return continues(s) && (here || hasEnteredNextStep(p, d))
}

// hasEnteredNextStep reports whether the current step began with the approval d of the previous step, and cannot be
// approved itself yet.
func hasEnteredNextStep(p *rollouts.Progress, d *rollouts.Decision) bool {
	return d.Outcome == rollouts.OutcomeApplied && p.CurrentStepIndex == d.Step+1 && p.State == rollouts.StepUpgrade &&
		p.LastUpdateTime != nil && p.LastUpdateTime.Sub(d.Time.Time) <= time.Second
}

// alreadyPromoted returns a warning if a full promotion would change nothing. A promotion that decides about the
// checks of a step always changes something.
func alreadyPromoted(r *rollouts.Rollout, s planner.State, c Command) string {
	p := r.Status.Active()
	decidesChecks := c.Override || r.Status.Analysis != nil && p != nil && p.State == rollouts.StepPaused
	if c.Full && !decidesChecks && (s == planner.StateInitializing || s == planner.StateInStep) && p.FullyPromoted {
		return "the rollout is fully promoted already"
	}
	return ""
}

// overrideChecks makes the checks only report from now on, if a full promotion overrides them.
func overrideChecks(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) {
	_, plan := r.Spec.Strategy.Active()
	if !c.Override || !c.Full || plan == nil || plan.Analysis == nil {
		return
	}
	if next.Analysis == nil {
		p := next.Active()
		next.Analysis = &rollouts.AnalysisStatus{Revision: p.UpdateRevision, UpdateTemplate: p.UpdateTemplate}
	}
	next.Analysis.Overridden = true
}

// promote approves the waiting step. A full promotion also approves all further steps, in any state of the current
// step.
func promote(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error {
	p := next.Active()
	p.FullyPromoted = p.FullyPromoted || c.Full
	overrideChecks(r, next, c)
	measured := p.State == rollouts.StepMetricsAnalysis && c.Override
	// After a full promotion, a step with open checks continues when they have passed.
	open := !c.Override && len(planner.NeedOverride(planner.OpenForApproval(r, false))) > 0
	switch {
	case planner.ApprovalSkipsTrafficChecks(r, c.Override):
		planner.SkipTrafficChecks(r, next, c.User, c.Override, c.Now.Time)
	case p.State == rollouts.StepPaused && !open, measured:
		p.State = rollouts.StepReady
		p.LastUpdateTime = &c.Now
	case c.Full:
	case p.State == rollouts.StepReady:
		return refuse("step %d was approved already%s; the next step is not waiting yet", p.CurrentStepIndex, approvedBy(r, p))
	default:
		return refuse("step %d is in state %s and does not wait for approval yet%s; wait for StepPaused, or promote with full: true",
			p.CurrentStepIndex, p.State, planner.ApprovedBefore(r))
	}
	return nil
}

// alreadyAborted returns a warning if the release is aborted and the status does not record the aborted template yet.
// After that, a second abort may concern another template, which the status does not show.
func alreadyAborted(r *rollouts.Rollout, s planner.State, _ Command) string {
	already := "the release is aborted already" + planner.AbortedBy(r)
	switch {
	case planner.IsRestoringAborted(r):
		return already + ", and the workload is being returned to its native controller"
	case isBackToStable(s) && planner.LacksAbortedRevision(r):
		return already
	default:
		return ""
	}
}

// abort starts to go back to the stable revision. If the release goes back already, it continues to, and the abort
// now also applies to the template that the workload has now.
func abort(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error {
	if isBackToStable(planner.StateOf(r)) {
		planner.ForgetAbortedRevision(next)
		return nil
	}
	planner.AbortRelease(next, c.Now)
	return nil
}

// isBackToStable reports whether a release was aborted or is being rolled back.
func isBackToStable(s planner.State) bool {
	return s == planner.StateAborted || s == planner.StateLeavingAborted
}

func alreadyRollingBack(r *rollouts.Rollout, s planner.State, _ Command) string {
	if s == planner.StateAborted && r.Status.Active().RollingBack && planner.LacksAbortedRevision(r) {
		return "the release is being rolled back already" + planner.AbortedBy(r)
	}
	return ""
}

// rollback aborts the release if it is not aborted yet. Afterwards the controller sets the stable template.
func rollback(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error {
	if err := abort(r, next, c); err != nil {
		return err
	}
	next.Active().RollingBack = true
	next.RemoveCondition(rollouts.ConditionStalled)
	planner.RestartDeadline(next)
	return nil
}

// retry starts an aborted release again.
func retry(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error {
	_, release := r.Spec.Strategy.Active()
	p := next.Active()
	p.CurrentStepIndex, p.NextStepIndex, p.State = 1, release.Next(1), rollouts.BeforeStepUpgrade
	p.FinalisingStep, p.RollingBack, p.AbortedRevision, p.AbortedTemplate = "", false, "", ""
	p.RolloutHash = planner.PlanHashOf(r, release)
	p.LastUpdateTime = &c.Now
	next.Message = "Rollout starts again at step 1"
	next.RemoveCondition(rollouts.ConditionStalled)
	planner.RestartDeadline(next)
	next.Analysis = nil
	if c.Override {
		next.Analysis = &rollouts.AnalysisStatus{Revision: p.UpdateRevision, UpdateTemplate: p.UpdateTemplate, Overridden: true}
	}
	next.SetActivity(rollouts.ActivityInitializing, next.Message, c.Now)
	return nil
}

func alreadyPaused(r *rollouts.Rollout, s planner.State, _ Command) string {
	if (s == planner.StatePaused || s == planner.StateRefused) && r.Status.Active().Paused {
		return "the release is paused already" + planner.PausedBy(r)
	}
	return ""
}

// pause freezes the release independently of spec.strategy.paused. The pause is in force when it is stored; no
// controller has to observe it first.
func pause(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error {
	next.Active().Paused = true
	planner.RestartDeadline(next)
	planner.PauseRelease(r, next, c.Now.Time)
	return nil
}

func alreadyResumed(r *rollouts.Rollout, s planner.State, _ Command) string {
	if s == planner.StateInitializing || s == planner.StateInStep || s == planner.StateRefused && !r.Status.Active().Paused && !r.Spec.Strategy.Paused {
		return "the release is not paused"
	}
	return ""
}

// resume ends a pause of the verb pause. It does not change spec.strategy.paused.
func resume(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error {
	if r.Spec.Strategy.Paused {
		return refuse("the rollout is paused by its spec; set spec.strategy.paused to false")
	}
	next.Active().Paused = false
	planner.ResumeRelease(r, next, c.Now.Time)
	return nil
}

// jump continues at another step or repeats the current one, including the pause of that step. Step numbers refer to
// the plan as it is stored now.
func jump(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error {
	_, release := r.Spec.Strategy.Active()
	if release.Step(c.Step) == nil {
		return &InvalidStep{Step: c.Step, Message: fmt.Sprintf("the plan has the steps 1 to %d", len(release.Steps))}
	}
	p := next.Active()
	p.CurrentStepIndex, p.NextStepIndex, p.State = c.Step, release.Next(c.Step), rollouts.BeforeStepUpgrade
	p.FinalisingStep, p.FullyPromoted = "", false
	p.RolloutHash = planner.PlanHashOf(r, release)
	at := planner.RoundUp(c.Now.Time)
	p.LastUpdateTime = &at
	planner.RestartDeadline(next)
	return nil
}
