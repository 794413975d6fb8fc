// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Result is the answer of a gate. A step continues when all its gates pass.
type Result string

// ResultPass lets the step continue, and ResultWait makes it wait.
const (
	ResultPass Result = "Pass"
	ResultWait Result = "Wait"
)

// Verdict is the judgement of a gate about the current step.
type Verdict struct {
	Gate   string
	Result Result
	// Until is when the gate must be judged again, also if the gate passes now. It is zero if the verdict
	// changes only when an object changes.
	Until time.Time
	// Message says what the gate waits for, and becomes part of the Rollout's message. It is empty if the
	// message of the step already says so.
	Message string
}

// String returns the verdict as one line of text.
func (v Verdict) String() string {
	text := v.Gate + ": " + string(v.Result)
	if v.Message != "" {
		text += ", " + v.Message
	}
	if !v.Until.IsZero() {
		text += ", until " + v.Until.UTC().Format(time.RFC3339)
	}
	return text
}

// Gate is a condition that a step must meet before it continues.
type Gate struct {
	Name  string
	Judge func(facts, *rollouts.Step) Verdict
}

// gates are the gates of a step in StepPaused. An approval skips all of them, because the verb promote sets the
// state StepReady. A gate that must also hold after an approval needs a row in both lists: this one keeps an
// unapproved step in StepPaused, and approvedGates keeps an approved step in StepReady.
var gates = []Gate{
	{"approval", judgeApproval},
	{"pause", judgePause},
	{"traffic", judgeTraffic},
	{"checks", judgeUndecidedChecks},
	{"pods", judgePodCrashes},
}

// approvedGates are the gates of a step in StepReady. There are none yet. While the list has a row, a verb never
// enters the next step in its own write (continuesWithoutObservation).
var approvedGates []Gate

var passVerdict = Verdict{Result: ResultPass}

// judgeApproval makes a step without a timed pause wait for the approval of a person.
func judgeApproval(f facts, step *rollouts.Step) Verdict {
	if hasTimedPause(step) || skipsGates(f) {
		return passVerdict
	}
	return Verdict{Result: ResultWait}
}

// judgePause makes a step with a timed pause wait until the pause has ended.
func judgePause(f facts, step *rollouts.Step) Verdict {
	since := f.progress().LastUpdateTime
	if !hasTimedPause(step) || *step.Pause.Duration <= 0 || skipsGates(f) || since == nil {
		return passVerdict
	}
	end := since.Add(time.Duration(*step.Pause.Duration) * time.Second)
	if f.until(end) == 0 {
		return passVerdict
	}
	return Verdict{Result: ResultWait, Until: end}
}

// judgeTraffic makes a step wait while its requests are not routed to the new version. A pause that ends during
// this time shows nothing about the new version.
func judgeTraffic(f facts, step *rollouts.Step) Verdict {
	reason := routeLostReason(f, step)
	if reason == "" || skipsGates(f) {
		return passVerdict
	}
	return Verdict{Result: ResultWait, Message: lostPrefix + reason}
}

// allPods is the only value of replicas that means all pods at every size of the workload.
var allPods = intstr.FromString("100%")

// skipsGates reports whether the current step passes without approval or pause, because the user has promoted the
// release fully or because PassesWithoutApproval is true for the step.
func skipsGates(f facts) bool {
	p := f.progress()
	return p.FullyPromoted || PassesWithoutApproval(f.style, f.plan, p.CurrentStepIndex)
}

// PassesWithoutApproval reports whether a step of a plan passes without approval or pause. This is the last step
// if its replicas are exactly "100%", because no stable pod remains that an approval could protect. In
// blue-green style, all stable pods remain, so the last step waits.
func PassesWithoutApproval(style rollouts.Style, release *rollouts.Release, index int32) bool {
	step := release.Step(index)
	return step != nil && int(index) == len(release.Steps) && style != rollouts.StyleBlueGreen && step.Replicas != nil && *step.Replicas == allPods
}

// jumpGracePeriod is how long a step stays in BeforeStepUpgrade after a client of OpenKruise Rollouts has set
// nextStepIndex. Such clients poll for this state, and soon give up if they miss it.
const jumpGracePeriod = 3 * time.Second

// judgeJump makes a step wait for jumpGracePeriod after a client has jumped to it by nextStepIndex.
func judgeJump(f facts, _ *rollouts.Step) Verdict {
	since := f.progress().LastUpdateTime
	if !jumpedByStatus(f) || since == nil {
		return passVerdict
	}
	end := since.Add(jumpGracePeriod)
	if f.until(end) == 0 {
		return passVerdict
	}
	return Verdict{Result: ResultWait, Until: end}
}

// jumpedByStatus reports whether a client has jumped to the current step by a write of nextStepIndex.
func jumpedByStatus(f facts) bool {
	return slices.ContainsFunc(f.status.Decisions, func(d rollouts.Decision) bool {
		return d.Verb == rollouts.VerbJump && d.Via == rollouts.ViaStatus && d.Outcome == ""
	})
}

// restartJump restarts the wait after a jump if the clock was set back.
func restartJump(d *draft, _ *rollouts.Step) {
	if jumpedByStatus(d.facts) {
		d.restartWaitIfAhead()
	}
}

// restartPause restarts the timed pause of a step if the clock was set back.
func restartPause(d *draft, step *rollouts.Step) {
	if hasTimedPause(step) && *step.Pause.Duration > 0 && !skipsGates(d.facts) {
		d.restartWaitIfAhead()
	}
}

// setPauseMessage sets the message of a paused step: the duration or the approval that it waits for, and the
// messages of its gates. It also announces the pause when the step enters it.
func setPauseMessage(d *draft, step *rollouts.Step) {
	setPlannedPauseMessage(d, step)
	if !d.stageUnchanged() {
		d.announce("StepPaused", stepSummary(d.facts, d.status.Message))
	}
	for _, message := range waitMessages(d.verdicts) {
		d.status.Message += "; " + message
	}
	warnUnrouted(d, step)
	addNotes(d, step)
}

// setPlannedPauseMessage sets the message about the pause in the plan of a step: its duration or the approval.
func setPlannedPauseMessage(d *draft, step *rollouts.Step) {
	if hasTimedPause(step) {
		d.setStepMessage(fmt.Sprintf("wait duration(%d seconds) to enter the next step", *step.Pause.Duration))
	} else {
		d.setStepMessage("you need manually confirm to enter the next step")
	}
}

// setApprovedMessage sets the message of an approved step that waits for gates.
func setApprovedMessage(d *draft, _ *rollouts.Step) {
	d.setStepMessage("the step was approved and waits for: " + strings.Join(waitMessages(d.verdicts), "; "))
}

// waitMessages returns the messages of the gates that do not pass.
func waitMessages(verdicts []Verdict) []string {
	var messages []string
	for _, v := range verdicts {
		if v.Result != ResultPass && v.Message != "" {
			messages = append(messages, v.Message)
		}
	}
	return messages
}
