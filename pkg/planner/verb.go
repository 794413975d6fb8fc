// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// verb is one row of what users can do to a release.
type verb struct {
	// in are the states in which the verb is possible.
	in []state
	// already says that the release is as the verb wants it; nil if it never is.
	already func(r *rollouts.Rollout, s state, c Command) string
	// decide changes the status.
	decide func(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error
	// overtakes are the verbs whose open decisions this one makes void.
	overtakes []rollouts.Verb
	// outcome is set where the decision takes effect by being stored.
	outcome rollouts.Outcome
	// inForce says of a decision of the release under way that what it asked for
	// is so now.
	inForce func(p *rollouts.Progress, s state, d *rollouts.Decision, c Command) bool
	// safety is of verbs that keep a version from serving, or undo that: there is
	// always room for them in the record.
	safety bool
}

var verbs = map[rollouts.Verb]verb{
	rollouts.VerbPromote: {in: []state{starting, running}, already: promoted, decide: promote, inForce: approved},
	rollouts.VerbAbort: {
		in: underWay, already: aborted, decide: abort, safety: true,
		overtakes: []rollouts.Verb{rollouts.VerbPromote, rollouts.VerbJump, rollouts.VerbRetry},
		inForce:   func(_ *rollouts.Progress, s state, _ *rollouts.Decision, _ Command) bool { return goingBack(s) },
	},
	rollouts.VerbRollback: {
		in: []state{starting, running, refusing, frozen, replacing, completing, reverting}, already: rollingBack, decide: rollback, safety: true,
		overtakes: []rollouts.Verb{rollouts.VerbPromote, rollouts.VerbJump, rollouts.VerbRetry},
		inForce: func(p *rollouts.Progress, s state, _ *rollouts.Decision, _ Command) bool {
			return goingBack(s) && p.RollingBack || s == cancelling
		},
	},
	rollouts.VerbRetry: {
		in: []state{reverting}, decide: retry, safety: true,
		overtakes: []rollouts.Verb{rollouts.VerbAbort, rollouts.VerbRollback},
		inForce:   func(_ *rollouts.Progress, s state, _ *rollouts.Decision, _ Command) bool { return goingOn(s) },
	},
	rollouts.VerbPause: {
		in: []state{starting, running, refusing, frozen, replacing}, already: paused, decide: pause, safety: true,
		outcome: rollouts.OutcomeApplied,
		inForce: func(p *rollouts.Progress, s state, _ *rollouts.Decision, _ Command) bool {
			return goingOn(s) && p.Paused
		},
	},
	rollouts.VerbResume: {
		in: []state{refusing, frozen}, already: notPaused, decide: resume, safety: true,
		outcome: rollouts.OutcomeApplied,
		inForce: func(p *rollouts.Progress, s state, _ *rollouts.Decision, _ Command) bool {
			return goingOn(s) && !p.Paused
		},
	},
	rollouts.VerbJump: {
		in: []state{starting, running, frozen}, decide: jump,
		overtakes: []rollouts.Verb{rollouts.VerbPromote, rollouts.VerbJump},
		inForce: func(p *rollouts.Progress, s state, _ *rollouts.Decision, c Command) bool {
			return goingOn(s) && p.CurrentStepIndex == c.Step
		},
	},
}

// goingOn is of a release that is neither over nor on its way back.
func goingOn(s state) bool {
	return slices.Contains([]state{starting, running, refusing, frozen, replacing, completing}, s)
}

// goingBack is of a release on its way back to the stable revision, or there.
func goingBack(s state) bool { return s == reverting || s == retreating || s == cancelling }

// approved reports whether the approval is what the release goes on by.
func approved(p *rollouts.Progress, s state, d *rollouts.Decision, c Command) bool {
	if c.Full {
		return goingOn(s) && p.FullyPromoted
	}
	return goingOn(s) && p.CurrentStepIndex == d.Step && (p.State == rollouts.StepReady || p.State == rollouts.StepCompleted)
}

func promoted(r *rollouts.Rollout, s state, c Command) string {
	if c.Full && (s == starting || s == running) && r.Status.Active().FullyPromoted {
		return "the rollout is fully promoted already"
	}
	return ""
}

// promote approves the step that waits. In full it approves every further step
// as well, whatever the state of this one.
func promote(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error {
	p := next.Active()
	p.FullyPromoted = p.FullyPromoted || c.Full
	switch {
	case p.State == rollouts.StepPaused:
		p.State = rollouts.StepReady
		p.LastUpdateTime = &c.Now
	case c.Full:
	case p.State == rollouts.StepReady:
		return refuse("step %d was approved already%s; the next step is not waiting yet", p.CurrentStepIndex, approvedBy(r, p))
	default:
		return refuse("step %d is in state %s and does not wait for approval yet; wait for StepPaused, or promote with full: true",
			p.CurrentStepIndex, p.State)
	}
	return nil
}

func aborted(r *rollouts.Rollout, s state, _ Command) string {
	if s == reverting || s == retreating {
		return "the release is aborted already" + abortedBy(r)
	}
	return ""
}

// abort goes back to stable; nothing of the plan is in force any more.
func abort(_ *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error {
	p := next.Active()
	p.FinalisingStep, p.FullyPromoted, p.Paused, p.RollingBack, p.AbortedRevision = "", false, false, false, ""
	p.LastUpdateTime = &c.Now
	restartDeadline(next)
	next.Message = aborting
	next.SetActivity(rollouts.ActivityAborting, aborting, c.Now)
	return nil
}

func rollingBack(r *rollouts.Rollout, s state, _ Command) string {
	if s == reverting && r.Status.Active().RollingBack {
		return "the release is being rolled back already" + abortedBy(r)
	}
	return ""
}

// rollback aborts, unless that was done before, and has the controller set the
// stable template afterwards.
func rollback(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error {
	if stateOf(r) != reverting {
		if err := abort(r, next, c); err != nil {
			return err
		}
	}
	next.Active().RollingBack, next.Active().AbortedRevision = true, ""
	next.RemoveCondition(rollouts.ConditionStalled)
	restartDeadline(next)
	return nil
}

// restartDeadline gives what a user has just asked for all the time there is.
func restartDeadline(next *rollouts.RolloutStatus) {
	p := next.Active()
	p.LastProgressTime, p.ProgressMark = nil, 0
	if c := next.Condition(rollouts.ConditionStalled); c != nil && c.Reason == string(rollouts.StalledDeadline) {
		next.RemoveCondition(rollouts.ConditionStalled)
	}
}

// retry starts an aborted release again.
func retry(r *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error {
	_, release := r.Spec.Strategy.Active()
	p := next.Active()
	p.CurrentStepIndex, p.NextStepIndex, p.State = 1, release.Next(1), rollouts.BeforeStepUpgrade
	p.FinalisingStep, p.RollingBack, p.AbortedRevision = "", false, ""
	p.RolloutHash = planHash(r, release)
	p.LastUpdateTime = &c.Now
	next.Message = "Rollout starts again at step 1"
	next.RemoveCondition(rollouts.ConditionStalled)
	restartDeadline(next)
	next.SetActivity(rollouts.ActivityInitializing, next.Message, c.Now)
	return nil
}

func paused(r *rollouts.Rollout, s state, _ Command) string {
	if (s == frozen || s == refusing) && r.Status.Active().Paused {
		return "the release is paused already" + pausedBy(r)
	}
	return ""
}

// pausedMessage is the same for both ways of pausing.
const pausedMessage = "Rollout has been paused, you can resume it by kube-cli"

// pause freezes the release beside spec.strategy.paused. It is in force once it
// is stored, so nobody has to wait for the controller to see it.
func pause(_ *rollouts.Rollout, next *rollouts.RolloutStatus, c Command) error {
	next.Active().Paused = true
	restartDeadline(next)
	next.Message = pausedMessage
	next.SetActivity(rollouts.ActivityPaused, pausedMessage, c.Now)
	return nil
}

func notPaused(r *rollouts.Rollout, s state, _ Command) string {
	if s == starting || s == running || s == refusing && !r.Status.Active().Paused && !r.Spec.Strategy.Paused {
		return "the release is not paused"
	}
	return ""
}

// resume ends a pause of the verb, and only that.
func resume(r *rollouts.Rollout, next *rollouts.RolloutStatus, _ Command) error {
	if r.Spec.Strategy.Paused {
		return refuse("the rollout is paused by its spec; set spec.strategy.paused to false")
	}
	next.Active().Paused = false
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
	p.RolloutHash = planHash(r, release)
	at := roundUp(c.Now.Time)
	p.LastUpdateTime = &at
	restartDeadline(next)
	return nil
}

// roundUp is a time as the wire keeps it, to the second, and never earlier.
func roundUp(t time.Time) metav1.Time {
	whole := t.Truncate(time.Second)
	if whole.Before(t) {
		whole = whole.Add(time.Second)
	}
	return metav1.NewTime(whole)
}
