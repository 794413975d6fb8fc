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

// draft is a decision as it grows. Its methods change it by one thing each, and answer
// nothing: what is asked, is asked of its facts.
type draft struct {
	*facts
	actions []Action
	events  []Event
	wake    time.Duration
	// trail are the cases and stages that the pass has come through, and reason is the
	// one that it is in.
	trail  []string
	reason string
	// next is the case that the pass goes on with, in the same write; empty if none.
	next Case
	// verdicts are those of the gates of the step, and waits reports whether something
	// keeps its stage.
	verdicts []Verdict
	waits    bool
	// upgraded reports whether the pods of a step were found ready, which the pass may have left by now.
	upgraded bool
	// questions are what is to be measured.
	questions []MeasurementRequest
	// undone says who undoes what routers were told.
	undone string
	// cause is what keeps the release from going on, in a few words.
	cause string
}

// progress is the next progress; never nil.
func (d *draft) progress() *rollouts.Progress {
	p := d.status.Active()
	if p == nil {
		p = &rollouts.Progress{}
		d.status.SetActive(d.style, p)
	}
	return p
}

// continueWith has the pass go on with another case, in the same write.
func (d *draft) continueWith(next Case) { d.next = next }

// act adds an action after all others.
func (d *draft) act(e Effect) {
	d.actions = append(d.actions, Action{Effect: e, Reason: d.reason})
}

// actFirst adds an action before all others.
func (d *draft) actFirst(e Effect) {
	d.actions = slices.Insert(d.actions, 0, Action{Effect: e, Reason: d.reason})
}

// hasAction reports whether an action with this effect was added.
func (d *draft) hasAction(e Effect) bool {
	return HasEffect(d.actions, func(other Effect) bool { return other == e })
}

// removeActions removes the actions whose effects match.
func (d *draft) removeActions(matches func(Effect) bool) {
	d.actions = slices.DeleteFunc(d.actions, func(a Action) bool { return matches(a.Effect) })
}

// orderAction wants something of the world, and waits again for what has not shown.
func (d *draft) orderAction(target Effect) {
	if !d.stageUnchanged() || d.reissueDue() {
		d.startWait()
	}
	d.clearOtherTarget(target)
	d.act(target)
}

// wakeIn has the next pass begin no later than that; zero asks for none.
func (d *draft) wakeIn(left time.Duration) {
	if left > 0 && (d.wake == 0 || left < d.wake) {
		d.wake = left
	}
}

func (d *draft) announce(reason, message string) {
	d.events = append(d.events, Event{Reason: reason, Message: message})
}

func (d *draft) warn(reason, message string) {
	d.events = append(d.events, Event{Warning: true, Reason: reason, Message: message})
}

// setActivity sets what the release is doing and says so.
func (d *draft) setActivity(a rollouts.Activity, message string) {
	d.status.Message = message
	d.status.SetActivity(a, message, d.now())
}

// setStepMessage says what the current step does, or waits for.
func (d *draft) setStepMessage(what string) {
	d.status.Message = fmt.Sprintf("Rollout is in step(%d/%d), and %s", d.progress().CurrentStepIndex, len(d.release.Steps), what)
}

// setCondition sets a condition.
func (d *draft) setCondition(t rollouts.ConditionType, s metav1.ConditionStatus, reason, message string) {
	d.status.SetCondition(rollouts.Condition{Type: t, Status: s, Reason: reason, Message: message}, d.now())
}

// stall says that nothing moves without a user.
func (d *draft) stall(reason rollouts.StallReason, message string) {
	d.status.Message = message
	d.setCondition(rollouts.ConditionStalled, metav1.ConditionTrue, string(reason), message)
}

// unstall takes that back where it was for one of the reasons.
func (d *draft) unstall(reasons ...rollouts.StallReason) {
	if d.isStalledFor(reasons...) {
		d.status.RemoveCondition(rollouts.ConditionStalled)
	}
}

// startWait starts a wait. It is rounded up to the second that the wire keeps, so
// that no restart shortens a pause or a grace period.
func (d *draft) startWait() {
	at := RoundUp(d.Now)
	d.progress().LastUpdateTime = &at
}

// restartWaitIfAhead begins a wait again where the clock was set back.
func (d *draft) restartWaitIfAhead() {
	if since := d.progress().LastUpdateTime; since != nil && IsAhead(since, d.Now) {
		d.startWait()
	}
}

// setOutcome marks the decisions of a verb that nothing has been done about yet.
func (d *draft) setOutcome(verb rollouts.Verb, outcome rollouts.Outcome) {
	for i := range d.status.Decisions {
		if of := &d.status.Decisions[i]; of.Verb == verb && of.Outcome == "" {
			of.Outcome = outcome
		}
	}
}

// supersedeDecisions marks every open decision as overtaken.
func (d *draft) supersedeDecisions() {
	for i := range d.status.Decisions {
		if of := &d.status.Decisions[i]; of.Outcome == "" {
			of.Outcome = rollouts.OutcomeSuperseded
		}
	}
}
