// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// measuredRollout creates a Rollout at step 1 of 3 whose check has a result.
func measuredRollout(t *testing.T, ns string, result v1beta1.CheckResult) {
	t.Helper()
	standing{status: checked(v1beta1.StepPaused, result), spec: withChecks}.at(t, ns)
}

func annotate(t *testing.T, as, ns, text string) answer {
	t.Helper()
	return patch(t, as, one(v1beta1Path, ns, "web"), fmt.Sprintf(`{"metadata":{"annotations":{"rollouts.kruise.io/decide":%q}}}`, text))
}

// Every way past an open or failed check needs an override. A user without the permission cannot pass in
// any way, and each error names the verb that can override.
func TestNoWayPastChecks(t *testing.T) {
	t.Parallel()
	status := func(body string) func(*testing.T, string) answer {
		return func(t *testing.T, ns string) answer {
			return patch(t, rita, one(v1beta1Path, ns, "web")+"/status", body)
		}
	}
	use := func(name, body string) func(*testing.T, string) answer {
		return func(t *testing.T, ns string) answer { return verb(t, rita, v1beta1Path, ns, name, body) }
	}
	decide := func(text string) func(*testing.T, string) answer {
		return func(t *testing.T, ns string) answer { return annotate(t, rita, ns, text) }
	}
	ways := map[string]struct {
		use  func(*testing.T, string) answer
		code int
		says string
	}{
		"promote":                      {use("promote", `{}`), http.StatusConflict, "promote with override: true"},
		"promote in full":              {use("promote", `{"full":true}`), http.StatusConflict, "promote with full: true and override: true"},
		"promote, overriding":          {use("promote", `{"override":true,"reason":"r"}`), http.StatusForbidden, "permission to create rollouts/override in namespace"},
		"jump to the last step":        {use("jump", `{"step":3}`), http.StatusConflict, "jump with override: true"},
		"jump to the next step":        {use("jump", `{"step":2}`), http.StatusConflict, "step 1: successRate failed: 97.1 % of at least 99 %; abort, or jump"},
		"jump, overriding":             {use("jump", `{"step":3,"override":true,"reason":"r"}`), http.StatusForbidden, "permission to create rollouts/override in namespace"},
		"jump, overriding, no reason":  {use("jump", `{"step":3,"override":true}`), http.StatusUnprocessableEntity, "reason"},
		"status, StepReady":            {status(approval), http.StatusConflict, "use the verb promote with override: true"},
		"status, nextStepIndex":        {status(next(3)), http.StatusConflict, "use the verb jump with override: true"},
		"status, currentStepIndex":     {status(`{"status":{"canaryStatus":{"currentStepIndex":3}}}`), http.StatusOK, "not written"},
		"pause 0":                      {func(t *testing.T, ns string) answer { return pauseOf(t, rita, v1beta1Path, ns, 1, 0) }, http.StatusConflict, "use the verb promote with override: true"},
		"the annotation, promote":      {decide("promote v2 1 @1"), http.StatusOK, "use the verb promote with override: true"},
		"the annotation, promote full": {decide("promote v2 full @1"), http.StatusOK, "use the verb promote with full: true and override: true"},
		"the annotation, jump":         {decide("jump v2 3 @1"), http.StatusOK, "use the verb jump with override: true"},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			measuredRollout(t, ns, v1beta1.CheckFailed)
			a := way.use(t, ns).must(t, way.code)
			if said := strings.Join(a.warnings, " ") + a.status().Message; !strings.Contains(said, way.says) {
				t.Errorf("the user is told %q, want %q", said, way.says)
			}
			r := get(t, ns, "web")
			if r.Status.CurrentStepIndex != 1 || r.Status.CurrentStepState != v1beta1.StepPaused || r.Status.Canary.FullyPromoted || len(r.Status.Decisions) > 0 {
				t.Errorf("it is at step %d in state %s, with the decisions %+v", r.Status.CurrentStepIndex, r.Status.CurrentStepState, r.Status.Decisions)
			}
		})
	}
}

// If no check of the step is open, no override is needed. A jump over steps that were not measured yet
// passes their checks; a jump back passes none.
func TestWaysAlongChecks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		as, verb, body string
		result         v1beta1.CheckResult
		code           int
	}{
		"promote":                     {rita, "promote", `{}`, v1beta1.CheckPassed, http.StatusCreated},
		"promote an undecided check":  {rita, "promote", `{}`, v1beta1.CheckInconclusive, http.StatusCreated},
		"promote while it is judged":  {rita, "promote", `{}`, v1beta1.CheckRunning, http.StatusConflict},
		"promote in full meanwhile":   {rita, "promote", `{"full":true}`, v1beta1.CheckRunning, http.StatusCreated},
		"jump to the next step":       {rita, "jump", `{"step":2}`, v1beta1.CheckPassed, http.StatusCreated},
		"jump over a step":            {rita, "jump", `{"step":3}`, v1beta1.CheckPassed, http.StatusConflict},
		"jump over it, overriding":    {alice, "jump", `{"step":3,"override":true,"reason":"r"}`, v1beta1.CheckPassed, http.StatusCreated},
		"run the failed step again":   {rita, "jump", `{"step":1}`, v1beta1.CheckFailed, http.StatusCreated},
		"jump from a failed one":      {alice, "jump", `{"step":2,"override":true,"reason":"r"}`, v1beta1.CheckFailed, http.StatusCreated},
		"pause at a failed check":     {rita, "pause", `{}`, v1beta1.CheckFailed, http.StatusCreated},
		"abort at a failed check":     {rita, "abort", `{}`, v1beta1.CheckFailed, http.StatusCreated},
		"roll back at a failed check": {rita, "rollback", `{}`, v1beta1.CheckFailed, http.StatusCreated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			measuredRollout(t, ns, tc.result)
			verb(t, tc.as, v1beta1Path, ns, tc.verb, tc.body).must(t, tc.code)
			ds := get(t, ns, "web").Status.Decisions
			if overrides := strings.Contains(tc.body, "override"); overrides && (len(ds) != 1 || len(ds[0].Overrode) != 1 || len(ds[0].OverriddenChecks) == 0 || ds[0].Reason != "r") {
				t.Errorf("the decisions are %+v, want the override, its checks and its reason on record", ds)
			}
		})
	}
	t.Run("in full, it waits on", func(t *testing.T) {
		t.Parallel()
		ns := namespace(t)
		measuredRollout(t, ns, v1beta1.CheckRunning)
		r := verb(t, rita, v1beta1Path, ns, "promote", `{"full":true}`).must(t, http.StatusCreated).rollout(t)
		if r.Status.CurrentStepState != v1beta1.StepPaused || !r.Status.Canary.FullyPromoted {
			t.Errorf("the step is in state %s, want it to wait for its check", r.Status.CurrentStepState)
		}
	})
}

// A release that its checks have aborted can be retried without an override, because the checks measure the
// new attempt.
func TestRetryAfterChecks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		as, body string
		code     int
		named    int
	}{
		"judged again":        {rita, `{}`, http.StatusCreated, 0},
		"without the right":   {rita, `{"override":true,"reason":"r"}`, http.StatusForbidden, 0},
		"the checks report":   {alice, `{"override":true,"reason":"r"}`, http.StatusCreated, 6},
		"nobody says a cause": {alice, `{"override":true}`, http.StatusUnprocessableEntity, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			measuredRollout(t, ns, v1beta1.CheckFailed)
			r := get(t, ns, "web")
			r.Status.Conditions[0].Reason = "Aborting"
			r.Status.Canary.LastUpdateTime = &metav1.Time{Time: r.Status.Canary.LastUpdateTime.Add(1e9)}
			call(t, request{as: controller, method: "PUT", path: one(v1beta1Path, ns, "web") + "/status", body: r}).must(t, http.StatusOK)
			r = get(t, ns, "web")
			if d := r.Status.Decisions; len(d) != 1 || d[0].Via != v1beta1.ViaAnalysis {
				t.Fatalf("the decisions are %+v, want the abort of the checks", d)
			}
			r.Status.Conditions[0].Reason, r.Status.Canary.AbortedRevision, r.Status.Decisions[0].Outcome = "Aborted", "v2", "applied"
			call(t, request{as: controller, method: "PUT", path: one(v1beta1Path, ns, "web") + "/status", body: r}).must(t, http.StatusOK)
			a := verb(t, tc.as, v1beta1Path, ns, "retry", tc.body).must(t, tc.code)
			if tc.code != http.StatusCreated {
				return
			}
			r = a.rollout(t)
			if d := r.Status.Decisions[len(r.Status.Decisions)-1]; len(d.OverriddenChecks) != tc.named {
				t.Errorf("the decision is %+v, want %d overridden checks", d, tc.named)
			}
			if r.Status.Analysis != nil && len(r.Status.Analysis.Checks) > 0 {
				t.Errorf("the new attempt begins with %+v", r.Status.Analysis.Checks)
			}
		})
	}
}

// A user who may write the progress of releases cannot pass a check by that: no status changes the result of a
// check, continues at a later step, or ends the release.
func TestNoStatusPastChecks(t *testing.T) {
	t.Parallel()
	write := func(t *testing.T, ns string, change func(*v1beta1.Rollout)) answer {
		t.Helper()
		r := get(t, ns, "web")
		change(r)
		return call(t, request{as: admin, method: "PUT", path: one(v1beta1Path, ns, "web") + "/status", body: r})
	}
	for name, tc := range map[string]struct {
		result v1beta1.CheckResult
		change func(*v1beta1.Progress)
		code   int
	}{
		"the last step":          {v1beta1.CheckFailed, func(p *v1beta1.Progress) { p.CurrentStepIndex = 3 }, http.StatusConflict},
		"the next step":          {v1beta1.CheckFailed, func(p *v1beta1.Progress) { p.CurrentStepIndex, p.State = 2, v1beta1.StepUpgrade }, http.StatusConflict},
		"approved, at that time": {v1beta1.CheckFailed, func(p *v1beta1.Progress) { p.State, p.LastUpdateTime = v1beta1.StepReady, &metav1.Time{} }, http.StatusConflict},
		"passed, the next step":  {v1beta1.CheckPassed, func(p *v1beta1.Progress) { p.CurrentStepIndex = 2 }, http.StatusOK},
		"the step once more":     {v1beta1.CheckFailed, func(p *v1beta1.Progress) { p.State = v1beta1.StepUpgrade }, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			measuredRollout(t, ns, tc.result)
			write(t, ns, func(r *v1beta1.Rollout) { tc.change(&r.Status.Canary.Progress) }).must(t, tc.code)
		})
	}
	for name, change := range map[string]func(*v1beta1.Rollout){
		"without the results": func(r *v1beta1.Rollout) { r.Status.Analysis = nil },
		"with other results":  func(r *v1beta1.Rollout) { r.Status.Analysis.Checks[0].Result = v1beta1.CheckPassed },
		"overridden":          func(r *v1beta1.Rollout) { r.Status.Analysis.Overridden = true },
		"of another step":     func(r *v1beta1.Rollout) { r.Status.Analysis.Step = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			measuredRollout(t, ns, v1beta1.CheckFailed)
			before := get(t, ns, "web").Status.Analysis
			write(t, ns, func(r *v1beta1.Rollout) {
				change(r)
				r.Status.Canary.LastUpdateTime = &metav1.Time{}
			}).must(t, http.StatusOK)
			if diff := cmp.Diff(before, get(t, ns, "web").Status.Analysis); diff != "" {
				t.Errorf("the results of the checks (-before +after):\n%s", diff)
			}
			verb(t, rita, v1beta1Path, ns, "promote", `{}`).must(t, http.StatusConflict)
		})
	}
	for name, change := range map[string]func(*v1beta1.RolloutStatus){
		"healthy":             func(s *v1beta1.RolloutStatus) { s.Phase = v1beta1.PhaseHealthy },
		"disabled":            func(s *v1beta1.RolloutStatus) { s.Phase = v1beta1.PhaseDisabling },
		"ending":              func(s *v1beta1.RolloutStatus) { s.Conditions[0].Reason = "Finalising" },
		"cancelled":           func(s *v1beta1.RolloutStatus) { s.Conditions[0].Reason = "Cancelling" },
		"about to start":      func(s *v1beta1.RolloutStatus) { s.Conditions[0].Reason = "Initializing" },
		"no progress":         func(s *v1beta1.RolloutStatus) { s.Canary = nil },
		"another release":     func(s *v1beta1.RolloutStatus) { s.Canary.CanaryRevision = "v3" },
		"another template":    func(s *v1beta1.RolloutStatus) { s.Canary.UpdateTemplate = "sha256:3" },
		"another stable":      func(s *v1beta1.RolloutStatus) { s.Canary.StableRevision = "v2" },
		"another plan":        func(s *v1beta1.RolloutStatus) { s.Canary.RolloutHash = "other" },
		"of another workload": func(s *v1beta1.RolloutStatus) { s.WorkloadUID = "other" },
		"of a blue-green plan": func(s *v1beta1.RolloutStatus) {
			s.BlueGreen, s.Canary = &v1beta1.BlueGreenStatus{Progress: s.Canary.Progress}, nil
		},
	} {
		t.Run("a release that is "+name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			measuredRollout(t, ns, v1beta1.CheckFailed)
			a := write(t, ns, func(r *v1beta1.Rollout) {
				r.Status.Canary.LastUpdateTime = &metav1.Time{}
				change(&r.Status)
			}).must(t, http.StatusConflict)
			if m := a.status().Message; !strings.Contains(m, "ends or replaces the release") || !strings.Contains(m, "successRate failed") {
				t.Errorf("the user is told %q", m)
			}
		})
	}
}

// While checks of a release are open or have failed, an edit cannot remove a check, reduce its effect,
// change the pods or the traffic of a step, or disable the Rollout. An edit cannot override, so the error
// names the verb that can.
func TestNoEditPastChecks(t *testing.T) {
	t.Parallel()
	const analysis, steps = "/spec/strategy/canary/analysis", "/spec/strategy/canary/steps"
	op := func(op, path, value string) string {
		if value == "" {
			return fmt.Sprintf(`{"op":%q,"path":%q}`, op, path)
		}
		return fmt.Sprintf(`{"op":%q,"path":%q,"value":%s}`, op, path, value)
	}
	for name, tc := range map[string]struct {
		result v1beta1.CheckResult
		edit   string
		code   int
	}{
		"no analysis":               {v1beta1.CheckFailed, op("remove", analysis, ""), 422},
		"an empty analysis":         {v1beta1.CheckFailed, op("replace", analysis, `{}`), 422},
		"the check removed":         {v1beta1.CheckFailed, op("remove", analysis+"/checks/0", ""), 422},
		"a running check removed":   {v1beta1.CheckRunning, op("remove", analysis+"/checks/0", ""), 422},
		"the check renamed":         {v1beta1.CheckFailed, op("add", analysis+"/checks/0/name", `"other"`), 422},
		"it only reports":           {v1beta1.CheckFailed, op("add", analysis+"/checks/0/onFail", `"Report"`), 422},
		"all only report":           {v1beta1.CheckFailed, op("replace", analysis+"/onFail", `"Report"`), 422},
		"undecided, it passes":      {v1beta1.CheckRunning, op("add", analysis+"/onInconclusive", `"Pass"`), 422},
		"a gate":                    {v1beta1.CheckFailed, op("replace", analysis+"/checks/0", `{"name":"tickets","gate":true,"http":{"service":"web"}}`), 422},
		"other steps":               {v1beta1.CheckFailed, op("add", analysis+"/checks/0/steps", `[2,3]`), 422},
		"no pods are watched":       {v1beta1.CheckPassed, op("add", analysis+"/checks/-", `{"podsHealthy":"Off"}`), 422},
		"not in step 3":             {v1beta1.CheckPassed, op("add", analysis+"/checks/0/steps", `[1,2]`), 422},
		"the step enlarged":         {v1beta1.CheckFailed, op("replace", steps+"/0/replicas", `"50%"`), 422},
		"the step made smaller":     {v1beta1.CheckFailed, op("replace", steps+"/0/replicas", `"1%"`), 422},
		"more traffic":              {v1beta1.CheckFailed, op("add", steps+"/0/traffic", `"100%"`), 422},
		"the next step enlarged":    {v1beta1.CheckPassed, op("replace", steps+"/1/replicas", `"100%"`), 422},
		"the next one made smaller": {v1beta1.CheckPassed, op("replace", steps+"/1/replicas", `"30%"`), 422},
		"the passed step enlarged":  {v1beta1.CheckPassed, op("replace", steps+"/0/replicas", `"30%"`), 422},
		"disabled":                  {v1beta1.CheckFailed, op("add", "/spec/disabled", "true"), 422},
		"a check more":              {v1beta1.CheckFailed, op("add", analysis+"/checks/-", `{"asGoodAs":"Stable"}`), 200},
		"another objective":         {v1beta1.CheckFailed, op("replace", analysis+"/checks/0/successRate", `"98%"`), 200},
		"a longer pause":            {v1beta1.CheckFailed, op("add", steps+"/0/pause", `{"duration":60}`), 200},
		"a shorter pause":           {v1beta1.CheckPassed, op("add", steps+"/2/pause", `{"duration":0}`), 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			measuredRollout(t, ns, tc.result)
			before := get(t, ns, "web")
			edit := request{
				as: admin, method: "PATCH", path: one(v1beta1Path, ns, "web"), body: "[" + tc.edit + "]",
				headers: map[string]string{"Content-Type": "application/json-patch+json"},
			}
			a := call(t, edit).must(t, tc.code)
			if tc.code == http.StatusOK {
				return
			}
			if m := a.status().Message; !strings.Contains(m, "have not passed") || !strings.Contains(m, "promote with full: true and override: true") {
				t.Errorf("the user is told %q", m)
			}
			if r := get(t, ns, "web"); r.Generation != before.Generation {
				t.Errorf("the plan is edited: %+v", r.Spec.Strategy.Canary)
			}
			verb(t, admin, v1beta1Path, ns, "promote", `{"full":true,"override":true,"reason":"r"}`).must(t, http.StatusCreated)
			call(t, edit).must(t, http.StatusOK)
		})
	}
	t.Run("undecided, it no longer aborts", func(t *testing.T) {
		t.Parallel()
		ns := namespace(t)
		standing{
			status: checked(v1beta1.StepPaused, v1beta1.CheckRunning),
			spec:   strings.Replace(withChecks, `"onFail":"Wait"`, `"onFail":"Wait","onInconclusive":"Abort"`, 1),
		}.at(t, ns)
		a := patch(t, admin, one(v1beta1Path, ns, "web"), `{"spec":{"strategy":{"canary":{"analysis":{"onInconclusive":"Wait"}}}}}`).must(t, http.StatusUnprocessableEntity)
		if m := a.status().Message; !strings.Contains(m, "lets them decide less") {
			t.Errorf("the user is told %q", m)
		}
	})
	t.Run("after the release", func(t *testing.T) {
		t.Parallel()
		ns := namespace(t)
		standing{status: func(s *v1beta1.RolloutStatus, p *v1beta1.Progress) {
			checked(v1beta1.StepPaused, v1beta1.CheckFailed)(s, p)
			s.Phase, s.Canary, s.Analysis = v1beta1.PhaseHealthy, nil, nil
		}, spec: withChecks}.at(t, ns)
		patch(t, admin, one(v1beta1Path, ns, "web"), `{"spec":{"strategy":{"canary":{"analysis":null}}}}`).must(t, http.StatusOK)
	})
}
