// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// One rule protects the checks of a plan. A check is open in a step until it has passed there. A failed
// check stays failed for its attempt. A release leaves no step in which a check is open or has failed,
// unless a decision on record overrides the checks.
//
// OpenChecks applies the rule to the stored status. It is called for verbs, decisions of older clients,
// edits of the Rollout and writes of the status. The gates of the planner hold a step by the same checks,
// as they are measured now.

// OpenCheck is a check that has not passed in a step of the release.
type OpenCheck struct {
	rollouts.OverriddenCheck
	// At is the point of its step at which the check is measured.
	At rollouts.CheckPoint
	// Why is the message of the check.
	Why string
}

// afterLastStep is a target after the last step of every plan.
const afterLastStep = math.MaxInt32

// OpenChecks returns the checks that have not passed in the current step or in a later step before
// target: the release would skip these checks if it continued at target. No check is open in an
// approved step, in a step that began before the plan had checks, or while the checks are
// overridden.
func OpenChecks(r *rollouts.Rollout, target int32) []OpenCheck {
	a, p := r.Status.Analysis, r.Status.Active()
	_, plan := r.Spec.Strategy.Active()
	if p == nil || plan == nil || plan.Analysis == nil {
		return nil
	}
	if a != nil && !analysisMatchesRelease(a, *p) {
		a = nil
	}
	if a != nil && a.Overridden {
		return nil
	}
	var open []OpenCheck
	for step := max(p.CurrentStepIndex, 1); step < target && plan.Step(step) != nil; step++ {
		for _, at := range []rollouts.CheckPoint{rollouts.AtBeforeTraffic, rollouts.AtStep} {
			if step == p.CurrentStepIndex && hasPassedCheckPoint(at, a, p) {
				continue
			}
			for _, c := range decidingChecks(plan.Analysis) {
				if checkApplies(&c, at, step) {
					open = appendOpen(open, plan.Analysis, &c, at, step, a, p)
				}
			}
		}
	}
	return open
}

// hasPassedCheckPoint reports whether the current step has left the point at which these checks are
// measured, or began without checks and so measures none.
func hasPassedCheckPoint(at rollouts.CheckPoint, a *rollouts.AnalysisStatus, p *rollouts.Progress) bool {
	switch p.State {
	case rollouts.StepReady, rollouts.StepCompleted:
		return true
	case rollouts.StepMetricsAnalysis, rollouts.StepPaused:
		beganWithoutChecks := a == nil || a.Step != p.CurrentStepIndex
		return at == rollouts.AtBeforeTraffic || beganWithoutChecks
	default:
		return false
	}
}

// decidingChecks returns the checks of a plan that can hold or end a release. They include podsHealthy in all
// steps, under this name, unless the plan switches it off.
func decidingChecks(a *rollouts.Analysis) []rollouts.Check {
	pods := rollouts.Check{PodsHealthy: rollouts.PodsHealthyOn}
	var all []rollouts.Check
	for _, c := range a.Checks {
		if c.PodsHealthy != "" {
			pods.PodsHealthy, pods.OnFail = c.PodsHealthy, c.OnFail
		} else {
			all = append(all, c)
		}
	}
	return slices.DeleteFunc(append(all, pods), func(c rollouts.Check) bool {
		return c.PodsHealthy == rollouts.PodsHealthyOff || cmp.Or(c.OnFail, a.OnFail) == rollouts.OnFailReport
	})
}

// StepChecks returns the names of the checks in a plan that a step must pass. The check podsHealthy, which every
// analysis has, is not among them.
func StepChecks(plan *rollouts.Release, step int32) []string {
	if plan.Analysis == nil {
		return nil
	}
	var names []string
	for _, c := range decidingChecks(plan.Analysis) {
		if c.PodsHealthy == "" && (len(c.Steps) == 0 || slices.Contains(c.Steps, step)) {
			names = append(names, rollouts.CheckName(&c))
		}
	}
	return names
}

// appendOpen appends a check that applies to a step, unless the check has passed there.
func appendOpen(open []OpenCheck, plan *rollouts.Analysis, c *rollouts.Check, at rollouts.CheckPoint, step int32, a *rollouts.AnalysisStatus, p *rollouts.Progress) []OpenCheck {
	check := OpenCheck{OverriddenCheck: rollouts.OverriddenCheck{Name: rollouts.CheckName(c), Step: step}, At: at}
	stored := storedCheck(a, check.Name)
	switch {
	case stored == nil && check.Name == podsHealthy && isMeasuring(at, step, a, p):
		return open // the new version has no pods, so there is nothing to judge
	case stored == nil:
		return append(open, check)
	case stored.Result == rollouts.CheckFailed:
	case !isMeasuring(at, step, a, p), at == rollouts.AtBeforeTraffic && isFromEarlierStep(a.TrafficSince.Time, stored):
		return append(open, check) // the stored result is about an earlier step
	case stored.Result == rollouts.CheckPassed, stored.Result == rollouts.CheckSkipped,
		stored.Result == rollouts.CheckInconclusive && onInconclusiveOf(plan, c) == rollouts.OnInconclusivePass:
		return open
	}
	check.Result, check.Why = stored.Result, stored.Why
	return append(open, check)
}

// isMeasuring reports whether the checks at this point of the step are measured now.
func isMeasuring(at rollouts.CheckPoint, step int32, a *rollouts.AnalysisStatus, p *rollouts.Progress) bool {
	if step != p.CurrentStepIndex || a == nil {
		return false
	}
	if at == rollouts.AtBeforeTraffic {
		return p.State == rollouts.StepTrafficRouting && a.TrafficSince != nil
	}
	return p.State == rollouts.StepMetricsAnalysis || p.State == rollouts.StepPaused
}

// NeedOverride returns the open checks that a release passes only with an override. An inconclusive check
// waits for a person, so each decision of a person is enough.
func NeedOverride(open []OpenCheck) []OpenCheck {
	return slices.DeleteFunc(slices.Clone(open), func(c OpenCheck) bool { return c.Result == rollouts.CheckInconclusive })
}

// OpenForApproval returns the open checks that an approval of the current step skips. An
// approval before the traffic of a step only lets the traffic through, and an approval of every step
// leaves checks that are not decided yet to hold their steps.
func OpenForApproval(r *rollouts.Rollout, full bool) []OpenCheck {
	p := r.Status.Active()
	if p == nil {
		return nil
	}
	return slices.DeleteFunc(OpenChecks(r, p.CurrentStepIndex+1), func(c OpenCheck) bool {
		switch p.State {
		case rollouts.StepTrafficRouting:
			return c.At != rollouts.AtBeforeTraffic || full && c.Result != rollouts.CheckFailed
		case rollouts.StepMetricsAnalysis, rollouts.StepPaused:
			return full && c.Result != rollouts.CheckFailed
		default:
			return true // the step does not wait for an approval yet
		}
	})
}

// OpenForRetry returns all checks of the plan: retry with an override starts an attempt in which they only
// report.
func OpenForRetry(r *rollouts.Rollout) []OpenCheck {
	next := r.DeepCopy()
	next.Status.Analysis = nil
	p := next.Status.Active()
	p.CurrentStepIndex, p.State = 1, rollouts.BeforeStepUpgrade
	return OpenChecks(next, afterLastStep)
}

// OpenToTheEnd returns the checks that have not passed in the current step or in any later step.
func OpenToTheEnd(r *rollouts.Rollout) []OpenCheck { return OpenChecks(r, afterLastStep) }

// OverrideFrom returns the first step to which a jump needs an override, because it skips an open
// check; zero if there is no such step. Jumps to later steps then need an override, too.
func OverrideFrom(r *rollouts.Rollout) int32 {
	open := NeedOverride(OpenToTheEnd(r))
	_, plan := r.Spec.Strategy.Active()
	if len(open) == 0 || plan.Step(open[0].Step+1) == nil {
		return 0
	}
	return open[0].Step + 1
}

// IsUnderWay reports whether a release is in its steps, running or paused.
func IsUnderWay(r *rollouts.Rollout) bool {
	return r.Status.Phase == rollouts.PhaseProgressing &&
		slices.Contains([]rollouts.Activity{rollouts.ActivityInRolling, rollouts.ActivityPaused}, r.Status.Activity())
}

// DroppedByEdit returns the open checks of the current release that an edit of the Rollout would
// drop, and what the edit changes for that. An edit drops checks if it removes them, renames them or
// lets them decide less, if it changes which pods and requests a step gives the new version, and if
// it disables the Rollout, since all pods get the new version then. Before step 1 has begun, and
// after an abort, no edit drops checks: they judge an attempt by the plan that it starts with.
func DroppedByEdit(r *rollouts.Rollout, edited *rollouts.RolloutSpec) (change string, dropped []OpenCheck) {
	open := OpenToTheEnd(r)
	_, plan := r.Spec.Strategy.Active()
	_, next := edited.Strategy.Active()
	if !IsUnderWay(r) || len(open) == 0 || next == nil {
		return "", nil
	}
	if edited.Disabled && !r.Spec.Disabled {
		return "disables the Rollout, which releases the new version to all pods", open
	}
	if PlanHash(plan) != PlanHash(next) {
		for i := range plan.Steps {
			if step := next.Step(int32(i + 1)); step == nil || stepText(*step) != stepText(plan.Steps[i]) {
				return fmt.Sprintf("changes pods or requests of step %d", i+1), open
			}
		}
		return "changes pods or requests of the steps", open
	}
	dropped = slices.DeleteFunc(open, func(c OpenCheck) bool { return decidesAsBefore(plan.Analysis, next.Analysis, c) })
	return "removes checks, or lets them decide less", dropped
}

// decidesAsBefore reports whether an edited analysis has a check of that name that decides about the
// step as before. A check that passes while it is inconclusive decides less, and so does a check that no
// longer aborts the release then, and a gate, which never fails. A check with another query or objective is
// measured again, and its status says when it was changed.
func decidesAsBefore(was, is *rollouts.Analysis, open OpenCheck) bool {
	if is == nil {
		return false
	}
	find := func(a *rollouts.Analysis) *rollouts.Check {
		all := decidingChecks(a)
		if i := slices.IndexFunc(all, func(c rollouts.Check) bool {
			return rollouts.CheckName(&c) == open.Name && checkApplies(&c, open.At, open.Step)
		}); i >= 0 {
			return &all[i]
		}
		return nil
	}
	before, after := find(was), find(is)
	if after == nil || isGateCheck(after) && !isGateCheck(before) {
		return false
	}
	switch wasUndecided, isUndecided := onInconclusiveOf(was, before), onInconclusiveOf(is, after); wasUndecided {
	case rollouts.OnInconclusiveAbort:
		return isUndecided == rollouts.OnInconclusiveAbort
	case rollouts.OnInconclusivePass:
		return true
	default:
		return isUndecided != rollouts.OnInconclusivePass
	}
}

// DescribeOpenChecks names open checks with their results, by step. Consecutive steps with equal texts
// are combined.
func DescribeOpenChecks(open []OpenCheck) string {
	type row struct {
		from, to int32
		text     string
	}
	var rows []row
	said := map[string]bool{}
	for len(open) > 0 {
		step, n := open[0].Step, 1
		for n < len(open) && open[n].Step == step {
			n++
		}
		text := describeResults(open[:n], said)
		if last := len(rows) - 1; last >= 0 && rows[last].text == text {
			rows[last].to = step
		} else {
			rows = append(rows, row{step, step, text})
		}
		open = open[n:]
	}
	var texts []string
	for _, r := range rows {
		steps := fmt.Sprintf("step %d", r.from)
		if r.to > r.from {
			steps = fmt.Sprintf("steps %d to %d", r.from, r.to)
		}
		texts = append(texts, steps+": "+r.text)
	}
	return strings.Join(texts, "; ")
}

// DescribeResults names the open checks of one step with their results.
func DescribeResults(open []OpenCheck) string { return describeResults(open, map[string]bool{}) }

// results describe the results of open checks.
var results = map[rollouts.CheckResult]string{
	rollouts.CheckFailed: "failed", rollouts.CheckRunning: "is not decided yet", rollouts.CheckInconclusive: "is inconclusive",
}

// describeResults names open checks with their results. The set said has the checks whose message was
// given before, because a failed check is open in all later steps, too.
func describeResults(open []OpenCheck, said map[string]bool) string {
	var texts, unmeasured []string
	for _, c := range open {
		switch {
		case c.Result == "":
			unmeasured = append(unmeasured, c.Name)
		case said[c.Name]:
			texts = append(texts, c.Name+" "+results[c.Result])
		default:
			said[c.Name] = true
			texts = append(texts, fmt.Sprintf("%s %s: %s", c.Name, results[c.Result], c.Why))
		}
	}
	if len(unmeasured) > 0 {
		texts = append(texts, strings.Join(unmeasured, ", ")+" not measured yet")
	}
	return strings.Join(texts, "; ")
}
