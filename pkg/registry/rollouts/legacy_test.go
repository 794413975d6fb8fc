// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// decisions returns the decisions of a Rollout, without values that differ between runs.
func decisions(t *testing.T, ns string) []v1beta1.Decision {
	t.Helper()
	ds := get(t, ns, "web").Status.Decisions
	for i := range ds {
		ds[i].Time.Reset()
		ds[i].UID, ds[i].UserAgent = "", ""
	}
	return ds
}

func next(step int) string {
	return fmt.Sprintf(`{"status":{"canaryStatus":{"nextStepIndex":%d}}}`, step)
}

// A client of OpenKruise jumps by writing nextStepIndex. That is the verb jump, in either version, even if
// the write changes other fields.
func TestJumpByStatus(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{
		"alone":       next(3),
		"and approve": `{"status":{"canaryStatus":{"nextStepIndex":3,"currentStepState":"StepReady"}}}`,
	}
	for name, body := range bodies {
		for _, version := range []string{v1beta1Path, v1alpha1Path} {
			t.Run(name+strings.ReplaceAll(version, ".", ""), func(t *testing.T) {
				t.Parallel()
				ns := namespace(t)
				want := releasing(t, ns, "web").Status
				patch(t, alice, one(version, ns, "web")+"/status", body).must(t, http.StatusOK)
				want.Canary.CurrentStepIndex, want.Canary.NextStepIndex, want.Canary.State = 3, -1, v1beta1.BeforeStepUpgrade
				want.CurrentStepIndex, want.CurrentStepState = 3, v1beta1.BeforeStepUpgrade
				want.Decisions = []v1beta1.Decision{{ID: 1, Verb: "jump", User: alice, Step: 1, ToStep: 3, Revision: "v2", Via: "status"}}
				got := get(t, ns, "web").Status
				got.Decisions = decisions(t, ns)
				if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(v1beta1.Progress{}, "LastUpdateTime")); diff != "" {
					t.Errorf("status (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// The error of an impossible jump explains the reason. The error without permission names the permission.
func TestJumpByStatusRefused(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	before := releasing(t, ns, "web")
	path := one(v1beta1Path, ns, "web") + "/status"
	for _, step := range []int{-1, 4, 99} {
		a := patch(t, alice, path, next(step)).must(t, http.StatusUnprocessableEntity)
		if m := a.status().Message; !strings.Contains(m, "status.canaryStatus.nextStepIndex") || !strings.Contains(m, "1 to 3") {
			t.Errorf("step %d is told %q, want the field and the steps there are", step, m)
		}
	}
	a := patch(t, dave, path, next(3)).must(t, http.StatusForbidden)
	if m := a.status().Message; !strings.Contains(m, "create rollouts/jump") {
		t.Errorf("message is %q, want the missing permission in it", m)
	}
	if diff := cmp.Diff(before, get(t, ns, "web")); diff != "" {
		t.Errorf("a refused jump changed something (-before +after):\n%s", diff)
	}
	verb(t, admin, v1beta1Path, ns, "abort", nil).must(t, http.StatusCreated)
	for _, body := range []string{next(3), approval} {
		a = patch(t, alice, path, body).must(t, http.StatusConflict)
		if m := a.status().Message; !strings.Contains(m, "retry") {
			t.Errorf("while aborted %s is told %q, want that retry helps", body, m)
		}
	}
}

// pauseOf changes the pause of one step.
func pauseOf(t *testing.T, as, version, ns string, step, seconds int) answer {
	t.Helper()
	return call(t, request{
		as: as, method: "PATCH", path: one(version, ns, "web"),
		body:    fmt.Sprintf(`[{"op":"add","path":"/spec/strategy/canary/steps/%d/pause","value":{"duration":%d}}]`, step-1, seconds),
		headers: map[string]string{"Content-Type": "application/json-patch+json"},
	})
}

// A gate approves by setting the pause of the waiting step to zero. The approval is recorded like any
// other, and needs the same permission.
func TestApprovalBySpec(t *testing.T) {
	t.Parallel()
	for _, version := range []string{v1beta1Path, v1alpha1Path} {
		t.Run(version[strings.LastIndex(version, "/")+1:], func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			releasing(t, ns, "web")
			a := pauseOf(t, dave, version, ns, 1, 0).must(t, http.StatusForbidden)
			if m := a.status().Message; !strings.Contains(m, "create rollouts/promote") {
				t.Errorf("message is %q, want the missing permission in it", m)
			}
			// Other durations, and other steps, are edits of the plan.
			pauseOf(t, dave, version, ns, 1, 60).must(t, http.StatusOK)
			pauseOf(t, dave, version, ns, 2, 0).must(t, http.StatusOK)
			if ds := decisions(t, ns); len(ds) > 0 {
				t.Errorf("edits of the plan are on record as %+v", ds)
			}
			pauseOf(t, alice, version, ns, 1, 0).must(t, http.StatusOK)
			want := []v1beta1.Decision{{ID: 1, Verb: "promote", User: alice, Step: 1, Revision: "v2", Via: "spec"}}
			if diff := cmp.Diff(want, decisions(t, ns)); diff != "" {
				t.Errorf("decisions (-want +got):\n%s", diff)
			}
			r := get(t, ns, "web")
			if r.Status.CurrentStepState != v1beta1.StepReady || r.Generation != 4 {
				t.Errorf("state %s, generation %d, want StepReady and 4", r.Status.CurrentStepState, r.Generation)
			}
			pauseOf(t, dave, version, ns, 1, 0).must(t, http.StatusOK) // as it is
		})
	}
}

// An approval is recognized even if the same write edits the plan, or if an older client writes the whole
// object without fields that its version lacks.
func TestApprovalBySpecAmongOthers(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	releasing(t, ns, "web")
	call(t, request{
		as: alice, method: "PATCH", path: one(v1beta1Path, ns, "web"),
		body:    `[{"op":"add","path":"/spec/strategy/canary/steps/1/matches","value":[{"queryParams":[{"name":"beta","value":"1"}]}]}]`,
		headers: map[string]string{"Content-Type": "application/json-patch+json"},
	}).must(t, http.StatusOK)
	before := get(t, ns, "web").Spec
	var obj map[string]any
	a := call(t, request{as: dave, method: "GET", path: one(v1alpha1Path, ns, "web")}).must(t, http.StatusOK)
	if err := json.Unmarshal(a.body, &obj); err != nil {
		t.Fatal(err)
	}
	canary := obj["spec"].(map[string]any)["strategy"].(map[string]any)["canary"].(map[string]any)
	canary["steps"].([]any)[0].(map[string]any)["pause"] = map[string]any{"duration": 0}
	canary["disableGenerateCanaryService"] = true
	call(t, request{as: dave, method: "PUT", path: one(v1alpha1Path, ns, "web"), body: obj}).must(t, http.StatusForbidden)
	call(t, request{as: alice, method: "PUT", path: one(v1alpha1Path, ns, "web"), body: obj}).must(t, http.StatusOK)
	want := []v1beta1.Decision{{ID: 1, Verb: "promote", User: alice, Step: 1, Revision: "v2", Via: "spec"}}
	if diff := cmp.Diff(want, decisions(t, ns)); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	after := get(t, ns, "web").Spec
	before.Strategy.Canary.Steps[0].Pause = after.Strategy.Canary.Steps[0].Pause
	before.Strategy.Canary.DisableGenerateCanaryService = new(true)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// An approval of an older client is kept while the release is paused.
func TestApprovalWhilePaused(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	releasing(t, ns, "web")
	verb(t, alice, v1beta1Path, ns, "pause", nil).must(t, http.StatusCreated)
	verb(t, alice, v1beta1Path, ns, "promote", nil).must(t, http.StatusConflict)
	patch(t, alice, one(v1beta1Path, ns, "web")+"/status", approval).must(t, http.StatusOK)
	r := get(t, ns, "web")
	if r.Status.CurrentStepState != v1beta1.StepReady || !r.Status.Canary.Paused {
		t.Errorf("state %s, paused %t, want StepReady and still paused", r.Status.CurrentStepState, r.Status.Canary.Paused)
	}
}
