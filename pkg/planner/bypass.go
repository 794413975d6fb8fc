// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// A check is open in a step until it has passed there. A decision that goes past a check that
// is open or has failed must override the checks. The functions of this file find these checks
// by what is stored; package verb refuses the decisions.

// openCheck is a check that is open or has failed, and why.
type openCheck struct {
	name, why string
	at        rollouts.CheckPoint
	failed    bool
	// undecided is an inconclusive check. Any decision of a person is enough for it.
	undecided bool
}

const notMeasured = "not measured yet"

// openIn returns the checks that are open or have failed in a step of the release. There are
// none in a step that is over or approved, and none while the checks are overridden.
func openIn(r *rollouts.Rollout, step int32) []openCheck {
	a, p := r.Status.Analysis, r.Status.Active()
	_, plan := r.Spec.Strategy.Active()
	if p == nil || plan == nil || plan.Analysis == nil || plan.Step(step) == nil || step < p.CurrentStepIndex || a != nil && a.Overridden && judgesRelease(a, *p) {
		return nil
	}
	if step > p.CurrentStepIndex {
		return append(unmeasured(plan.Analysis, rollouts.AtBeforeTraffic, step), unmeasured(plan.Analysis, rollouts.AtStep, step)...)
	}
	switch p.State {
	case rollouts.StepReady, rollouts.StepCompleted:
		return nil
	case rollouts.StepMetricsAnalysis, rollouts.StepPaused:
		if a == nil || a.Step != step {
			return unmeasured(plan.Analysis, rollouts.AtStep, step)
		}
		return measuredOpen(a, plan.Analysis)
	case rollouts.StepTrafficRouting:
		return append(trafficOpen(r, plan.Analysis), unmeasured(plan.Analysis, rollouts.AtStep, step)...)
	default:
		return append(unmeasured(plan.Analysis, rollouts.AtBeforeTraffic, step), unmeasured(plan.Analysis, rollouts.AtStep, step)...)
	}
}

// deciding returns the checks of a plan that hold or end a release, podsHealthy with them.
func deciding(a *rollouts.Analysis) []rollouts.Check {
	all := slices.Clone(a.Checks)
	if !slices.ContainsFunc(all, func(c rollouts.Check) bool { return c.PodsHealthy != "" }) {
		all = append(all, rollouts.Check{PodsHealthy: rollouts.PodsHealthyOn})
	}
	return slices.DeleteFunc(all, func(c rollouts.Check) bool {
		return c.PodsHealthy == rollouts.PodsHealthyOff || cmp.Or(c.OnFail, a.OnFail) == rollouts.OnFailReport
	})
}

// unmeasured returns the checks of a step before any of them was measured.
func unmeasured(a *rollouts.Analysis, at rollouts.CheckPoint, step int32) []openCheck {
	var open []openCheck
	for _, c := range deciding(a) {
		if applies(&c, at, step) {
			open = append(open, openCheck{name: rollouts.CheckName(&c), why: notMeasured, at: at})
		}
	}
	return open
}

// measuredOpen returns the checks that are open in the step that is measured. A check that failed
// and is no longer in the plan keeps the step, as well.
func measuredOpen(a *rollouts.AnalysisStatus, plan *rollouts.Analysis) []openCheck {
	var open []openCheck
	for _, c := range unmeasured(plan, rollouts.AtStep, a.Step) {
		// The pods are judged whenever the new version has some.
		if storedCheck(a, c.name) == nil && c.name != podsHealthy {
			open = append(open, c)
		}
	}
	for i := range a.Checks {
		c := &a.Checks[i]
		passes := settled(c) || c.Result == rollouts.CheckInconclusive && passesUndecided(plan, c.Name)
		if !passes && onFailOf(plan, c.Name) != rollouts.OnFailReport {
			open = append(open, stillOpen(openCheck{name: c.Name, at: rollouts.AtStep}, c))
		}
	}
	return open
}

// settled reports whether a result lets the release go on.
func settled(c *rollouts.CheckStatus) bool {
	return c.Result == rollouts.CheckPassed || c.Result == rollouts.CheckSkipped
}

// stillOpen adds to a check what is stored of it.
func stillOpen(c openCheck, stored *rollouts.CheckStatus) openCheck {
	c.why, c.failed, c.undecided = stored.Why, stored.Result == rollouts.CheckFailed, stored.Result == rollouts.CheckInconclusive
	return c
}

// undecided reports whether a decision of a person is enough for a check.
func undecided(c openCheck) bool { return c.undecided }

// trafficOpen returns the checks that are open before the traffic of the step under way.
func trafficOpen(r *rollouts.Rollout, plan *rollouts.Analysis) []openCheck {
	a, p := r.Status.Analysis, r.Status.Active()
	if a == nil || a.TrafficSince == nil {
		return unmeasured(plan, rollouts.AtBeforeTraffic, p.CurrentStepIndex)
	}
	var open []openCheck
	for _, c := range unmeasured(plan, rollouts.AtBeforeTraffic, p.CurrentStepIndex) {
		stored := storedCheck(a, c.name)
		switch {
		case stored == nil, earlier(a.TrafficSince.Time, stored):
			open = append(open, c)
		case !settled(stored) && (stored.Result != rollouts.CheckInconclusive || !passesUndecided(plan, c.name)):
			open = append(open, stillOpen(c, stored))
		}
	}
	return open
}

// ChecksClosed says why an approval has to wait for the checks of the step under way: they are
// open or have failed. An approval of every step leaves open checks to hold the step, so it
// waits for failed ones only. It is empty if the approval has to wait for nothing.
func ChecksClosed(r *rollouts.Rollout, full bool) string {
	p := r.Status.Active()
	if p == nil {
		return ""
	}
	open := openIn(r, p.CurrentStepIndex)
	return sayOpen(slices.DeleteFunc(open, func(c openCheck) bool {
		switch p.State {
		case rollouts.StepTrafficRouting:
			return c.undecided || c.at != rollouts.AtBeforeTraffic || full && !c.failed
		case rollouts.StepMetricsAnalysis, rollouts.StepPaused:
			return c.undecided || full && !c.failed
		default:
			return true // no approval is waited for yet
		}
	}))
}

// ChecksAborted says which checks have aborted the release that is aborted now, by the decisions
// in its status and by earlier ones; empty if only people have aborted it since it was started or
// retried.
func ChecksAborted(r *rollouts.Rollout, earlier []rollouts.Decision) string {
	p, first := r.Status.Active(), int64(0)
	if n := len(r.Status.Releases); n > 0 {
		first = r.Status.Releases[n-1].FirstDecision
	}
	for _, d := range slices.Backward(append(slices.Clone(earlier), r.Status.Decisions...)) {
		switch {
		case d.ID < first || !d.IsAbout(p):
		case d.Verb == rollouts.VerbRetry:
			return ""
		case d.Verb == rollouts.VerbAbort && d.Via == rollouts.ViaAnalysis:
			return cmp.Or(d.Reason, "the audit log has the reason")
		}
	}
	return ""
}

// ChecksBefore says which checks are open or have failed in the steps between the current one
// and the step that a jump goes to; empty if there are none, as for every jump back.
func ChecksBefore(r *rollouts.Rollout, target int32) string {
	p := r.Status.Active()
	_, plan := r.Spec.Strategy.Active()
	if p == nil || plan == nil || plan.Step(target) == nil {
		return ""
	}
	var steps []string
	for step := max(p.CurrentStepIndex, 1); step < target; step++ {
		if open := slices.DeleteFunc(openIn(r, step), undecided); len(open) > 0 {
			steps = append(steps, fmt.Sprintf("step %d: %s", step, sayOpen(open)))
		}
	}
	return strings.Join(steps, "; ")
}

// sayOpen names checks, each with what it has found.
func sayOpen(open []openCheck) string {
	var measured, not []string
	for _, c := range open {
		if c.why == notMeasured {
			not = append(not, c.name)
		} else {
			measured = append(measured, c.name+": "+c.why)
		}
	}
	if len(not) > 0 {
		measured = append(measured, strings.Join(not, ", ")+" "+notMeasured)
	}
	return strings.Join(measured, "; ")
}

// ChecksDropped says which checks that are open or have failed an edited strategy would drop: in
// the step under way, or ahead of it. It drops them with their step, too, where the step is gone or
// lets more pods or requests reach the new version before its checks have passed. It is empty if
// the edit drops none, or no step is under way. The number of steps cannot change meanwhile.
func ChecksDropped(r *rollouts.Rollout, edited *rollouts.Strategy) string {
	_, plan := r.Spec.Strategy.Active()
	_, next := edited.Active()
	if plan == nil || next == nil || !slices.Contains([]State{StateInStep, StatePaused, StateRefused}, StateOf(r)) {
		return ""
	}
	current := r.Status.Active().CurrentStepIndex
	for i := range plan.Steps {
		step := int32(i + 1)
		open := openIn(r, step)
		if len(open) > 0 && !keepsStep(&plan.Steps[i], next.Step(step), step == current) {
			return fmt.Sprintf("step %d, or lets more of the new version in, and its checks have not passed: %s", step, sayOpen(open))
		}
		if dropped := slices.DeleteFunc(open, func(c openCheck) bool { return keepsCheck(plan.Analysis, next.Analysis, c, step) }); len(dropped) > 0 {
			return fmt.Sprintf("checks of step %d that have not passed: %s", step, sayOpen(dropped))
		}
	}
	return ""
}

// keepsStep reports whether a step of an edited plan exposes the new version as before. A step
// ahead may be made smaller. The one under way may not, because the release would go on at the
// next step that has the pods that are there.
func keepsStep(was, is *rollouts.Step, current bool) bool {
	switch {
	case is == nil, matches(was.Matches) != matches(is.Matches), modifier(was.RequestHeaderModifier) != modifier(is.RequestHeaderModifier):
		return false
	case size(was.Replicas) == size(is.Replicas) && text(was.Traffic) == text(is.Traffic):
		return true
	case current:
		return false
	}
	return fewer(was.Replicas, is.Replicas) && lessTraffic(was.Traffic, is.Traffic)
}

// fewer reports whether a size is at most as large as it was. A number and a share of the pods
// cannot be compared.
func fewer(was, is *intstr.IntOrString) bool {
	if was == nil || is == nil || was.Type != is.Type {
		return size(was) == size(is)
	}
	if was.Type == intstr.Int {
		return is.IntVal <= was.IntVal
	}
	return lessTraffic(&was.StrVal, &is.StrVal)
}

// lessTraffic reports whether a share is at most as large as it was.
func lessTraffic(was, is *string) bool {
	if was == nil || is == nil {
		return was == is
	}
	before, errBefore := strconv.ParseFloat(strings.TrimSuffix(*was, "%"), 64)
	after, errAfter := strconv.ParseFloat(strings.TrimSuffix(*is, "%"), 64)
	return *was == *is || errBefore == nil && errAfter == nil && after <= before
}

// keepsCheck reports whether an edited analysis has a check of that name that still decides about
// the step. A check that passes where it is undecided does not decide as before. A check that is
// edited otherwise is judged again, and one that has failed stays failed.
func keepsCheck(was, is *rollouts.Analysis, open openCheck, step int32) bool {
	if is == nil {
		return false
	}
	kept := slices.ContainsFunc(deciding(is), func(c rollouts.Check) bool {
		return rollouts.CheckName(&c) == open.name && applies(&c, open.at, step)
	})
	return kept && (passesUndecided(was, open.name) || !passesUndecided(is, open.name))
}

// passesUndecided reports whether a check passes where it is inconclusive.
func passesUndecided(a *rollouts.Analysis, name string) bool {
	return slices.ContainsFunc(a.Checks, func(c rollouts.Check) bool {
		return rollouts.CheckName(&c) == name && unclearOf(a, &c) == rollouts.OnInconclusivePass
	})
}
