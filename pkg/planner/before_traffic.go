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

// checkApplies reports whether a check is measured in a step.
func checkApplies(c *rollouts.Check, at rollouts.CheckPoint, step int32) bool {
	before := c.At == rollouts.AtBeforeTraffic
	return before == (at == rollouts.AtBeforeTraffic) && (len(c.Steps) == 0 || slices.Contains(c.Steps, step))
}

// hasTrafficChecks reports whether a step has checks before its traffic.
func hasTrafficChecks(plan *rollouts.Release, step int32) bool {
	return plan.Analysis != nil && slices.ContainsFunc(plan.Analysis.Checks, func(c rollouts.Check) bool { return checkApplies(&c, rollouts.AtBeforeTraffic, step) })
}

// checksBeforeTraffic are the checks before the traffic of the step under way.
func checksBeforeTraffic(f *facts) []checked {
	a, p := f.status.Analysis, f.progress()
	if a == nil || a.TrafficSince == nil || p.State != rollouts.StepTrafficRouting {
		return nil
	}
	var out []checked
	for _, m := range f.Measured {
		if checkApplies(&m.Check, rollouts.AtBeforeTraffic, p.CurrentStepIndex) {
			out = append(out, checkedIn(f, m, p.CurrentStepIndex, a.TrafficSince.Time))
		}
	}
	return out
}

// startTrafficChecks notes that the checks before the traffic of a step begin.
func startTrafficChecks(d *draft, _ *rollouts.Step) {
	if !hasTrafficChecks(d.release, d.progress().CurrentStepIndex) {
		return
	}
	beginAnalysis(d)
	if a := d.status.Analysis; !d.stageUnchanged() || a.TrafficSince == nil || IsAhead(a.TrafficSince, d.Now) {
		a.TrafficSince = stampAfterResults(a, d.Now)
	}
}

// judgeTrafficChecks waits until the checks before the traffic of a step have passed, or a person
// has let it through.
func judgeTrafficChecks(f *facts, _ *rollouts.Step) Verdict {
	var open []string
	var wake time.Duration
	for _, c := range checksHoldingTraffic(f) {
		text := c.name
		if c.verdict.Is != judge.Running {
			text += " " + strings.ToLower(string(c.verdict.Is))
		}
		open = append(open, text+": "+c.verdict.Why)
		wake = shorterWait(wake, c.verdict.Wake)
	}
	return openChecksVerdict(f, open, wake)
}

// checksHoldingTraffic are the checks that keep the traffic of the step under way. One that only
// reports is waited for, too: it has no other time.
func checksHoldingTraffic(f *facts) []checked {
	return slices.DeleteFunc(checksBeforeTraffic(f), func(c checked) bool {
		running := c.verdict.Is == judge.Running && (c.onFail != rollouts.OnFailReport || !c.rule.Gate) && !checksOverridden(f)
		return !running && !awaitsDecision(f, &c)
	})
}

// setTrafficCheckMessage says what the traffic of a step waits for.
func setTrafficCheckMessage(d *draft, _ *rollouts.Step) {
	d.setStepMessage("its traffic waits for its checks: " + strings.Join(waitMessages(d.verdicts), "; "))
}

// storeTrafficChecks keeps what the checks before the traffic have found.
func storeTrafficChecks(d *draft, _ *rollouts.Step) {
	if !hasTrafficChecks(d.release, d.progress().CurrentStepIndex) {
		return
	}
	for _, c := range checksBeforeTraffic(d.facts) {
		storeCheck(d, &c, false)
	}
	d.setOutcome(rollouts.VerbPromote, rollouts.OutcomeApplied)
}

// StoredChecksHoldingTraffic are the checks that keep the traffic of the step under way, by what is stored.
func StoredChecksHoldingTraffic(r *rollouts.Rollout) []rollouts.CheckStatus {
	a, p := r.Status.Analysis, r.Status.Active()
	_, plan := r.Spec.Strategy.Active()
	if !mayWaitForTrafficChecks(r) || plan == nil || plan.Analysis == nil {
		return nil
	}
	var held []rollouts.CheckStatus
	for i := range plan.Analysis.Checks {
		c := &plan.Analysis.Checks[i]
		if stored := storedCheck(a, rollouts.CheckName(c)); checkApplies(c, rollouts.AtBeforeTraffic, p.CurrentStepIndex) && storedResultHoldsTraffic(plan.Analysis, c, a.TrafficSince.Time, stored) {
			held = append(held, *stored)
		}
	}
	return held
}

// mayWaitForTrafficChecks reports whether the traffic of a step may wait for checks.
func mayWaitForTrafficChecks(r *rollouts.Rollout) bool {
	a := r.Status.Analysis
	return StateOf(r) == StateInStep && r.Status.Active().State == rollouts.StepTrafficRouting && a != nil && a.TrafficSince != nil && !a.Overridden
}

// storedResultHoldsTraffic reports whether a stored result of a check keeps the traffic of the step that began
// to be checked then.
func storedResultHoldsTraffic(a *rollouts.Analysis, c *rollouts.Check, since time.Time, stored *rollouts.CheckStatus) bool {
	if stored == nil || isFromEarlierStep(since, stored) {
		return false
	}
	reports := cmp.Or(c.OnFail, a.OnFail) == rollouts.OnFailReport
	switch stored.Result {
	case rollouts.CheckRunning:
		return !reports || !isGateCheck(c)
	case rollouts.CheckInconclusive:
		return !reports && onInconclusiveOf(a, c) != rollouts.OnInconclusivePass
	case rollouts.CheckFailed:
		return !reports
	default:
		return false
	}
}

// ApprovalSkipsTrafficChecks reports whether an approval lets the traffic of the step through: an
// inconclusive check keeps it or, with an override, any check.
func ApprovalSkipsTrafficChecks(r *rollouts.Rollout, any bool) bool {
	return slices.ContainsFunc(StoredChecksHoldingTraffic(r), func(c rollouts.CheckStatus) bool { return any || c.Result == rollouts.CheckInconclusive })
}

// SkipTrafficChecks has the next status go on without the checks that keep the traffic of its
// step and are inconclusive, or without any: they are not asked again in this step.
func SkipTrafficChecks(r *rollouts.Rollout, next *rollouts.RolloutStatus, user string, any bool, now time.Time) {
	at := RoundUp(now)
	if a := r.Status.Analysis; a != nil && at.Before(a.TrafficSince) {
		at = *a.TrafficSince // which is rounded up, too: it is of this step
	}
	for _, held := range StoredChecksHoldingTraffic(r) {
		if !any && held.Result != rollouts.CheckInconclusive {
			continue
		}
		c := storedCheck(next.Analysis, held.Name)
		c.Result, c.Time, c.Carry, c.FoldedTo = rollouts.CheckSkipped, &at, "", nil
		c.Why = rollouts.Clean("let through by "+user+"; it was "+strings.ToLower(string(held.Result))+": "+held.Why, maxWhy)
	}
}
