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

// verb is one row of what users can do to a release.
type verb struct {
	// in are the states in which the verb is possible.
	in []planner.State
	// already says that the release is as the verb wants it; nil if it never is.
	already func(r *rollouts.Rollout, s planner.State, c Command) string
	// decide changes the status.
	decide func(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error
	// overtakes are the verbs whose open decisions this one makes void.
	overtakes []rollouts.Verb
	// outcome is set where the decision takes effect by being stored.
	outcome rollouts.Outcome
	// inForce says of a decision of the release under way that what it asked for
	// is so now.
	inForce func(p *rollouts.Progress, s planner.State, d *rollouts.Decision, c Command) bool
	// safety is of verbs that keep a version from serving, or undo that: there is
	// always room for them in the record.
	safety bool
}

// abortable are the states in which an abort has something to undo, or to keep from starting.
var abortable = []planner.State{
	planner.StateLeaving, planner.StateInitializing, planner.StateInStep, planner.StateRefused, planner.StatePaused, planner.StateSuperseding, planner.StateFinalising,
	planner.StateAborted, planner.StateLeavingAborted,
}

var verbs = map[rollouts.Verb]verb{
	rollouts.VerbPromote: {in: []planner.State{planner.StateInitializing, planner.StateInStep}, already: promoted, decide: promote, inForce: approved},
	rollouts.VerbAbort: {
		in: abortable, already: aborted, decide: abort, safety: true,
		overtakes: []rollouts.Verb{rollouts.VerbPromote, rollouts.VerbJump, rollouts.VerbRetry},
		inForce:   func(_ *rollouts.Progress, s planner.State, _ *rollouts.Decision, _ Command) bool { return goingBack(s) },
	},
	rollouts.VerbRollback: {
		in: []planner.State{planner.StateInitializing, planner.StateInStep, planner.StateRefused, planner.StatePaused, planner.StateSuperseding, planner.StateFinalising, planner.StateAborted}, already: rollingBack, decide: rollback, safety: true,
		overtakes: []rollouts.Verb{rollouts.VerbPromote, rollouts.VerbJump, rollouts.VerbRetry},
		inForce: func(p *rollouts.Progress, s planner.State, _ *rollouts.Decision, _ Command) bool {
			return goingBack(s) && p.RollingBack || s == planner.StateCancelling
		},
	},
	rollouts.VerbRetry: {
		in: []planner.State{planner.StateAborted}, decide: retry, safety: true,
		overtakes: []rollouts.Verb{rollouts.VerbAbort, rollouts.VerbRollback},
		inForce:   func(_ *rollouts.Progress, s planner.State, _ *rollouts.Decision, _ Command) bool { return goingOn(s) },
	},
	rollouts.VerbPause: {
		in: []planner.State{planner.StateInitializing, planner.StateInStep, planner.StateRefused, planner.StatePaused, planner.StateSuperseding}, already: paused, decide: pause, safety: true,
		outcome: rollouts.OutcomeApplied,
		inForce: func(p *rollouts.Progress, s planner.State, _ *rollouts.Decision, _ Command) bool {
			return goingOn(s) && p.Paused
		},
	},
	rollouts.VerbResume: {
		in: []planner.State{planner.StateRefused, planner.StatePaused}, already: notPaused, decide: resume, safety: true,
		outcome: rollouts.OutcomeApplied,
		inForce: func(p *rollouts.Progress, s planner.State, _ *rollouts.Decision, _ Command) bool {
			return goingOn(s) && !p.Paused
		},
	},
	rollouts.VerbJump: {
		in: []planner.State{planner.StateInitializing, planner.StateInStep, planner.StatePaused}, decide: jump,
		overtakes: []rollouts.Verb{rollouts.VerbPromote, rollouts.VerbJump},
		inForce: func(p *rollouts.Progress, s planner.State, _ *rollouts.Decision, c Command) bool {
			return goingOn(s) && p.CurrentStepIndex == c.Step
		},
	},
}

// goingOn is of a release that is neither over nor on its way back.
func goingOn(s planner.State) bool {
	return slices.Contains([]planner.State{planner.StateInitializing, planner.StateInStep, planner.StateRefused, planner.StatePaused, planner.StateSuperseding, planner.StateFinalising}, s)
}

// goingBack is of a release on its way back to the stable revision, or there.
func goingBack(s planner.State) bool {
	return backToStable(s) || s == planner.StateCancelling
}

// approved reports whether the approval is what the release goes on by.
func approved(p *rollouts.Progress, s planner.State, d *rollouts.Decision, c Command) bool {
	if c.Full {
		return goingOn(s) && p.FullyPromoted
	}
	here := p.CurrentStepIndex == d.Step && (p.State == rollouts.StepReady || p.State == rollouts.StepCompleted)
	return goingOn(s) && (here || entered(p, d))
}

// entered reports whether the step under way began with the approval of the one before, and
// has not come to where it could be approved itself.
func entered(p *rollouts.Progress, d *rollouts.Decision) bool {
	return d.Outcome == rollouts.OutcomeApplied && p.CurrentStepIndex == d.Step+1 && p.State == rollouts.StepUpgrade &&
		p.LastUpdateTime != nil && p.LastUpdateTime.Sub(d.Time.Time) <= time.Second
}

// promoted says so where a full promotion would change nothing. It does where a person
// decides about the checks of a step.
func promoted(r *rollouts.Rollout, s planner.State, c Command) string {
	p := r.Status.Active()
	decides := c.Override || r.Status.Analysis != nil && p != nil && p.State == rollouts.StepPaused
	if c.Full && !decides && (s == planner.StateInitializing || s == planner.StateInStep) && p.FullyPromoted {
		return "the rollout is fully promoted already"
	}
	return ""
}

// override has the checks only report from now on, where every step is promoted.
func override(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) {
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

// promote approves the step that waits. In full it approves every further step
// as well, whatever the state of this one.
func promote(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error {
	p := next.Active()
	p.FullyPromoted = p.FullyPromoted || c.Full
	override(r, next, c)
	measured := p.State == rollouts.StepMetricsAnalysis && c.Override
	// Approved in full, the step goes on when its checks have passed.
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

// aborted says so until the first abort is bound to a template. After that a second abort
// may mean another template, which the status does not show.
func aborted(r *rollouts.Rollout, s planner.State, _ Command) string {
	already := "the release is aborted already" + planner.AbortedBy(r)
	switch {
	case planner.IsRestoringAborted(r):
		return already + ", and the workload is being given back"
	case backToStable(s) && planner.LacksAbortedRevision(r):
		return already
	default:
		return ""
	}
}

// abort goes back to stable. A release that goes back already keeps going back, and the
// template that is set now is aborted with it.
func abort(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error {
	if backToStable(planner.StateOf(r)) {
		planner.ForgetAbortedRevision(next)
		return nil
	}
	planner.AbortRelease(next, c.Now)
	return nil
}

// backToStable is of a release that was aborted, or is rolled back.
func backToStable(s planner.State) bool {
	return s == planner.StateAborted || s == planner.StateLeavingAborted
}

func rollingBack(r *rollouts.Rollout, s planner.State, _ Command) string {
	if s == planner.StateAborted && r.Status.Active().RollingBack && planner.LacksAbortedRevision(r) {
		return "the release is being rolled back already" + planner.AbortedBy(r)
	}
	return ""
}

// rollback aborts, unless that was done before, and has the controller set the
// stable template afterwards.
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

func paused(r *rollouts.Rollout, s planner.State, _ Command) string {
	if (s == planner.StatePaused || s == planner.StateRefused) && r.Status.Active().Paused {
		return "the release is paused already" + planner.PausedBy(r)
	}
	return ""
}

// pause freezes the release beside spec.strategy.paused. It is in force once it
// is stored, so nobody has to wait for the controller to see it.
func pause(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error {
	next.Active().Paused = true
	planner.RestartDeadline(next)
	planner.PauseRelease(r, next, c.Now.Time)
	return nil
}

func notPaused(r *rollouts.Rollout, s planner.State, _ Command) string {
	if s == planner.StateInitializing || s == planner.StateInStep || s == planner.StateRefused && !r.Status.Active().Paused && !r.Spec.Strategy.Paused {
		return "the release is not paused"
	}
	return ""
}

// resume ends a pause of the verb, and only that.
func resume(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error {
	if r.Spec.Strategy.Paused {
		return refuse("the rollout is paused by its spec; set spec.strategy.paused to false")
	}
	next.Active().Paused = false
	planner.ResumeRelease(r, next, c.Now.Time)
	return nil
}

// jump goes on at another step, or runs the current one again; the pause of
// that step counts. The numbers are those of the plan as it is stored now.
func jump(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error {
	_, release := r.Spec.Strategy.Active()
	if release.Step(c.Step) == nil {
		return &Invalid{Step: c.Step, Why: fmt.Sprintf("the plan has the steps 1 to %d", len(release.Steps))}
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
