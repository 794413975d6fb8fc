// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package verb_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// rolloutWithChecks is a Rollout at step 2 of 3 whose plan has checks: podsHealthy of every step, and a
// gate before the traffic of steps 2 and 3.
func rolloutWithChecks() *rollouts.Rollout {
	r := waitingRollout()
	r.Spec.Strategy.Canary.Analysis = &rollouts.Analysis{Checks: []rollouts.Check{
		{Name: "ticket", At: rollouts.AtBeforeTraffic, Steps: []int32{2, 3}, Gate: new(true), HTTP: &rollouts.HTTPCheck{Service: "tickets"}},
	}}
	return r
}

// withCheckResult has the check of a step come to a result.
func withCheckResult(state rollouts.StepState, name string, result rollouts.CheckResult) func(*rollouts.Rollout) {
	return func(r *rollouts.Rollout) {
		r.Status.Active().State = state
		r.Status.Analysis = &rollouts.AnalysisStatus{
			Revision: "two", Step: 2, StepSince: &decided, TrafficSince: &decided,
			Checks: []rollouts.CheckStatus{{Name: name, Result: result, Time: &decided, Why: "why"}},
		}
	}
}

// TestPastChecks tries what may go past a check at each point of a step: + is accepted, - is
// refused, and what is refused is accepted with an override.
func TestPastChecks(t *testing.T) {
	t.Parallel()
	asked := []verb.Command{
		{Verb: rollouts.VerbPromote}, {Verb: rollouts.VerbPromote, Full: true},
		{Verb: rollouts.VerbJump, Step: 1}, {Verb: rollouts.VerbJump, Step: 2}, {Verb: rollouts.VerbJump, Step: 3},
	}
	overridden := func(r *rollouts.Rollout) {
		withCheckResult(rollouts.StepPaused, "podsHealthy", rollouts.CheckFailed)(r)
		r.Status.Analysis.Overridden = true
	}
	const columns = "promote, full, jump to 1, 2, 3"
	for name, test := range map[string]struct {
		change func(*rollouts.Rollout)
		want   string
	}{
		"before the step":          {withState(rollouts.BeforeStepUpgrade), "  + + + -"},
		"a closed gate":            {withCheckResult(rollouts.StepTrafficRouting, "ticket", rollouts.CheckRunning), "- + + + -"},
		"a failed gate":            {withCheckResult(rollouts.StepTrafficRouting, "ticket", rollouts.CheckFailed), "- - + + -"},
		"an undecided gate":        {withCheckResult(rollouts.StepTrafficRouting, "ticket", rollouts.CheckInconclusive), "+ + + + -"},
		"an open gate":             {withCheckResult(rollouts.StepTrafficRouting, "ticket", rollouts.CheckPassed), "  + + + -"},
		"pods that fail":           {withCheckResult(rollouts.StepPaused, "podsHealthy", rollouts.CheckFailed), "- - + + -"},
		"pods that do well":        {withCheckResult(rollouts.StepPaused, "podsHealthy", rollouts.CheckPassed), "+ + + + +"},
		"failed, and approved":     {withCheckResult(rollouts.StepReady, "podsHealthy", rollouts.CheckFailed), "  + + + +"},
		"the checks only report":   {overridden, "+ + + + +"},
		"a plan without any check": {func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.Analysis = nil }, "+ + + + +"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, c := range asked {
				r := rolloutWithChecks()
				test.change(r)
				want := test.want[2*i]
				switch got := applyAndDescribe(t, r, c); {
				case want == ' ':
				case (got == "ok") != (want == '+'):
					t.Errorf("%s is %s, want %c of %q (%s)", c.Verb, got, want, test.want, columns)
				case want == '-':
					c.Override, c.Options.Reason = true, "r"
					if got := applyAndDescribe(t, r, c); got != "ok" {
						t.Errorf("%s with an override is %s", c.Verb, got)
					} else if d := r.Status.Decisions[0]; len(d.Overrode) != 1 {
						t.Errorf("the decision is %+v", d)
					}
				}
			}
		})
	}
}

// A retry after an abort by checks needs no override, since the checks judge the new attempt from its
// first step. With an override they only report in it, and the record names all of them.
func TestRetryIsJudgedAgain(t *testing.T) {
	t.Parallel()
	for _, override := range []bool{false, true} {
		r := rolloutWithChecks()
		withCheckResult(rollouts.StepPaused, "podsHealthy", rollouts.CheckFailed)(r)
		withActivity(rollouts.ActivityAborted)(r)
		c := verb.Command{Verb: rollouts.VerbRetry, Override: override}
		c.Options.Reason = "r"
		if got := applyAndDescribe(t, r, c); got != "ok" {
			t.Fatalf("with override %t it is %s", override, got)
		}
		d := r.Status.Decisions[len(r.Status.Decisions)-1]
		var named []string
		for _, of := range d.OverriddenChecks {
			named = append(named, fmt.Sprintf("%s %d %s", of.Name, of.Step, of.Result))
		}
		want := []string{"podsHealthy 1 ", "ticket 2 ", "podsHealthy 2 ", "ticket 3 ", "podsHealthy 3 "}
		if !override {
			want = nil
		}
		if diff := cmp.Diff(want, named); diff != "" {
			t.Errorf("with override %t the record names (-want +got):\n%s", override, diff)
		}
		if overridden := r.Status.Analysis != nil && r.Status.Analysis.Overridden; overridden != override {
			t.Errorf("with override %t the analysis is %+v", override, r.Status.Analysis)
		}
	}
}

// Who promotes in full and overrides before anything is measured has the checks only report.
func TestOverrideBeforeAnythingIsMeasured(t *testing.T) {
	t.Parallel()
	r := rolloutWithChecks()
	withState(rollouts.StepUpgrade)(r)
	if got := applyAndDescribe(t, r, verb.Command{Verb: rollouts.VerbPromote, Full: true, Override: true}); got != "ok" {
		t.Fatal(got)
	}
	if a := r.Status.Analysis; a == nil || !a.Overridden || a.Revision != "two" {
		t.Errorf("the analysis is %+v", a)
	}
	edited := *r.Spec.DeepCopy()
	edited.Strategy.Canary.Analysis = nil
	if err := verb.ValidateEdit(r, &edited); err != nil {
		t.Errorf("an edit is refused: %v", err)
	}
}

// An edit that makes a gate of an open check lets it decide less: the check would never fail.
func TestEditToGate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		was, is *bool
		refused bool
	}{
		"a gate from now on": {nil, new(true), true},
		"it was none":        {new(false), new(true), true},
		"it stays a gate":    {new(true), new(true), false},
		"no gate any more":   {new(true), nil, false},
		"none by its name":   {nil, new(false), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rolloutWithChecks()
			withState(rollouts.StepUpgrade)(r)
			check := rollouts.Check{Name: "ticket", HTTP: &rollouts.HTTPCheck{Service: "tickets"}, Gate: test.was}
			r.Spec.Strategy.Canary.Analysis = &rollouts.Analysis{Checks: []rollouts.Check{check}}
			edited := *r.Spec.DeepCopy()
			edited.Strategy.Canary.Analysis.Checks[0].Gate = test.is
			err := verb.ValidateEdit(r, &edited)
			if refused := err != nil && strings.Contains(err.Error(), "lets them decide less") && strings.Contains(err.Error(), "ticket"); refused != test.refused {
				t.Errorf("got %v, want refused %v", err, test.refused)
			}
		})
	}
}
