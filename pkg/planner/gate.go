// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Result is what a gate answers.
type Result string

// The results. A step goes on when every gate that is judged passes.
const (
	ResultPass Result = "Pass"
	ResultWait Result = "Wait"
)

// Verdict is what a gate says about the step under way.
type Verdict struct {
	Gate   string
	Result Result
	// Until is when to judge again, also for a gate that passes until then; zero where
	// something has to change first.
	Until time.Time
	// Message says what is waited for; the Rollout shows it. It is empty where the step says
	// that already.
	Message string
}

// String is one line for a person.
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

// Gate is a row of what a step has to pass.
type Gate struct {
	Name  string
	Judge func(*facts, *rollouts.Step) Verdict
}

// A new policy is one row in one of these, one fact, and one story.

// gates are what a step has to pass before the next one. An approval opens all of them: the
// verb promote sets StepReady.
var gates = []Gate{
	{"approval", judgeApproval},
	{"pause", judgePause},
	{"traffic", judgeTraffic},
	{"checks", judgeUndecidedChecks},
	{"pods", judgePodCrashes},
}

// approvedGates are what an approved step has to pass, too. No policy of today is stronger
// than an approval.
var approvedGates []Gate

var passVerdict = Verdict{Result: ResultPass}

// judgeApproval waits for a person, where the step has no duration.
func judgeApproval(f *facts, step *rollouts.Step) Verdict {
	if hasTimedPause(step) || skipsGates(f, step) {
		return passVerdict
	}
	return Verdict{Result: ResultWait}
}

// judgePause waits for the duration of the step.
func judgePause(f *facts, step *rollouts.Step) Verdict {
	since := f.progress().LastUpdateTime
	if !hasTimedPause(step) || *step.Pause.Duration <= 0 || skipsGates(f, step) || since == nil {
		return passVerdict
	}
	at := since.Add(time.Duration(*step.Pause.Duration) * time.Second)
	if f.until(at) == 0 {
		return passVerdict
	}
	return Verdict{Result: ResultWait, Until: at}
}

// judgeTraffic waits while the requests of the step are not routed: its duration
// alone shows nothing then.
func judgeTraffic(f *facts, step *rollouts.Step) Verdict {
	why := routeLostReason(f, step)
	if why == "" || skipsGates(f, step) {
		return passVerdict
	}
	return Verdict{Result: ResultWait, Message: lostPrefix + why}
}

// allPods is the one share that means every pod, however many there are.
var allPods = intstr.FromString("100%")

// skipsGates reports whether a step passes without approval or pause: everything was promoted,
// or it is the last one and exactly "100%", since nothing is left to protect.
func skipsGates(f *facts, step *rollouts.Step) bool {
	return f.progress().FullyPromoted || passesWithoutApproval(f.style, int(f.progress().CurrentStepIndex) == len(f.release.Steps), step)
}

func passesWithoutApproval(style rollouts.Style, last bool, step *rollouts.Step) bool {
	return last && style != rollouts.StyleBlueGreen && step.Replicas != nil && *step.Replicas == allPods
}

// PassesWithoutApproval reports whether a step of a plan passes without approval or pause.
func PassesWithoutApproval(style rollouts.Style, release *rollouts.Release, index int32) bool {
	step := release.Step(index)
	return step != nil && passesWithoutApproval(style, int(index) == len(release.Steps), step)
}

// jumpGracePeriod is how long a jump by nextStepIndex stays out of StepPaused: clients
// of OpenKruise look there for the jump, and give up soon when they miss it.
const jumpGracePeriod = 3 * time.Second

// judgeJump waits for that.
func judgeJump(f *facts, _ *rollouts.Step) Verdict {
	since := f.progress().LastUpdateTime
	if !jumpedByStatus(f) || since == nil {
		return passVerdict
	}
	at := since.Add(jumpGracePeriod)
	if f.until(at) == 0 {
		return passVerdict
	}
	return Verdict{Result: ResultWait, Until: at}
}

func jumpedByStatus(f *facts) bool {
	for _, d := range f.status.Decisions {
		if d.Verb == rollouts.VerbJump && d.Via == rollouts.ViaStatus && d.Outcome == "" {
			return true
		}
	}
	return false
}

// restartJump begins the wait of a jump again where the clock was set back.
func restartJump(d *draft, _ *rollouts.Step) {
	if jumpedByStatus(d.facts) {
		d.restartWaitIfAhead()
	}
}

// restartPause begins the pause of a step again where the clock was set back.
func restartPause(d *draft, step *rollouts.Step) {
	if hasTimedPause(step) && *step.Pause.Duration > 0 && !skipsGates(d.facts, step) {
		d.restartWaitIfAhead()
	}
}

// setPauseMessage says what a step waits for: the duration or a promotion, and what the gates say.
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

// setPlannedPauseMessage says what a step waits for by its plan.
func setPlannedPauseMessage(d *draft, step *rollouts.Step) {
	if hasTimedPause(step) {
		d.setStepMessage(fmt.Sprintf("wait duration(%d seconds) to enter the next step", *step.Pause.Duration))
	} else {
		d.setStepMessage("you need manually confirm to enter the next step")
	}
}

// setApprovedMessage says what an approved step waits for.
func setApprovedMessage(d *draft, _ *rollouts.Step) {
	d.setStepMessage("it was approved, and waits: " + strings.Join(waitMessages(d.verdicts), "; "))
}

// waitMessages are the messages of the gates that do not pass.
func waitMessages(verdicts []Verdict) []string {
	var out []string
	for _, v := range verdicts {
		if v.Result != ResultPass && v.Message != "" {
			out = append(out, v.Message)
		}
	}
	return out
}
