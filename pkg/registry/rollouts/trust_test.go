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

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// Even if a user fills the record, an abort and all other safety verbs stay possible.
func TestSafetyHasRoom(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	releasing(t, ns, "web")
	reason := strings.Repeat("<", 1024)
	for i := range 230 {
		for _, use := range []string{"pause", "resume"} {
			verb(t, alice, v1beta1Path, ns, use, fmt.Sprintf(`{"reason":%q,"requestID":"%d"}`, reason, i)).must(t, http.StatusCreated)
		}
	}
	var last answer
	for range 201 {
		if last = verb(t, alice, v1beta1Path, ns, "jump", fmt.Sprintf(`{"step":1,"reason":%q}`, reason)); last.code != http.StatusCreated {
			break
		}
	}
	if m := last.must(t, http.StatusConflict).status().Message; !strings.Contains(m, "roll it back, or release another template") {
		t.Errorf("a jump too many is told %q", m)
	}
	for _, use := range []string{"pause", "resume", "abort", "retry", "rollback"} {
		a := verb(t, admin, v1beta1Path, ns, use, nil).must(t, http.StatusCreated)
		if d := a.rollout(t).Status.Decisions; len(a.warnings) > 0 || d[len(d)-1].Verb != v1beta1.Verb(use) || d[len(d)-1].User != admin {
			t.Errorf("%s: warnings %q, and the latest on record is %+v", use, a.warnings, d[len(d)-1])
		}
	}
}

// A repeated request changes nothing while its result is still in effect, and gets a warning afterwards. A
// request with another ID decides again.
func TestRequestIDOvertaken(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	releasing(t, ns, "web")
	abort := func(id string) answer {
		return verb(t, admin, v1beta1Path, ns, "abort", `{"requestID":"`+id+`"}`).must(t, http.StatusCreated)
	}
	abort("night")
	if a := abort("night"); len(a.warnings) > 0 {
		t.Errorf("a repetition in force warns %q", a.warnings)
	}
	verb(t, alice, v1beta1Path, ns, "retry", nil).must(t, http.StatusCreated)
	a := abort("night")
	if len(a.warnings) != 1 || !strings.Contains(a.warnings[0], "since decision 2, retry by alice; nothing was changed") {
		t.Errorf("an overtaken repetition warns %q", a.warnings)
	}
	if a = abort("night-2"); len(a.warnings) > 0 || a.rollout(t).Status.Conditions[0].Reason != "Aborting" {
		t.Errorf("another ID: warnings %q, conditions %+v", a.warnings, a.rollout(t).Status.Conditions)
	}
}

// condition returns a condition as a writer of the status sends it.
func condition(of, status, reason, message string) string {
	encoded, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []map[string]string{
		{"type": of, "status": status, "reason": reason, "message": message},
	}}})
	if err != nil {
		panic(err)
	}
	return string(encoded)
}

// Only users who may write the progress of releases can set Weir's conditions and reasons.
func TestConditionsStayOurs(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	before := releasing(t, ns, "web").Status
	path := one(v1beta1Path, ns, "web") + "/status"
	for _, of := range rollouts.ConditionTypes {
		for _, reason := range []string{"Aborted", "Whatever"} {
			if of == rollouts.ConditionStalled && reason == "Whatever" {
				continue
			}
			patch(t, dave, path, condition(string(of), "True", reason, "forged")).must(t, http.StatusOK)
		}
	}
	if diff := cmp.Diff(before, get(t, ns, "web").Status); diff != "" {
		t.Errorf("somebody forged (-before +after):\n%s", diff)
	}
	patch(t, dave, path, condition("Gate", "True", "Any\u202e", "a\x1b[2Jb\r\nc")).must(t, http.StatusOK)
	want := v1beta1.Condition{Type: "Gate", Status: "True", Reason: "Any\ufffd", Message: "a\ufffd[2Jb\ufffd\ufffdc"}
	got := get(t, ns, "web").Status.Conditions
	if diff := cmp.Diff(want, got[len(got)-1], cmpopts.IgnoreFields(v1beta1.Condition{}, "LastUpdateTime", "LastTransitionTime")); diff != "" {
		t.Errorf("a condition of others (-want +got):\n%s", diff)
	}
}

// Conditions of other controllers cannot imitate those of Weir.
func TestConditionsReadAsThemselves(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	before := releasing(t, ns, "web").Status
	path := one(v1beta1Path, ns, "web") + "/status"
	for _, of := range []string{
		"protected", "PROTECTED", "admissionbypassed", "progressing", "stalled", "Pr\u043etected", "Prote\u0441ted", "\u017ftalled", "Protected ", " Protected", "Pro tected",
		"rollouts.kruise.io/Protected", "Prote\u200bcted", "-", "a/b/c", "",
	} {
		for _, as := range []string{dave, admin} {
			a := patch(t, as, path, condition(of, "True", "Whatever", "forged"))
			if m := a.must(t, http.StatusUnprocessableEntity).status().Message; !strings.Contains(m, "type: Invalid value") {
				t.Errorf("%q by %s is told %q", of, as, m)
			}
		}
	}
	if diff := cmp.Diff(before, get(t, ns, "web").Status); diff != "" {
		t.Errorf("somebody forged (-before +after):\n%s", diff)
	}
	for _, of := range []string{"Gate", "example.com/Protected", "Protected-by-us"} {
		patch(t, dave, path, condition(of, "True", "Whatever", "")).must(t, http.StatusOK)
	}
}

// Control characters are not recorded.
func TestTextIsText(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	releasing(t, ns, "web")
	for _, text := range []string{"a\x1b[31mb", "a\r\nb", "a\tb", "a\u202eb", "a\u2066b", "a\u200fb", "a\u2028b", "a\u0000b", "a\u200bb", "a\u009bb"} {
		for _, field := range []string{"reason", "requestID"} {
			a := verb(t, alice, v1beta1Path, ns, "promote", string(encode(t, map[string]string{field: text}))).must(t, http.StatusUnprocessableEntity)
			if m := a.status().Message; !strings.Contains(m, field+": Invalid value") || !strings.Contains(m, "remove U+") {
				t.Errorf("%q as %s is told %q", text, field, m)
			}
		}
	}
	a := call(t, request{
		as: alice, method: "POST", path: one(v1beta1Path, ns, "web") + "/promote", body: `{"reason":"ok, 好, 👩\u200d🚀"}`,
		headers: map[string]string{"User-Agent": "me\tand\u202eyou" + strings.Repeat("ü", 300)},
	}).must(t, http.StatusCreated).rollout(t)
	if got := a.Status.Decisions[0]; got.UserAgent != "me\ufffdand\ufffdyou"+strings.Repeat("ü", 245)+"…" || got.Reason != "ok, 好, 👩\u200d🚀" {
		t.Errorf("on record: %q, %q", got.UserAgent, got.Reason)
	}
}

// A reference that no cluster can serve is refused, and claims nothing.
func TestReferencesAreStrict(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	create(t, ns, "web", "web")
	path := one(v1beta1Path, ns, "web")
	for _, version := range []string{"../v1", "./v1", "a/../v1", "..", ".", "apps/..", "apps/", "/v1", "/", "Apps/v1", "a b/v1", "a.b/v1/x", "apps/v 1", "apps/v1\n", "%2e%2e/v1", "-a/v1"} {
		body := string(encode(t, map[string]any{"spec": map[string]any{"workloadRef": map[string]string{"apiVersion": version, "kind": "StatefulSet"}}}))
		refused(t, patch(t, alice, path, body), "spec.workloadRef.apiVersion")
		refs := []map[string]string{{"apiVersion": version, "kind": "VirtualService", "name": "web"}}
		body = string(encode(t, map[string]any{"spec": map[string]any{"strategy": map[string]any{"canary": map[string]any{
			"trafficRoutings": []map[string]any{{"service": "web", "customNetworkRefs": refs}},
		}}}}))
		refused(t, patch(t, alice, path, body), "customNetworkRefs[0].apiVersion")
	}
	for _, kind := range []string{"..", ".", "a/b", "A b", "Stateful.Set", "\u202eteS", "9Set", strings.Repeat("a", 64)} {
		body := string(encode(t, map[string]any{"spec": map[string]any{"workloadRef": map[string]string{"apiVersion": "a.b/v1", "kind": kind}}}))
		refused(t, patch(t, alice, path, body), "spec.workloadRef.kind")
	}
}

func refused(t *testing.T, a answer, field string) {
	t.Helper()
	if m := a.must(t, http.StatusUnprocessableEntity).status().Message; !strings.Contains(m, field) {
		t.Errorf("the answer should name %s: %s", field, m)
	}
}

// While objects of a release exist, the spec keeps the fields by which Weir finds them, also in a write
// that disables or enables the Rollout.
func TestInFlight(t *testing.T) {
	t.Parallel()
	const workload = `"workloadRef":{"name":"other"}`
	for name, tt := range map[string]struct {
		phase      v1beta1.Phase
		finalising v1beta1.FinalisingStep
		code       int
	}{
		"progressing":             {v1beta1.PhaseProgressing, "", http.StatusUnprocessableEntity},
		"disabling":               {v1beta1.PhaseDisabling, v1beta1.FinalisingRemoveRoute, http.StatusUnprocessableEntity},
		"disabling, just begun":   {v1beta1.PhaseDisabling, "", http.StatusUnprocessableEntity},
		"terminating":             {v1beta1.PhaseTerminating, "", http.StatusUnprocessableEntity},
		"enabled, with leftovers": {v1beta1.PhaseInitial, v1beta1.FinalisingRemoveRoute, http.StatusUnprocessableEntity},
		"healthy, with leftovers": {v1beta1.PhaseHealthy, v1beta1.FinalisingRemoveRoute, http.StatusUnprocessableEntity},
		"disabled":                {v1beta1.PhaseDisabled, v1beta1.FinalisingStep("END"), http.StatusOK},
		"initial":                 {v1beta1.PhaseInitial, "", http.StatusOK},
		"healthy":                 {v1beta1.PhaseHealthy, "", http.StatusOK},
	} {
		for how, body := range map[string]string{
			"alone": `{"spec":{` + workload + `}}`, "and disable": `{"spec":{"disabled":true,` + workload + `}}`, "and enable": `{"spec":{"disabled":false,` + workload + `}}`,
			"routers": `{"spec":{"disabled":false,"strategy":{"canary":{"trafficRoutings":null}}}}`,
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				ns := namespace(t)
				body, create := body, strings.Replace(manifest("web", "web"), `"canary": {`, `"canary": {"trafficRoutings":[{"service":"web","ingress":{"name":"web"}}],`, 1)
				if how != "and disable" {
					create = strings.Replace(create, `"spec": {`, `"spec": {"disabled": true,`, 1)
				}
				r := call(t, request{as: alice, method: "POST", path: list(v1beta1Path, ns), body: create}).must(t, http.StatusCreated).rollout(t)
				r.Status.Phase, r.Status.Canary.FinalisingStep = tt.phase, tt.finalising
				call(t, request{as: controller, method: "PUT", path: one(v1beta1Path, ns, "web") + "/status", body: r}).must(t, http.StatusOK)
				patch(t, alice, one(v1beta1Path, ns, "web"), body).must(t, tt.code)
			})
		}
	}
}

// The objects of a release are deleted with the Rollout, whatever the propagation policy is.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	path := one(v1beta1Path, ns, "web")
	releasing(t, ns, "web")
	left := func(a answer) {
		t.Helper()
		if m := a.must(t, http.StatusConflict).status().Message; !strings.Contains(m, "delete with propagationPolicy Background") {
			t.Errorf("told %q", m)
		}
	}
	left(call(t, request{as: alice, method: "DELETE", path: path + "?propagationPolicy=Orphan"}))
	left(call(t, request{as: alice, method: "DELETE", path: path + "?orphanDependents=true"}))
	left(call(t, request{as: alice, method: "DELETE", path: path, body: `{"propagationPolicy":"Orphan"}`}))
	patch(t, alice, path, `{"metadata":{"finalizers":["orphan"]}}`).must(t, http.StatusOK)
	left(call(t, request{as: alice, method: "DELETE", path: path}))
	left(call(t, request{as: alice, method: "DELETE", path: list(v1beta1Path, ns) + "?propagationPolicy=Orphan"}))
	if r := get(t, ns, "web"); r.DeletionTimestamp != nil {
		t.Error("it is being deleted")
	}
	r := call(t, request{as: alice, method: "DELETE", path: path + "?propagationPolicy=Background"}).must(t, http.StatusOK).rollout(t)
	if diff := cmp.Diff([]string{rollouts.FinalizerRollout}, r.Finalizers); r.DeletionTimestamp == nil || diff != "" {
		t.Errorf("deleted %v, finalizers (-want +got)\n%s", r.DeletionTimestamp, diff)
	}
	// Without a release there are no objects of Weir, and the propagation policy applies to other
	// dependents.
	create(t, ns, "rest", "rest")
	call(t, request{as: alice, method: "DELETE", path: one(v1beta1Path, ns, "rest") + "?propagationPolicy=Orphan"}).must(t, http.StatusOK)
}

// A Rollout that has returned its workload no longer claims it, even if a finalizer keeps the Rollout.
func TestKeptClaimsNothing(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	path := one(v1beta1Path, ns, "web")
	releasing(t, ns, "web")
	patch(t, alice, path, `{"metadata":{"finalizers":["example.com/keep"]}}`).must(t, http.StatusOK)
	call(t, request{as: alice, method: "DELETE", path: path}).must(t, http.StatusOK)
	next := request{as: alice, method: "POST", path: list(v1beta1Path, ns), body: manifest("next", "web")}
	call(t, next).must(t, http.StatusConflict)
	patch(t, controller, path+"/status", `{"status":{"phase":"Terminating"}}`).must(t, http.StatusOK)
	call(t, next).must(t, http.StatusConflict)
	patch(t, controller, path, `{"metadata":{"finalizers":["example.com/keep"]}}`).must(t, http.StatusOK)
	call(t, next).must(t, http.StatusCreated)
	patch(t, alice, path, `{"metadata":{"finalizers":null}}`).must(t, http.StatusOK)
	call(t, request{as: alice, method: "POST", path: list(v1beta1Path, ns), body: manifest("third", "web")}).must(t, http.StatusConflict)
}

// Users who may write the resource cannot write BatchReleases of Rollouts, or histories.
func TestWhatDrivesIsReserved(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	r := releasing(t, ns, "web")
	base := v1beta1Path + "/namespaces/" + ns + "/batchreleases"
	owned := fmt.Sprintf(`,"ownerReferences":[{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"Rollout","name":"web","uid":%q,"controller":true}]`, r.UID)
	batch := func(name, owners string) string {
		return `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"BatchRelease","metadata":{"name":"` + name + `"` + owners + `},
			"spec":{"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"releasePlan":{"batches":[{"canaryReplicas":"20%"}],"batchPartition":0}}}`
	}
	forbidden := func(a answer) {
		t.Helper()
		if m := a.must(t, http.StatusForbidden).status().Message; !strings.Contains(m, `this BatchRelease belongs to Rollout "web"; edit the Rollout`) {
			t.Errorf("told %q", m)
		}
	}
	const ship = `{"spec":{"releasePlan":{"batchPartition":null}}}`
	const apply = "application/apply-patch+yaml"
	// They cannot do so before the Rollout has created its BatchRelease, in any way,
	forbidden(call(t, request{as: dave, method: "POST", path: base, body: batch("web", "")}))
	forbidden(call(t, request{as: dave, method: "PATCH", path: base + "/web?fieldManager=me", body: batch("web", ""), headers: typed(apply)}))
	call(t, request{as: controller, method: "POST", path: base, body: batch("web", owned)}).must(t, http.StatusCreated)
	// and not after.
	forbidden(patch(t, dave, base+"/web", ship))
	forbidden(patch(t, dave, base+"/web?dryRun=All", ship))
	forbidden(patch(t, dave, base+"/web", `{"metadata":{"ownerReferences":null}}`))
	forbidden(patch(t, dave, base+"/web/status", `{"status":{"canaryStatus":{"batchState":"Ready"},"phase":"Completed"}}`))
	forbidden(patch(t, dave, v1alpha1Path+"/namespaces/"+ns+"/batchreleases/web", ship))
	forbidden(call(t, request{as: dave, method: "PATCH", path: base + "/web?fieldManager=me&force=true", body: strings.Replace(batch("web", ""), "20%", "100%", 1), headers: typed(apply)}))
	patch(t, dave, base+"/web", `{"metadata":{"labels":{"team":"shop"}}}`).must(t, http.StatusOK)
	patch(t, controller, base+"/web", `{"spec":{"releasePlan":{"batchPartition":null}}}`).must(t, http.StatusOK)
	// They cannot delete it before its Rollout, or remove its finalizer.
	patch(t, controller, base+"/web", `{"metadata":{"finalizers":["rollouts.kruise.io/batch-release-finalizer","example.com/mine"]}}`).must(t, http.StatusOK)
	forbidden(call(t, request{as: dave, method: "DELETE", path: base + "/web"}))
	forbidden(call(t, request{as: dave, method: "DELETE", path: base + "/web?propagationPolicy=Foreground"}))
	forbidden(call(t, request{as: dave, method: "DELETE", path: base}))
	forbidden(patch(t, dave, base+"/web", `{"metadata":{"finalizers":["example.com/mine"]}}`))
	patch(t, dave, base+"/web", `{"metadata":{"finalizers":["rollouts.kruise.io/batch-release-finalizer"]}}`).must(t, http.StatusOK)
	// A BatchRelease without a Rollout belongs to its writer.
	call(t, request{as: dave, method: "POST", path: base, body: batch("own", "")}).must(t, http.StatusCreated)
	patch(t, dave, base+"/own", ship).must(t, http.StatusOK)
	patch(t, dave, base+"/own/status", `{"status":{"phase":"Progressing"}}`).must(t, http.StatusOK)
	// It belongs to the Rollout until the Rollout has ended it. If the owner is gone, the reference may be
	// removed.
	call(t, request{as: alice, method: "DELETE", path: one(v1beta1Path, ns, "web")}).must(t, http.StatusOK)
	forbidden(patch(t, dave, base+"/web", `{"metadata":{"ownerReferences":null}}`))
	patch(t, controller, one(v1beta1Path, ns, "web"), `{"metadata":{"finalizers":null}}`).must(t, http.StatusOK)
	patch(t, dave, base+"/web", `{"metadata":{"ownerReferences":null}}`).must(t, http.StatusOK)
	call(t, request{as: dave, method: "DELETE", path: base + "/web"}).must(t, http.StatusOK)

	// An existing BatchRelease cannot get a Rollout as its owner, however the reference spells the kind.
	call(t, request{as: dave, method: "POST", path: base, body: batch("late", "")}).must(t, http.StatusCreated)
	late := create(t, ns, "late", "late")
	for _, kind := range []string{"Rollout", "rollout", "Foo"} {
		owner := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"rollouts.kruise.io/v1beta1","kind":%q,"name":"late","uid":%q,"controller":true}]}}`, kind, late.UID)
		if m := patch(t, dave, base+"/late", owner).must(t, http.StatusForbidden).status().Message; !strings.Contains(m, `Rollout "late"`) {
			t.Errorf("an owner of kind %s is told %q", kind, m)
		}
	}
	other := `{"metadata":{"ownerReferences":[{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"Rollout","name":"late","uid":"x","controller":true}]}}`
	patch(t, dave, base+"/own", other).must(t, http.StatusForbidden)
	call(t, request{as: dave, method: "DELETE", path: base + "/own"}).must(t, http.StatusOK)
	call(t, request{as: dave, method: "DELETE", path: base + "/late"}).must(t, http.StatusOK)

	history := older(ns, "rollouthistories")
	forged := `{"apiVersion":"rollouts.kruise.io/v1alpha1","kind":"RolloutHistory","metadata":{"name":"web-1"},"spec":{"rollout":{"rolloutID":"1","name":"web"}}}`
	call(t, request{as: dave, method: "POST", path: history, body: forged}).must(t, http.StatusForbidden)
	call(t, request{as: controller, method: "POST", path: history, body: forged}).must(t, http.StatusCreated)
	for path, body := range map[string]string{
		"":        `{"spec":{"rollout":{"rolloutID":"2"}}}`,
		"/status": `{"status":{"outcome":"succeeded","decisions":[{"id":1,"verb":"promote","user":"alice","time":"2020-01-01T00:00:00Z","via":"verb"}]}}`,
	} {
		patch(t, dave, history+"/web-1"+path, body).must(t, http.StatusForbidden)
	}
	patch(t, dave, history+"/web-1", `{"metadata":{"labels":{"rollouts.kruise.io/rollout-name":"other"}}}`).must(t, http.StatusForbidden)
	patch(t, dave, history+"/web-1", `{"metadata":{"annotations":{"seen":"yes"}}}`).must(t, http.StatusOK)
}
