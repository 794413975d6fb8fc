// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

func why(t *testing.T, as, ns string) v1beta1.RolloutWhy {
	t.Helper()
	return decoded[v1beta1.RolloutWhy](t, call(t, request{as: as, method: "GET", path: one(v1beta1Path, ns, "web") + "/why"}).must(t, http.StatusOK))
}

// standing is a state of a Rollout.
type standing struct {
	status func(s *v1beta1.RolloutStatus, p *v1beta1.Progress)
	spec   string
	state  string
	says   string
}

func inStep(state v1beta1.StepState) func(*v1beta1.RolloutStatus, *v1beta1.Progress) {
	return func(_ *v1beta1.RolloutStatus, p *v1beta1.Progress) { p.State = state }
}

func doing(reason string) func(*v1beta1.RolloutStatus, *v1beta1.Progress) {
	return func(s *v1beta1.RolloutStatus, _ *v1beta1.Progress) { s.Conditions[0].Reason = reason }
}

func stalledBy(reason, message string) func(*v1beta1.RolloutStatus, *v1beta1.Progress) {
	return func(s *v1beta1.RolloutStatus, p *v1beta1.Progress) {
		p.State = v1beta1.StepUpgrade
		s.Conditions = append(s.Conditions, v1beta1.Condition{Type: "Stalled", Status: metav1.ConditionTrue, Reason: reason, Message: message})
	}
}

func checked(state v1beta1.StepState, result v1beta1.CheckResult) func(*v1beta1.RolloutStatus, *v1beta1.Progress) {
	return func(s *v1beta1.RolloutStatus, p *v1beta1.Progress) {
		p.State = state
		s.Analysis = &v1beta1.AnalysisStatus{Revision: "v2", Step: 1, Checks: []v1beta1.CheckStatus{{
			Name: "successRate", Result: result, Why: "97.1 % of at least 99 %", New: &v1beta1.RequestCount{Total: 1000, Bad: 29},
		}}}
	}
}

const withChecks = `{"spec":{"strategy":{"canary":{"analysis":{"onFail":"Wait","checks":[{"successRate":"99%"}]}}}}}`

var states = map[string]standing{
	"at rest":         {func(s *v1beta1.RolloutStatus, _ *v1beta1.Progress) { s.Phase, s.Canary = "Healthy", nil }, "", "AtRest", "No release in progress."},
	"new":             {func(s *v1beta1.RolloutStatus, _ *v1beta1.Progress) { s.Phase, s.Canary = "Initial", nil }, "", "AtRest", "waiting for deployment web"},
	"initializing":    {doing("Initializing"), "", "Moving", "about to start"},
	"before its pods": {inStep(v1beta1.BeforeStepUpgrade), "", "Moving", "v2, step 1 of 3: waiting for its traffic for 14 minutes."},
	"pods":            {inStep(v1beta1.StepUpgrade), "", "Moving", "v2, step 1 of 3: waiting for its pods for 14 minutes."},
	"traffic":         {inStep(v1beta1.StepTrafficRouting), "", "Moving", "its traffic"},
	"waiting":         {inStep(v1beta1.StepPaused), "", "Waiting", "v2, step 1 of 3: waiting for approval for 14 minutes."},
	"waiting for time": {
		func(_ *v1beta1.RolloutStatus, p *v1beta1.Progress) { p.CurrentStepIndex, p.NextStepIndex = 2, 3 },
		`{"spec":{"strategy":{"canary":{"steps":[{"replicas":"20%"},{"replicas":"50%","pause":{"duration":3600}},{"replicas":"100%"}]}}}}`,
		"Waiting", "v2, step 2 of 3: waiting until 20",
	},
	"after its time": {
		func(_ *v1beta1.RolloutStatus, p *v1beta1.Progress) { p.CurrentStepIndex, p.NextStepIndex = 2, 3 }, "",
		"Waiting", "v2, step 2 of 3: waiting for 14 minutes: waiting.",
	},
	"approved":      {inStep(v1beta1.StepReady), "", "Moving", "the controller"},
	"measuring":     {checked(v1beta1.StepMetricsAnalysis, v1beta1.CheckRunning), withChecks, "Waiting", "its checks"},
	"failed checks": {checked(v1beta1.StepPaused, v1beta1.CheckFailed), withChecks, "Waiting", "waiting for approval"},
	"stalled":       {stalledBy("ProgressDeadlineExceeded", "no progress; fix the pods"), "", "Stalled", "stalled, waiting for its pods for 14 minutes"},
	"paused": {func(s *v1beta1.RolloutStatus, p *v1beta1.Progress) {
		p.Paused = true
		s.Conditions[0].Reason = "Paused"
	}, "", "Paused", "The release was paused; resume it first."},
	"paused by spec": {doing("Paused"), `{"spec":{"strategy":{"paused":true}}}`, "Paused", "set spec.strategy.paused to false"},
	"fully promoted": {func(_ *v1beta1.RolloutStatus, p *v1beta1.Progress) {
		p.FullyPromoted, p.State = true, v1beta1.StepUpgrade
	}, "", "Moving", "its pods"},
	"refused":     {stalledBy("RevisionRefused", "another template"), "", "Stalled", "refused while revision v2 is released"},
	"superseding": {func(_ *v1beta1.RolloutStatus, p *v1beta1.Progress) { p.FinalisingStep = "RestoreStableService" }, "", "Moving", "replacing revision v2"},
	"aborting":    {doing("Aborting"), "", "Aborting", "Waiting for the pods of the stable version"},
	"aborted":     {doing("Aborted"), "", "Aborted", "retry it from step 1"},
	"rolling back": {func(s *v1beta1.RolloutStatus, p *v1beta1.Progress) {
		p.RollingBack = true
		s.Conditions[0].Reason = "Aborted"
	}, "", "Aborting", "the stable template"},
	"finalising":       {doing("Finalising"), "", "Ending", "all steps are done"},
	"cancelling":       {doing("Cancelling"), "", "Ending", "being cancelled"},
	"disabling":        {doing("InRolling"), `{"spec":{"disabled":true}}`, "Ending", "the rollout is being disabled"},
	"disabled":         {func(s *v1beta1.RolloutStatus, _ *v1beta1.Progress) { s.Phase, s.Canary = "Disabled", nil }, "", "AtRest", "The Rollout is disabled"},
	"workload is gone": {func(s *v1beta1.RolloutStatus, _ *v1beta1.Progress) { s.Message = "Workload Not Found" }, "", "Ending", "the workload is gone"},
	"crashing": {func(_ *v1beta1.RolloutStatus, p *v1beta1.Progress) {
		p.State, p.Message = v1beta1.StepUpgrade, "2 of 2 new pods: CrashLoopBackOff"
	}, "", "Moving", "for 14 minutes: 2 of 2 new pods: CrashLoopBackOff."},
	"failing": {func(s *v1beta1.RolloutStatus, p *v1beta1.Progress) {
		p.State, p.Message = v1beta1.StepUpgrade, "2 of 2 new pods: CrashLoopBackOff"
		s.Conditions = append(s.Conditions, v1beta1.Condition{Type: v1beta1.ConditionFailing, Status: "True", Reason: "Crashing", Message: p.Message + "; see the logs of the pods"})
	}, "", "Failing", "v2, step 1 of 3: failing for 14 minutes: 2 of 2 new pods: CrashLoopBackOff."},
}

// at creates a Rollout in that state.
func (s standing) at(t *testing.T, ns string) {
	t.Helper()
	r := releasing(t, ns, "web")
	s.status(&r.Status, &r.Status.Canary.Progress)
	if r.Status.Canary != nil {
		r.Status.Canary.LastUpdateTime = &metav1.Time{Time: time.Now().Add(-14*time.Minute - time.Second)}
	}
	call(t, request{as: controller, method: "PUT", path: one(v1beta1Path, ns, "web") + "/status", body: r}).must(t, http.StatusOK)
	if s.spec != "" {
		patch(t, admin, one(v1beta1Path, ns, "web"), s.spec).must(t, http.StatusOK)
	}
}

// The actions agree with the results of the verbs, in every state and for every user.
func TestActions(t *testing.T) {
	t.Parallel()
	for name, s := range states {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			s.at(t, ns)
			for _, who := range []string{admin, alice, victor, controller} {
				w := why(t, who, ns)
				if w.State != s.state || !strings.Contains(w.Summary, s.says) && !strings.Contains(strings.ToLower(w.Summary), s.says) {
					t.Errorf("it is %s, %q; want %s, and to say %q", w.State, w.Summary, s.state, s.says)
				}
				var verbs []string
				for _, a := range w.Actions {
					verbs = append(verbs, a.Verb)
					checkAction(t, who, a)
				}
				checkOrder(t, w)
				if slices.Sort(verbs); !slices.Equal(verbs, actions) {
					t.Errorf("actions %v, want %v", verbs, actions)
				}
			}
		})
	}
}

var actions = []string{"abort", "jump", "pause", "promote", "promote", "resume", "retry", "rollback"}

// checkOrder checks that possible actions are first, that a release which fails offers its abort first, and that
// the approval of all remaining steps is never the first of several possible actions.
func checkOrder(t *testing.T, w v1beta1.RolloutWhy) {
	t.Helper()
	var possible []v1beta1.Action
	for i, a := range w.Actions {
		if a.Possible && i > len(possible) {
			t.Errorf("%s comes after an impossible action", a.Title)
		}
		if a.Possible {
			possible = append(possible, a)
		}
	}
	if len(possible) > 1 && possible[0].Title == "Approve all remaining steps" {
		t.Errorf("in state %s the first action is %s", w.State, possible[0].Title)
	}
	if w.State == "Failing" && possible[0].Verb != "abort" {
		t.Errorf("a release that fails offers %s first", possible[0].Title)
	}
}

// actionOf returns the first action of a verb.
func actionOf(t *testing.T, w v1beta1.RolloutWhy, verb string) v1beta1.Action {
	t.Helper()
	i := slices.IndexFunc(w.Actions, func(a v1beta1.Action) bool { return a.Verb == verb })
	if i < 0 {
		t.Fatalf("there is no action %s", verb)
	}
	return w.Actions[i]
}

// checkAction sends the request of an action, with the fields that it needs.
func checkAction(t *testing.T, who string, a v1beta1.Action) {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(a.Body.Raw, &body); err != nil {
		t.Fatal(err)
	}
	for _, need := range a.Needs {
		body[need] = map[string]any{"step": 1, "reason": "it is known", "override": true}[need]
	}
	got := call(t, request{as: who, method: "POST", path: v1beta1Path + "/" + a.Path + "?dryRun=All", body: body})
	changes := got.code == http.StatusCreated && len(got.warnings) == 0
	switch {
	case !a.Allowed:
		if got.code != http.StatusForbidden {
			t.Errorf("%s: %s is not allowed, and answered %d: %s", who, a.Title, got.code, got.body)
		}
	case a.Possible != changes:
		t.Errorf("%s: %s is possible: %t (%s), and answered %d %v: %s", who, a.Title, a.Possible, a.Reason, got.code, got.warnings, got.body)
	case got.code != http.StatusCreated && got.code != http.StatusConflict:
		t.Errorf("%s: %s answered %d: %s", who, a.Title, got.code, got.body)
	case a.Reason == "", !a.Possible && len(a.Reason) > 80:
		t.Errorf("%s: %s has the reason %q", who, a.Title, a.Reason)
	}
}

// Causes contain numbers and fixes.
func TestCauses(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	states["failed checks"].at(t, ns)
	w := why(t, victor, ns)
	if len(w.Causes) != 1 || w.Causes[0].About != "checks" || !strings.Contains(w.Causes[0].Message, "of 1000 requests to the new version 29 were bad") || w.Causes[0].Advice == "" {
		t.Errorf("causes %+v", w.Causes)
	}
	if a := actionOf(t, w, "promote"); !slices.Equal(a.Needs, []string{"reason", "override"}) || !a.Possible {
		t.Errorf("promote %+v", a)
	}
	ns += "-stalled"
	states["stalled"].at(t, ns)
	w = why(t, victor, ns)
	if len(w.Causes) != 1 || w.Causes[0].About != "deadline" || w.Causes[0].Message != "no progress" || w.Causes[0].Advice != "fix the pods" || w.Causes[0].Objects[0].Kind != "Deployment" {
		t.Errorf("causes %+v", w.Causes)
	}
}

// A jump reports the first step that overrides checks, and the missing permission.
func TestActionsPastChecks(t *testing.T) {
	t.Parallel()
	for result, from := range map[v1beta1.CheckResult]int32{v1beta1.CheckFailed: 2, v1beta1.CheckPassed: 3} {
		for who, missing := range map[string][]string{rita: {"rollouts/override"}, alice: nil, victor: {"rollouts/jump", "rollouts/override"}} {
			t.Run(string(result)+" "+who, func(t *testing.T) {
				t.Parallel()
				ns := namespace(t)
				measuredRollout(t, ns, result)
				a := actionOf(t, why(t, who, ns), "jump")
				if a.OverrideFrom != from || !slices.Equal(a.Missing, missing) || a.Allowed != (who != victor) {
					t.Errorf("the action is %+v, want an override from step %d, without %v", a, from, missing)
				}
				if who == victor {
					return
				}
				for step := int32(1); step <= 3; step++ {
					code := http.StatusCreated
					if step >= from {
						code = http.StatusConflict
					}
					verb(t, who, v1beta1Path, ns, "jump?dryRun=All", fmt.Sprintf(`{"step":%d}`, step)).must(t, code)
				}
			})
		}
	}
}

// A body is refused once the Rollout has changed.
func TestActionOfBefore(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	states["waiting"].at(t, ns)
	a := why(t, alice, ns).Actions[0]
	send := request{as: alice, method: "POST", path: v1beta1Path + "/" + a.Path, body: string(a.Body.Raw)}
	call(t, send).must(t, http.StatusCreated)
	if m := call(t, send).must(t, http.StatusConflict).status().Message; !strings.Contains(m, "expected step 1") {
		t.Errorf("it was refused with %q", m)
	}
}

// Each response needs two permissions: one for the Rollout and one for the subresource.
func TestViewPermissions(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	releasing(t, ns, "web")
	for _, view := range []string{"why", "history", "plan"} {
		path := one(v1beta1Path, ns, "web") + "/" + view
		for who, code := range map[string]int{admin: http.StatusOK, victor: http.StatusOK, dave: http.StatusForbidden, nora: http.StatusForbidden} {
			call(t, request{as: who, method: "GET", path: path}).must(t, code)
		}
		call(t, request{as: victor, method: "GET", path: one(v1beta1Path, ns, "other") + "/" + view}).must(t, http.StatusNotFound)
		call(t, request{as: admin, method: "GET", path: one(v1alpha1Path, ns, "web") + "/" + view}).must(t, http.StatusNotFound)
	}
}

// A plan request has a body, and needs its own permission. Nothing is stored.
func TestAskPlan(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	before := releasing(t, ns, "web")
	for who, code := range map[string]int{victor: http.StatusCreated, dave: http.StatusForbidden, nora: http.StatusForbidden} {
		for _, body := range []string{"", `{"spec":{"after":{"verb":"abort"}}}`} {
			call(t, request{as: who, method: "POST", path: one(v1beta1Path, ns, "web") + "/plan", body: body}).must(t, code)
		}
	}
	if after := get(t, ns, "web"); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("it was stored: %s, then %s", before.ResourceVersion, after.ResourceVersion)
	}
	wrong := call(t, request{as: victor, method: "POST", path: one(v1beta1Path, ns, "web") + "/plan", body: `{"kind":"Rollout"}`}).must(t, http.StatusBadRequest)
	if m := wrong.status().Message; !strings.Contains(m, "send a RolloutPlan") {
		t.Errorf("another kind: %s", m)
	}
	call(t, request{as: victor, method: "POST", path: one(v1beta1Path, ns, "none") + "/plan"}).must(t, http.StatusNotFound)
}
