// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

func verb(t testing.TB, as, version, ns, verb string, body any) answer {
	t.Helper()
	return call(t, request{as: as, method: "POST", path: one(version, ns, "web") + "/" + verb, body: body})
}

// A promotion is recorded with its user, and the response is the Rollout at the next step.
func TestPromote(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	releasing(t, ns, "web")
	r := verb(t, alice, v1beta1Path, ns, "promote", `{"reason":"looks good"}`).must(t, http.StatusCreated).rollout(t)

	want := []v1beta1.Decision{{
		ID: 1, Verb: "promote", User: alice, UID: "uid-of-alice", UserAgent: "test/1",
		Step: 1, Revision: "v2", Reason: "looks good", Via: "verb", Outcome: "applied",
	}}
	if diff := cmp.Diff(want, r.Status.Decisions, cmpopts.IgnoreFields(v1beta1.Decision{}, "Time")); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	if r.Kind != "Rollout" || r.Status.Canary.State != v1beta1.StepUpgrade || r.Status.CurrentStepState != v1beta1.StepUpgrade || r.Status.CurrentStepIndex != 2 {
		t.Errorf("answered a %s at step %d in state %s, want a Rollout at step 2 in StepUpgrade", r.Kind, r.Status.CurrentStepIndex, r.Status.CurrentStepState)
	}
	if c := r.Status.Conditions[1]; c.Type != "Reconciling" || c.Message != r.Status.Message || c.Message != "Rollout is in step(2/3), and upgrade workload to new version" {
		t.Errorf("the message is %q, and of %s %q", r.Status.Message, c.Type, c.Message)
	}
	if r.Generation != 1 {
		t.Errorf("generation is %d, want 1: a verb is no change of the spec", r.Generation)
	}
	again := verb(t, alice, v1beta1Path, ns, "promote", `{}`).must(t, http.StatusConflict)
	if m := again.status().Message; !strings.Contains(m, "by alice") {
		t.Errorf("the second promotion is told %q, want who approved", m)
	}
}

// If many users approve step 1 at once, it is approved once.
func TestPromoteAtOnce(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	releasing(t, ns, "web")
	const n = 20
	codes := make([]int, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { codes[i] = verb(t, alice, v1beta1Path, ns, "promote", `{"expect":{"step":1}}`).code })
	}
	wg.Wait()
	count := map[int]int{}
	for _, c := range codes {
		count[c]++
	}
	if diff := cmp.Diff(map[int]int{http.StatusCreated: 1, http.StatusConflict: n - 1}, count); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if d := get(t, ns, "web").Status.Decisions; len(d) != 1 {
		t.Errorf("%d decisions on record, want 1", len(d))
	}
}

// A request whose response was lost can be repeated.
func TestRequestID(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	releasing(t, ns, "web")
	body := `{"requestID":"build-17"}`
	first := verb(t, alice, v1beta1Path, ns, "promote", body).must(t, http.StatusCreated).rollout(t)
	second := verb(t, alice, v1beta1Path, ns, "promote", body).must(t, http.StatusCreated).rollout(t)
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the repetition changed something (-first +second):\n%s", diff)
	}
	verb(t, admin, v1beta1Path, ns, "promote", body).must(t, http.StatusConflict)
}

// A dry run returns the object that would be stored, and stores nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	before := releasing(t, ns, "web")
	r := verb(t, alice, v1beta1Path, ns, "promote?dryRun=All", `{}`).must(t, http.StatusCreated).rollout(t)
	if r.Status.Canary.State != v1beta1.StepUpgrade || len(r.Status.Decisions) != 1 {
		t.Errorf("a dry run answers %+v, want the step approved", r.Status)
	}
	if diff := cmp.Diff(before.Status, get(t, ns, "web").Status); diff != "" {
		t.Errorf("a dry run stored something (-before +after):\n%s", diff)
	}
}

// Short command lines work: no body, a form, no content type, both versions.
func TestVerbBodies(t *testing.T) {
	t.Parallel()
	bodies := map[string]request{
		"none":              {},
		"none, form":        {headers: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}},
		"empty":             {body: ""},
		"object":            {body: `{}`},
		"object, form":      {body: `{"reason":"r"}`, headers: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}},
		"object, no type":   {body: `{}`, headers: map[string]string{"Content-Type": ""}},
		"named":             {body: `{"metadata":{"name":"web"}}`},
		"kind":              {body: `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"PromoteOptions"}`},
		"asks for protobuf": {body: `{}`, headers: map[string]string{"Accept": "application/vnd.kubernetes.protobuf,application/json"}},
	}
	for name, r := range bodies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			releasing(t, ns, "web")
			r.as, r.method, r.path = alice, "POST", one(v1beta1Path, ns, "web")+"/promote"
			call(t, r).must(t, http.StatusCreated)
		})
	}
	t.Run("v1alpha1", func(t *testing.T) {
		t.Parallel()
		ns := namespace(t)
		releasing(t, ns, "web")
		a := call(t, request{as: alice, method: "POST", path: one(v1alpha1Path, ns, "web") + "/promote"}).must(t, http.StatusCreated)
		if r := a.rollout(t); r.APIVersion != "rollouts.kruise.io/v1alpha1" {
			t.Errorf("answered in %s, want v1alpha1", r.APIVersion)
		}
	})
}

// The errors distinguish malformed requests, missing objects, missing permissions, and impossible
// decisions.
func TestVerbRefusals(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	releasing(t, ns, "web")
	tests := map[string]struct {
		as, path, body string
		code           int
		says           string
	}{
		"another name":      {alice, "web/promote", `{"metadata":{"name":"other"}}`, http.StatusBadRequest, "other"},
		"another kind":      {alice, "web/promote", `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"AbortOptions"}`, http.StatusBadRequest, `is of kind "AbortOptions"; send a PromoteOptions`},
		"an unknown field":  {alice, "web/promote?fieldValidation=Strict", `{"force":true}`, http.StatusBadRequest, "force"},
		"no JSON":           {alice, "web/promote", `promote!`, http.StatusBadRequest, "the body of promote is not a JSON object; leave it out"},
		"a list":            {alice, "web/promote", `[]`, http.StatusBadRequest, "the body of promote is not a JSON object; leave it out"},
		"a Rollout":         {alice, "web/promote", manifest("web", "web"), http.StatusBadRequest, `is of kind "Rollout"; send a PromoteOptions`},
		"no such rollout":   {alice, "other/promote", `{}`, http.StatusNotFound, "other"},
		"no permission":     {dave, "web/promote", `{}`, http.StatusForbidden, "rollouts/promote"},
		"abort is separate": {alice, "web/abort", `{}`, http.StatusForbidden, "rollouts/abort"},
		"another step":      {alice, "web/promote", `{"expect":{"step":2}}`, http.StatusConflict, "at step 1"},
		"another plan":      {alice, "web/promote", `{"expect":{"plan":"x"}}`, http.StatusConflict, "plan"},
		"jump to nowhere":   {alice, "web/jump", `{}`, http.StatusUnprocessableEntity, "step: Required value: the plan has the steps 1 to 3"},
		"jump too far":      {alice, "web/jump", `{"step":4}`, http.StatusUnprocessableEntity, "step: Invalid value: 4: the plan has the steps 1 to 3"},
		"jump elsewhere":    {alice, "web/jump", `{"step":"two"}`, http.StatusBadRequest, "step"},
		"nothing to retry":  {alice, "web/retry", ``, http.StatusConflict, "at step 1 in state StepPaused"},
		"no such verb":      {admin, "web/praise", `{}`, http.StatusNotFound, `"web" has no verb "praise"; there are abort, jump, pause, promote, resume, retry, rollback`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := call(t, request{as: tt.as, method: "POST", path: list(v1beta1Path, ns) + "/" + tt.path, body: tt.body}).must(t, tt.code)
			if m := a.status().Message; !strings.Contains(m, tt.says) {
				t.Errorf("message is %q, want %q in it", m, tt.says)
			}
		})
	}
}

// Verbs refuse an expect with a field that is misspelled, repeated or empty. Otherwise the verb would be
// used without the expectation of the client.
func TestExpectIsUnderstood(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	releasing(t, ns, "web")
	const json, yaml = "application/json", "application/yaml"
	for name, tt := range map[string]struct{ query, media, body, says string }{
		"misspelled":               {"", json, `{"expct":{"step":2}}`, `unknown field "expct"`},
		"misspelled inside":        {"", json, `{"expect":{"step":1,"updatetemplate":"x"}}`, `unknown field "expect.updatetemplate"`},
		"ignored by its client":    {"?fieldValidation=Ignore", json, `{"expct":{"step":2}}`, `unknown field "expct"`},
		"warned of":                {"?fieldValidation=Warn", json, `{"expct":{"step":2}}`, `unknown field "expct"`},
		"twice":                    {"", json, `{"expect":{"step":2},"expect":{"step":1}}`, `duplicate field "expect"`},
		"twice inside":             {"", json, `{"expect":{"step":2,"step":1}}`, `duplicate field "expect.step"`},
		"empty":                    {"", json, `{"expect":{}}`, "expect is empty"},
		"null":                     {"", json, `{"expect":null}`, "expect is empty"},
		"an empty digest":          {"", json, `{"expect":{"step":1,"updateTemplate":""}}`, "expect.updateTemplate is empty"},
		"no step":                  {"", json, `{"expect":{"step":null}}`, "expect.step is empty"},
		"of another type":          {"", json, `{"expect":"1"}`, "expect"},
		"in the query":             {"?expect.step=2", json, `{}`, `"expect.step" is not read from the query`},
		"in the query, empty":      {"?expect=", json, `{}`, `"expect" is not read from the query`},
		"YAML, misspelled":         {"", yaml, "expct:\n  step: 2\n", `unknown field "expct"`},
		"YAML, empty":              {"", yaml, "expect: {}\n", "expect is empty"},
		"YAML, null":               {"", yaml, "expect:\n", "expect is empty"},
		"YAML, an empty digest":    {"", yaml, "expect:\n  updateTemplate: ''\n", "expect.updateTemplate is empty"},
		"a form, as curl calls it": {"", "application/x-www-form-urlencoded", `{"expect":{}}`, "expect is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			a := call(t, request{as: alice, method: "POST", path: one(v1beta1Path, ns, "web") + "/promote" + tt.query, body: tt.body,
				headers: map[string]string{"Content-Type": tt.media}}).must(t, http.StatusBadRequest)
			if m := a.status().Message; !strings.Contains(m, tt.says) {
				t.Errorf("message is %q, want %q in it", m, tt.says)
			}
		})
	}
	if ds := decisions(t, ns); len(ds) > 0 {
		t.Errorf("decided %+v", ds)
	}
}

// A second abort is not an error: the response has a warning, and nothing is written.
func TestAbortTwice(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	releasing(t, ns, "web")
	first := verb(t, admin, v1beta1Path, ns, "abort", `{"reason":"errors"}`).must(t, http.StatusCreated).rollout(t)
	second := verb(t, admin, v1beta1Path, ns, "abort", nil).must(t, http.StatusCreated)
	if len(second.warnings) != 1 || !strings.Contains(second.warnings[0], "aborted already by admin") {
		t.Errorf("warnings are %q, want one that says it is aborted", second.warnings)
	}
	if diff := cmp.Diff(first, second.rollout(t)); diff != "" {
		t.Errorf("the second abort changed something (-first +second):\n%s", diff)
	}
	refused := verb(t, alice, v1beta1Path, ns, "promote", nil).must(t, http.StatusConflict)
	if m := refused.status().Message; !strings.Contains(m, "aborted by admin") {
		t.Errorf("a promotion is told %q, want that it was aborted", m)
	}
}

// After an abort of one template, a user may set another template. A second abort or rollback is recorded,
// and applies to the new template.
func TestAbortOfTheNextTemplate(t *testing.T) {
	t.Parallel()
	for _, again := range []string{"abort", "rollback"} {
		t.Run(again, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			releasing(t, ns, "web")
			bound := verb(t, admin, v1beta1Path, ns, again, nil).must(t, http.StatusCreated).rollout(t)
			bound.Status.Canary.AbortedRevision, bound.Status.Canary.AbortedTemplate = "v2", "digest-of-v2"
			call(t, request{as: controller, method: "PUT", path: one(v1beta1Path, ns, "web") + "/status", body: bound}).must(t, http.StatusOK)

			second := verb(t, admin, v1beta1Path, ns, again, `{"reason":"the next one, too"}`).must(t, http.StatusCreated)
			if len(second.warnings) > 0 {
				t.Errorf("warns %q", second.warnings)
			}
			c := second.rollout(t).Status.Canary
			if c.AbortedRevision != "" || c.AbortedTemplate != "" {
				t.Errorf("still bound to %s (%s)", c.AbortedRevision, c.AbortedTemplate)
			}
			if ds := decisions(t, ns); len(ds) != 2 || string(ds[1].Verb) != again || ds[1].Reason != "the next one, too" {
				t.Errorf("decisions are %+v, want both", ds)
			}
			third := verb(t, admin, v1beta1Path, ns, again, nil).must(t, http.StatusCreated)
			if len(third.warnings) != 1 || !strings.Contains(third.warnings[0], "already by admin") {
				t.Errorf("before the controller has bound the second one, a third warns %q", third.warnings)
			}
		})
	}
}

// Each verb returns the updated Rollout, in both versions. A second use has the documented result.
func TestVerbsOneAfterAnother(t *testing.T) {
	t.Parallel()
	for _, version := range []string{v1beta1Path, v1alpha1Path} {
		t.Run(version[strings.LastIndex(version, "/")+1:], func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			releasing(t, ns, "web")
			uses := []struct {
				verb, body string
				code       int
				warns      string
				reason     string
				step       int32
			}{
				{"resume", `{}`, http.StatusCreated, "not paused", "InRolling", 1},
				{"pause", `{}`, http.StatusCreated, "", "Paused", 1},
				{"pause", `{}`, http.StatusCreated, "paused already by admin", "Paused", 1},
				{"jump", `{"step":2}`, http.StatusCreated, "", "Paused", 2},
				{"resume", `{}`, http.StatusCreated, "", "Paused", 2}, // until the controller has seen it
				{"retry", `{}`, http.StatusConflict, "", "Paused", 2},
				{"abort", `{}`, http.StatusCreated, "", "Aborting", 2},
				{"jump", `{"step":1}`, http.StatusConflict, "", "Aborting", 2},
				{"rollback", `{}`, http.StatusCreated, "", "Aborting", 2},
				{"rollback", `{}`, http.StatusCreated, "rolled back already by admin", "Aborting", 2},
				{"retry", `{}`, http.StatusCreated, "", "Initializing", 1},
				{"rollback", `{}`, http.StatusCreated, "", "Aborting", 1},
			}
			for _, use := range uses {
				a := verb(t, admin, version, ns, use.verb, use.body).must(t, use.code)
				if got := strings.Join(a.warnings, " "); (got == "") != (use.warns == "") || !strings.Contains(got, use.warns) {
					t.Errorf("%s warns %q, want %q", use.verb, got, use.warns)
				}
				r := get(t, ns, "web")
				if got := r.Status.Conditions[0].Reason; got != use.reason || r.Status.CurrentStepIndex != use.step {
					t.Errorf("after %s: %s at step %d, want %s at step %d", use.verb, got, r.Status.CurrentStepIndex, use.reason, use.step)
				}
			}
			var got []string
			for _, d := range decisions(t, ns) {
				place := strconv.Itoa(int(d.Step))
				if d.ToStep != 0 {
					place += fmt.Sprintf(" to %d", d.ToStep)
				}
				got = append(got, fmt.Sprintf("%d %s at %s: %s", d.ID, d.Verb, place, d.Outcome))
			}
			want := []string{
				"1 pause at 1: applied", "2 jump at 1 to 2: superseded", "3 resume at 2: applied", "4 abort at 2: superseded",
				"5 rollback at 2: superseded", "6 retry at 1: superseded", "7 rollback at 1: ",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("decisions (-want +got):\n%s", diff)
			}
		})
	}
}

// While verbs are used, the controller writes the status and users edit the spec. No decision that was
// answered with 201 is lost.
func TestDecisionsSurviveOtherWriters(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	r := releasing(t, ns, "web")
	const rounds = 10
	for i := range rounds {
		stale := r.DeepCopy()
		verb(t, alice, v1beta1Path, ns, "promote", fmt.Sprintf(`{"reason":"round %d"}`, i)).must(t, http.StatusCreated)
		patch(t, alice, one(v1beta1Path, ns, "web"), fmt.Sprintf(`{"metadata":{"labels":{"round":"%d"}}}`, i)).must(t, http.StatusOK)
		// A status that the controller planned before the decision is refused,
		call(t, request{as: controller, method: "PUT", path: one(v1beta1Path, ns, "web") + "/status", body: stale}).must(t, http.StatusConflict)
		// and one that it plans after the decision contains the decision.
		next := get(t, ns, "web")
		next.Status.Decisions = nil
		next.Status.Canary.State = v1beta1.StepPaused
		r = call(t, request{as: controller, method: "PUT", path: one(v1beta1Path, ns, "web") + "/status", body: next}).must(t, http.StatusOK).rollout(t)
	}
	if got := len(r.Status.Decisions); got != rounds {
		t.Errorf("%d decisions on record, want %d", got, rounds)
	}
}
