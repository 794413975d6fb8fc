// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"strings"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// checkCells try to pass the check of step 2, which stays open because its Service does not exist.
// Step 1 is paused.
var checkCells = []cell{
	{who: manager, what: skip, how: "jumps past an open check", scenario: scenario{at: atStep1, customizeRollout: addOpenCheck}, attack: func(a *app, u *user) {
		for _, body := range words(`{"step":3}`, `{"step":3,"override":true,"reason":"it is fine"}`) {
			a.attackWith(u, post(a.api()+"/jump", body))
		}
		a.attackWith(u, post(a.api()+"/promote", `{"full":true,"override":true,"reason":"it is fine"}`))
	}, expect: holdsAtCheck},
	{who: manager, what: skip, how: "writes the next step, past an open check", scenario: scenario{at: atStep1, customizeRollout: addOpenCheck}, attack: func(a *app, u *user) {
		for _, version := range words("v1beta1", "v1alpha1") {
			path := strings.Replace(a.api(), "v1beta1", version, 1) + "/status"
			a.attackWith(u, patch(path, `{"status":{"canaryStatus":{"nextStepIndex":3}}}`))
		}
	}, expect: holdsAtCheck},
	{who: editor, what: skip, how: "removes an open check from the plan", scenario: scenario{at: atStep1, customizeRollout: addOpenCheck}, attack: editsPlan(
		`{"analysis":null}`, `{"analysis":{"checks":null}}`, `{"analysis":{"checks":[]}}`, `{"analysis":{"onFail":"Report"}}`, `{"analysis":{"onInconclusive":"Pass"}}`,
		`{"analysis":{"checks":[{"name":"ticket","steps":[3],"http":{"service":"tickets"}}]}}`,
		`{"analysis":{"checks":[{"name":"other","steps":[2],"http":{"service":"tickets"}}]}}`,
		`{"steps":[{"replicas":1},{"replicas":"100%"},{"replicas":"100%"}]}`,
		`{"steps":[{"replicas":"100%"},{"replicas":"100%"},{"replicas":"100%"}]}`,
		`{"steps":[{"replicas":1},{"replicas":1},{"replicas":"100%"}]}`,
	), expect: holdsAtCheck},
	{who: editor, what: skip, how: "disables a Rollout with an open check", scenario: scenario{at: atStep1, customizeRollout: addOpenCheck}, attack: func(a *app, u *user) {
		a.attackWith(u, patch(a.api(), `{"spec":{"disabled":true}}`))
	}, expect: holdsAtCheck},
}

// addOpenCheck gives step 2 a check that never has a result.
func addOpenCheck(r *v1beta1.Rollout) {
	r.Spec.Strategy.Canary.Analysis = &v1beta1.Analysis{OnFail: v1beta1.OnFailWait, Checks: []v1beta1.Check{
		{Name: "ticket", Steps: []int32{2}, HTTP: &v1beta1.HTTPCheck{Service: "tickets"}},
	}}
}

// editsPlan applies patches to the plan.
func editsPlan(edits ...string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		for _, edit := range edits {
			a.attackWith(u, patch(a.api(), `{"spec":{"strategy":{"canary":`+edit+`}}}`))
		}
	}
}

// holdsAtCheck expects that every request is refused, and that a user who may override checks can
// jump to the last step. The record then names the check.
func holdsAtCheck(a *app) {
	a.t.Helper()
	a.answered(refused...)
	a.checkUnchanged()
	a.checkNoLateHold()
	a.atMost(1, "v2")
	a.verb(testEnv.admin, "jump", `{"step":3,"override":true,"reason":"the ticket is open"}`)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("v2 serves", a.runs(versions{"v2": 3}))
	r, err := a.getRollout(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	for _, d := range r.Status.Decisions {
		for _, c := range d.OverriddenChecks {
			if d.Verb == v1beta1.VerbJump && c.Name == "ticket" && c.Step == 2 {
				return
			}
		}
	}
	a.t.Errorf("the decisions are %+v, want the overridden check", r.Status.Decisions)
}
