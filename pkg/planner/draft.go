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

// draft is the decision about a Rollout while decideRollout makes it: the facts, with the next status, and
// the actions and events that lead to it.
type draft struct {
	facts
	actions []Action
	events  []Event
	// wake is the time until the next pass; zero if the next pass begins when something changes.
	wake time.Duration
	// trail has the names of the cases and stages of this pass. reason is the current one, which becomes
	// the reason of each action.
	trail  []string
	reason string
	// next is the case that the pass continues with, in the same write; empty if there is none.
	next Case
	// verdicts are the verdicts of the gates of the step.
	verdicts []Verdict
	// upgraded reports whether the pods of a step became ready in this pass. The pass may have left that
	// step already.
	upgraded bool
	// questions are the measurements that are requested.
	questions []MeasurementRequest
	// undone says who undoes the changes of the release on Services and routers; empty if nobody does.
	undone string
	// cause says in a few words what delays the release; empty if nothing does.
	cause string
}

// newDraft returns a draft that changes nothing yet. Its status always has a progress, which is empty before
// the first release.
func newDraft(f facts) *draft {
	if f.status.Active() == nil {
		f.status.SetActive(f.style, &rollouts.Progress{})
	}
	return &draft{facts: f}
}

// progress returns the next progress, which the caller may change.
func (d *draft) progress() *rollouts.Progress { return d.status.Active() }

// continueWith makes the pass continue with another case, in the same write.
func (d *draft) continueWith(next Case) { d.next = next }

// act appends an action to the plan.
func (d *draft) act(e Effect) {
	d.actions = append(d.actions, Action{Effect: e, Reason: d.reason})
}

// actFirst inserts an action before all others.
func (d *draft) actFirst(e Effect) {
	d.actions = slices.Insert(d.actions, 0, Action{Effect: e, Reason: d.reason})
}

// hasAction reports whether the plan has an action with this effect.
func (d *draft) hasAction(e Effect) bool {
	return HasEffect(d.actions, func(other Effect) bool { return other == e })
}

// removeActions removes the actions whose effects match from the plan.
func (d *draft) removeActions(matches func(Effect) bool) {
	d.actions = slices.DeleteFunc(d.actions, func(a Action) bool { return matches(a.Effect) })
}

// orderAction appends an action and restarts its grace period if the action had no visible effect.
func (d *draft) orderAction(e Effect) {
	if !d.stageUnchanged() || d.reissueDue() {
		d.startWait()
	}
	d.clearOtherTarget(e)
	d.act(e)
}

// wakeIn makes the next pass begin no later than after the given time. Zero changes nothing.
func (d *draft) wakeIn(delay time.Duration) {
	if delay > 0 && (d.wake == 0 || delay < d.wake) {
		d.wake = delay
	}
}

func (d *draft) announce(reason, message string) {
	d.events = append(d.events, Event{Reason: reason, Message: message})
}

func (d *draft) warn(reason, message string) {
	d.events = append(d.events, Event{Warning: true, Reason: reason, Message: message})
}

// setActivity sets the activity of the release, which is the reason of the condition Progressing.
func (d *draft) setActivity(a rollouts.Activity, message string) {
	d.status.Message = message
	d.status.SetActivity(a, message, d.now())
}

// setStepMessage sets the message of the status: what the current step does, or waits for.
func (d *draft) setStepMessage(what string) {
	d.status.Message = fmt.Sprintf("Rollout is in step(%d/%d), and %s", d.progress().CurrentStepIndex, len(d.plan.Steps), what)
}

func (d *draft) setCondition(t rollouts.ConditionType, s metav1.ConditionStatus, reason, message string) {
	d.status.SetCondition(rollouts.Condition{Type: t, Status: s, Reason: reason, Message: message}, d.now())
}

// stall sets the condition Stalled: the release does not continue until a user acts.
func (d *draft) stall(reason rollouts.StallReason, message string) {
	d.status.Message = message
	d.setCondition(rollouts.ConditionStalled, metav1.ConditionTrue, string(reason), message)
}

// unstall removes the condition Stalled if its reason is one of the given reasons.
func (d *draft) unstall(reasons ...rollouts.StallReason) {
	if d.isStalledFor(reasons...) {
		d.status.RemoveCondition(rollouts.ConditionStalled)
	}
}

// startWait starts a pause or a grace period now. The stored time has whole seconds and is rounded up, so
// that a restart of the controller does not shorten the wait.
func (d *draft) startWait() {
	now := RoundUp(d.Now)
	d.progress().LastUpdateTime = &now
}

// restartWaitIfAhead starts the wait again if its stored start is in the future, because the clock was set
// back.
func (d *draft) restartWaitIfAhead() {
	if start := d.progress().LastUpdateTime; start != nil && IsAhead(start, d.Now) {
		d.startWait()
	}
}

// setOutcome sets the outcome of the decisions of a verb that have none yet.
func (d *draft) setOutcome(verb rollouts.Verb, outcome rollouts.Outcome) {
	for i := range d.status.Decisions {
		if decision := &d.status.Decisions[i]; decision.Verb == verb && decision.Outcome == "" {
			decision.Outcome = outcome
		}
	}
}

// supersedeDecisions sets the outcome Superseded of all decisions that have none yet.
func (d *draft) supersedeDecisions() {
	for i := range d.status.Decisions {
		if decision := &d.status.Decisions[i]; decision.Outcome == "" {
			decision.Outcome = rollouts.OutcomeSuperseded
		}
	}
}
