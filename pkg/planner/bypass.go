// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
}

const notMeasured = "not measured yet"

// openIn returns the checks that are open or have failed in a step of the release. There are
// none in a step that is over or approved, and none while the checks are overridden. An
// inconclusive check waits for a person, and any decision of a person is enough for it.
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
	for _, c := range a.Checks {
		failed := c.Result == rollouts.CheckFailed
		if (failed || c.Result == rollouts.CheckRunning) && onFailOf(plan, c.Name) != rollouts.OnFailReport {
			open = append(open, openCheck{name: c.Name, why: c.Why, at: rollouts.AtStep, failed: failed})
		}
	}
	return open
}

// trafficOpen returns the checks that are open before the traffic of the step under way.
func trafficOpen(r *rollouts.Rollout, plan *rollouts.Analysis) []openCheck {
	a, p := r.Status.Analysis, r.Status.Active()
	if a == nil || a.TrafficSince == nil {
		return unmeasured(plan, rollouts.AtBeforeTraffic, p.CurrentStepIndex)
	}
	var open []openCheck
	for _, c := range unmeasured(plan, rollouts.AtBeforeTraffic, p.CurrentStepIndex) {
		stored := storedCheck(a, c.name)
		if stored != nil && !earlier(a.TrafficSince.Time, stored) {
			c.why, c.failed = stored.Why, stored.Result == rollouts.CheckFailed
			if !c.failed && stored.Result != rollouts.CheckRunning {
				continue
			}
		}
		open = append(open, c)
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
			return c.at != rollouts.AtBeforeTraffic || full && !c.failed
		case rollouts.StepMetricsAnalysis, rollouts.StepPaused:
			return full && !c.failed
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
		if open := openIn(r, step); len(open) > 0 {
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
