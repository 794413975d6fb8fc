// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/judge"
)

// Checks at BeforeTraffic are measured at the head of StepTrafficRouting: pods of the new
// version are ready, and get no requests of the step yet. One that has passed is not looked
// at again in its step.

// applies reports whether a check is measured in a step.
func applies(c *rollouts.Check, at rollouts.CheckPoint, step int32) bool {
	before := c.At == rollouts.AtBeforeTraffic
	return before == (at == rollouts.AtBeforeTraffic) && (len(c.Steps) == 0 || slices.Contains(c.Steps, step))
}

// checksTraffic reports whether a step has checks before its traffic.
func checksTraffic(plan *rollouts.Release, step int32) bool {
	return plan.Analysis != nil && slices.ContainsFunc(plan.Analysis.Checks, func(c rollouts.Check) bool { return applies(&c, rollouts.AtBeforeTraffic, step) })
}

// beforeTraffic are the checks before the traffic of the step under way.
func beforeTraffic(f *facts) []checked {
	a, p := f.status.Analysis, f.progress()
	if a == nil || a.TrafficSince == nil || p.State != rollouts.StepTrafficRouting {
		return nil
	}
	var out []checked
	for _, m := range f.Measured {
		if applies(&m.Check, rollouts.AtBeforeTraffic, p.CurrentStepIndex) {
			out = append(out, checkedIn(f, m, p.CurrentStepIndex, a.TrafficSince.Time))
		}
	}
	return out
}

// beginTraffic notes that the checks before the traffic of a step begin.
func beginTraffic(d *draft, _ *rollouts.Step) {
	if !checksTraffic(d.release, d.progress().CurrentStepIndex) {
		return
	}
	beginAttempt(d)
	if a := d.status.Analysis; !d.stayed() || a.TrafficSince == nil || Ahead(a.TrafficSince, d.Now) {
		a.TrafficSince = stampAfterResults(a, d.Now)
	}
}

// trafficAllowed waits until the checks before the traffic of a step have passed, or a person
// has let it through.
func trafficAllowed(f *facts, _ *rollouts.Step) Verdict {
	var open []string
	var wake time.Duration
	for _, c := range trafficKeepers(f) {
		text := c.name
		if c.verdict.Is != judge.Running {
			text += " " + strings.ToLower(string(c.verdict.Is))
		}
		open = append(open, text+": "+c.verdict.Why)
		wake = sooner(wake, c.verdict.Wake)
	}
	return waitForChecks(f, open, wake)
}

// trafficKeepers are the checks that keep the traffic of the step under way. One that only
// reports is waited for, too: it has no other time.
func trafficKeepers(f *facts) []checked {
	return slices.DeleteFunc(beforeTraffic(f), func(c checked) bool {
		running := c.verdict.Is == judge.Running && (c.onFail != rollouts.OnFailReport || !c.rule.Gate) && !overridden(f)
		return !running && !awaitsPerson(f, &c)
	})
}

// sayBeforeTraffic says what the traffic of a step waits for.
func sayBeforeTraffic(d *draft, _ *rollouts.Step) {
	d.say("its traffic waits for its checks: " + strings.Join(waitingFor(d.verdicts), "; "))
}

// passTraffic keeps what the checks before the traffic have found.
func passTraffic(d *draft, _ *rollouts.Step) {
	if !checksTraffic(d.release, d.progress().CurrentStepIndex) {
		return
	}
	for _, c := range beforeTraffic(d.facts) {
		keepCheck(d, &c, false)
	}
	d.settle(rollouts.VerbPromote, rollouts.OutcomeApplied)
}

// TrafficHeld are the checks that keep the traffic of the step under way, by what is stored.
func TrafficHeld(r *rollouts.Rollout) []rollouts.CheckStatus {
	a, p := r.Status.Analysis, r.Status.Active()
	_, plan := r.Spec.Strategy.Active()
	if !checkingTraffic(r) || plan == nil || plan.Analysis == nil {
		return nil
	}
	var held []rollouts.CheckStatus
	for i := range plan.Analysis.Checks {
		c := &plan.Analysis.Checks[i]
		if stored := storedCheck(a, rollouts.CheckName(c)); applies(c, rollouts.AtBeforeTraffic, p.CurrentStepIndex) && holds(plan.Analysis, c, a.TrafficSince.Time, stored) {
			held = append(held, *stored)
		}
	}
	return held
}

// checkingTraffic reports whether the traffic of a step may wait for checks.
func checkingTraffic(r *rollouts.Rollout) bool {
	a := r.Status.Analysis
	return StateOf(r) == StateInStep && r.Status.Active().State == rollouts.StepTrafficRouting && a != nil && a.TrafficSince != nil && !a.Overridden
}

// holds reports whether a stored result of a check keeps the traffic of the step that began
// to be checked then.
func holds(a *rollouts.Analysis, c *rollouts.Check, since time.Time, stored *rollouts.CheckStatus) bool {
	if stored == nil || earlier(since, stored) {
		return false
	}
	reports := cmp.Or(c.OnFail, a.OnFail) == rollouts.OnFailReport
	switch stored.Result {
	case rollouts.CheckRunning:
		return !reports || !gated(c)
	case rollouts.CheckInconclusive:
		return !reports && onInconclusiveOf(a, c) != rollouts.OnInconclusivePass
	case rollouts.CheckFailed:
		return !reports
	default:
		return false
	}
}

// LetsTrafficThrough reports whether an approval lets the traffic of the step through: an
// inconclusive check keeps it or, with an override, any check.
func LetsTrafficThrough(r *rollouts.Rollout, any bool) bool {
	return slices.ContainsFunc(TrafficHeld(r), func(c rollouts.CheckStatus) bool { return any || c.Result == rollouts.CheckInconclusive })
}

// LetTrafficThrough has the next status go on without the checks that keep the traffic of its
// step and are inconclusive, or without any: they are not asked again in this step.
func LetTrafficThrough(r *rollouts.Rollout, next *rollouts.RolloutStatus, user string, any bool, now time.Time) {
	at := RoundUp(now)
	if a := r.Status.Analysis; a != nil && at.Before(a.TrafficSince) {
		at = *a.TrafficSince // which is rounded up, too: it is of this step
	}
	for _, held := range TrafficHeld(r) {
		if !any && held.Result != rollouts.CheckInconclusive {
			continue
		}
		c := storedCheck(next.Analysis, held.Name)
		c.Result, c.Time, c.Carry, c.FoldedTo = rollouts.CheckSkipped, &at, "", nil
		c.Why = rollouts.Clean("let through by "+user+"; it was "+strings.ToLower(string(held.Result))+": "+held.Why, maxWhy)
	}
}
