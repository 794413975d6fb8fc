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

// Checks at the point BeforeTraffic are measured at the start of StepTrafficRouting. At this time the new pods
// of the step are ready, and routers do not send the requests of the step to them yet. A check that has passed
// is not measured again in the same step.

// checkApplies reports whether a check is measured at a point of a step.
func checkApplies(c *rollouts.Check, at rollouts.CheckPoint, step int32) bool {
	isBeforeTraffic := c.At == rollouts.AtBeforeTraffic
	return isBeforeTraffic == (at == rollouts.AtBeforeTraffic) && (len(c.Steps) == 0 || slices.Contains(c.Steps, step))
}

// hasTrafficChecks reports whether a step has checks at the point BeforeTraffic.
func hasTrafficChecks(plan *rollouts.Release, step int32) bool {
	return plan.Analysis != nil && slices.ContainsFunc(plan.Analysis.Checks, func(c rollouts.Check) bool { return checkApplies(&c, rollouts.AtBeforeTraffic, step) })
}

// checksBeforeTraffic returns the checks of the current step at the point BeforeTraffic, with their verdicts.
func checksBeforeTraffic(f facts) []judgedCheck {
	a, p := f.status.Analysis, f.progress()
	if a == nil || a.TrafficSince == nil || p.State != rollouts.StepTrafficRouting {
		return nil
	}
	var out []judgedCheck
	for _, m := range f.Measured {
		if checkApplies(&m.Check, rollouts.AtBeforeTraffic, p.CurrentStepIndex) {
			out = append(out, judgeCheckInStep(f, m, p.CurrentStepIndex, a.TrafficSince.Time))
		}
	}
	return out
}

// startTrafficChecks records the time from which the checks before the traffic of the step are measured.
func startTrafficChecks(d *draft, _ *rollouts.Step) {
	if !hasTrafficChecks(d.plan, d.progress().CurrentStepIndex) {
		return
	}
	beginAnalysis(d)
	if a := d.status.Analysis; !d.stageUnchanged() || a.TrafficSince == nil || IsAhead(a.TrafficSince, d.Now) {
		a.TrafficSince = stampAfterResults(a, d.Now)
	}
}

// judgeTrafficChecks makes a step wait with its traffic until the checks at the point BeforeTraffic have passed or
// a person has approved the traffic.
func judgeTrafficChecks(f facts, _ *rollouts.Step) Verdict {
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

// checksHoldingTraffic returns the checks for which the traffic of the current step waits, with their current
// verdicts. The traffic also waits for a running check that only reports, because the check cannot be measured
// later.
func checksHoldingTraffic(f facts) []judgedCheck {
	return slices.DeleteFunc(checksBeforeTraffic(f), func(c judgedCheck) bool {
		running := c.verdict.Is == judge.Running && (c.onFail != rollouts.OnFailReport || !c.rule.Gate) && !checksOverridden(f)
		return !running && !awaitsDecision(f, &c)
	})
}

// setTrafficCheckMessage sets the message of a step whose traffic waits for checks.
func setTrafficCheckMessage(d *draft, _ *rollouts.Step) {
	d.setStepMessage("its traffic waits for its checks: " + strings.Join(waitMessages(d.verdicts), "; "))
}

// storeTrafficChecks stores the results of the checks at the point BeforeTraffic when the stage ends.
func storeTrafficChecks(d *draft, _ *rollouts.Step) {
	if !hasTrafficChecks(d.plan, d.progress().CurrentStepIndex) {
		return
	}
	for _, c := range checksBeforeTraffic(d.facts) {
		storeCheck(d, &c, false)
	}
	for i := range d.status.Decisions {
		// An approval of all remaining steps is applied when the release leaves this step.
		if decision := &d.status.Decisions[i]; decision.Verb == rollouts.VerbPromote && !decision.Full && decision.Outcome == "" {
			decision.Outcome = rollouts.OutcomeApplied
		}
	}
}

// StoredChecksHoldingTraffic returns the stored results of the checks for which the traffic of the current step
// waits.
func StoredChecksHoldingTraffic(r *rollouts.Rollout) []rollouts.CheckStatus {
	a, p := r.Status.Analysis, r.Status.Active()
	_, plan := r.Spec.Strategy.Active()
	if !mayWaitForTrafficChecks(r) || plan == nil || plan.Analysis == nil {
		return nil
	}
	var holding []rollouts.CheckStatus
	for i := range plan.Analysis.Checks {
		c := &plan.Analysis.Checks[i]
		if stored := storedCheck(a, rollouts.CheckName(c)); checkApplies(c, rollouts.AtBeforeTraffic, p.CurrentStepIndex) && storedResultHoldsTraffic(plan.Analysis, c, a.TrafficSince.Time, stored) {
			holding = append(holding, *stored)
		}
	}
	return holding
}

// mayWaitForTrafficChecks reports whether the current step is at the stage in which its traffic waits for checks.
func mayWaitForTrafficChecks(r *rollouts.Rollout) bool {
	a := r.Status.Analysis
	return StateOf(r) == StateInStep && r.Status.Active().State == rollouts.StepTrafficRouting && a != nil && a.TrafficSince != nil && !a.Overridden
}

// storedResultHoldsTraffic reports whether the traffic of the current step waits because of a stored result. since
// is when the checks before the traffic of this step began; an older result belongs to an earlier step.
func storedResultHoldsTraffic(a *rollouts.Analysis, c *rollouts.Check, since time.Time, stored *rollouts.CheckStatus) bool {
	if stored == nil || isFromEarlierStep(since, stored) {
		return false
	}
	onlyReports := cmp.Or(c.OnFail, a.OnFail) == rollouts.OnFailReport
	switch stored.Result {
	case rollouts.CheckRunning:
		return !onlyReports || !isGateCheck(c)
	case rollouts.CheckInconclusive:
		return !onlyReports && onInconclusiveOf(a, c) != rollouts.OnInconclusivePass
	case rollouts.CheckFailed:
		return !onlyReports
	default:
		return false
	}
}

// ApprovalSkipsTrafficChecks reports whether an approval skips checks for which the traffic of the current step
// waits. An approval skips inconclusive checks; an approval with override skips all checks.
func ApprovalSkipsTrafficChecks(r *rollouts.Rollout, override bool) bool {
	return slices.ContainsFunc(StoredChecksHoldingTraffic(r), func(c rollouts.CheckStatus) bool { return override || c.Result == rollouts.CheckInconclusive })
}

// SkipTrafficChecks sets the result of the checks for which the traffic of the current step waits to Skipped in the
// next status: of inconclusive checks or, with override, of all of them. They are not measured again in this
// step.
func SkipTrafficChecks(r *rollouts.Rollout, next *rollouts.RolloutStatus, user string, override bool, now time.Time) {
	at := RoundUp(now)
	if a := r.Status.Analysis; a != nil && at.Before(a.TrafficSince) {
		at = *a.TrafficSince // a result with an earlier time would count as a result of an earlier step
	}
	for _, holding := range StoredChecksHoldingTraffic(r) {
		if !override && holding.Result != rollouts.CheckInconclusive {
			continue
		}
		c := storedCheck(next.Analysis, holding.Name)
		c.Result, c.Time, c.Carry, c.FoldedTo = rollouts.CheckSkipped, &at, "", nil
		c.Why = rollouts.Clean("let through by "+user+"; it was "+strings.ToLower(string(holding.Result))+": "+holding.Why, maxWhy)
	}
}
