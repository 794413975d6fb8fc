// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"strings"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// checkCells try to go past a check of step 2 that is open: its Service does not exist. Step 1 waits.
var checkCells = []cell{
	{who: manager, what: skip, how: "jumps past an open check", on: scene{at: midway, change: asksForTicket}, do: func(a *app, u *user) {
		for _, body := range words(`{"step":3}`, `{"step":3,"override":true,"reason":"it is fine"}`) {
			a.tries(u, post(a.api()+"/jump", body))
		}
		a.tries(u, post(a.api()+"/promote", `{"full":true,"override":true,"reason":"it is fine"}`))
	}, expect: heldByCheck},
	{who: manager, what: skip, how: "says which step is next, past an open check", on: scene{at: midway, change: asksForTicket}, do: func(a *app, u *user) {
		for _, version := range words("v1beta1", "v1alpha1") {
			path := strings.Replace(a.api(), "v1beta1", version, 1) + "/status"
			a.tries(u, patch(path, `{"status":{"canaryStatus":{"nextStepIndex":3}}}`))
		}
	}, expect: heldByCheck},
	{who: editor, what: skip, how: "edits an open check away", on: scene{at: midway, change: asksForTicket}, do: editsPlan(
		`{"analysis":null}`, `{"analysis":{"checks":null}}`, `{"analysis":{"checks":[]}}`, `{"analysis":{"onFail":"Report"}}`, `{"analysis":{"onInconclusive":"Pass"}}`,
		`{"analysis":{"checks":[{"name":"ticket","steps":[3],"http":{"service":"tickets"}}]}}`,
		`{"analysis":{"checks":[{"name":"other","steps":[2],"http":{"service":"tickets"}}]}}`,
		`{"steps":[{"replicas":1},{"replicas":"100%"},{"replicas":"100%"}]}`,
		`{"steps":[{"replicas":"100%"},{"replicas":"100%"},{"replicas":"100%"}]}`,
		`{"steps":[{"replicas":1},{"replicas":1},{"replicas":"100%"}]}`,
	), expect: heldByCheck},
	{who: editor, what: skip, how: "disables a Rollout with an open check", on: scene{at: midway, change: asksForTicket}, do: func(a *app, u *user) {
		a.tries(u, patch(a.api(), `{"spec":{"disabled":true}}`))
	}, expect: heldByCheck},
}

// asksForTicket gives step 2 a check that never has a result.
func asksForTicket(r *v1beta1.Rollout) {
	r.Spec.Strategy.Canary.Analysis = &v1beta1.Analysis{OnFail: v1beta1.OnFailWait, Checks: []v1beta1.Check{
		{Name: "ticket", Steps: []int32{2}, HTTP: &v1beta1.HTTPCheck{Service: "tickets"}},
	}}
}

// editsPlan writes each of these into the plan.
func editsPlan(edits ...string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		for _, edit := range edits {
			a.tries(u, patch(a.api(), `{"spec":{"strategy":{"canary":`+edit+`}}}`))
		}
	}
}

// heldByCheck wants every request to be refused, and the way to the last step to be open for a user who
// may override the check. The record names the check then.
func heldByCheck(a *app) {
	a.t.Helper()
	a.answered(refused...)
	a.same()
	a.inTime()
	a.atMost(1, "v2")
	a.verb(here.admin, "jump", `{"step":3,"override":true,"reason":"the ticket is open"}`)
	a.until("the Rollout is Healthy", a.healthy)
	a.until("v2 serves", a.runs(versions{"v2": 3}))
	r, err := a.stored(a.t.Context())
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
