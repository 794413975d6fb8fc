// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const routingManifest = `{"apiVersion":"rollouts.kruise.io/v1alpha1","kind":"TrafficRouting","metadata":{"name":"web"},
	"spec":{"objectRef":[{"service":"web","ingress":{"name":"web","classType":""}}],
		"strategy":{"weight":0,"matches":[{"headers":[{"name":"user-agent","value":"pc"}]},{}]}},
	"status":{"phase":"Healthy"}}`

func older(ns, resource string) string { return v1alpha1Path + "/namespaces/" + ns + "/" + resource }

// fields decodes the response and removes values that differ between runs.
func (a answer) fields(t *testing.T) map[string]any {
	t.Helper()
	fields := decoded[map[string]any](t, a)
	metadata, ok := fields["metadata"].(map[string]any)
	if !ok {
		t.Fatalf("no metadata in %s", a.body)
	}
	for _, key := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "namespace"} {
		delete(metadata, key)
	}
	return fields
}

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

// A TrafficRouting is returned as written, with the defaults of the CRD. A write of the spec does not
// change the status, and vice versa.
func TestTrafficRouting(t *testing.T) {
	t.Parallel()
	path := older(namespace(t), "trafficroutings")
	created := call(t, request{as: alice, method: "POST", path: path, body: routingManifest}).must(t, http.StatusCreated)
	want := parsed(t, `{"apiVersion":"rollouts.kruise.io/v1alpha1","kind":"TrafficRouting","metadata":{"name":"web","generation":1},
		"spec":{"objectRef":[{"service":"web","gracePeriodSeconds":3,"ingress":{"name":"web","classType":""}}],
			"strategy":{"weight":0,"matches":[{"headers":[{"type":"Exact","name":"user-agent","value":"pc"}]},{}]}}}`)
	if diff := cmp.Diff(want, created.fields(t)); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	written := patch(t, controller, path+"/web/status", `{"metadata":{"labels":{"a":"b"}},"spec":{"strategy":{"weight":5}},"status":{"phase":"Progressing","message":"on it"}}`)
	want["status"] = map[string]any{"phase": "Progressing", "message": "on it"}
	if diff := cmp.Diff(want, written.must(t, http.StatusOK).fields(t)); diff != "" {
		t.Errorf("after a write of the status (-want +got):\n%s", diff)
	}
	changed := patch(t, alice, path+"/web", `{"spec":{"strategy":{"weight":20,"matches":null}},"status":{"phase":"Healthy"}}`).must(t, http.StatusOK).fields(t)
	want["metadata"] = map[string]any{"name": "web", "generation": float64(2)}
	want["spec"].(map[string]any)["strategy"] = map[string]any{"weight": float64(20)}
	if diff := cmp.Diff(want, changed); diff != "" {
		t.Errorf("after a write of the spec (-want +got):\n%s", diff)
	}
	refused := patch(t, alice, path+"/web", `{"spec":{"strategy":{"weight":101}}}`).must(t, http.StatusUnprocessableEntity)
	if message := refused.status().Message; !strings.Contains(message, "spec.strategy.weight") || !strings.Contains(message, "0 to 100") {
		t.Errorf("refused with %q, want the field and the fix", message)
	}
	call(t, request{as: alice, method: "GET", path: strings.Replace(path, "v1alpha1", "v1beta1", 1) + "/web"}).must(t, http.StatusNotFound)
}

// A history may contain any JSON, which keeps its value.
func TestRolloutHistory(t *testing.T) {
	t.Parallel()
	path := older(namespace(t), "rollouthistories")
	const spec = `{"rollout":{"rolloutID":"1","name":"web","data":{"z":{"big":12345678901234567890,"small":1.50,"none":null},"a":["<&>",{}],"empty":{}}},
		"workload":{"apiVersion":"apps/v1","kind":"Deployment","name":"web","data":["a",1,null]},
		"service":{"name":"","data":"text"},"trafficRouting":{"ingress":{"name":"web","data":{"spec":{}}}}}`
	manifest := `{"apiVersion":"rollouts.kruise.io/v1alpha1","kind":"RolloutHistory","metadata":{"name":"web-1"},"spec":` + spec + `}`
	created := call(t, request{as: controller, method: "POST", path: path, body: manifest}).must(t, http.StatusCreated)
	if !strings.Contains(string(created.body), "12345678901234567890") || !strings.Contains(string(created.body), "1.50") {
		t.Errorf("numbers are not as written: %s", created.body)
	}
	want := map[string]any{
		"apiVersion": "rollouts.kruise.io/v1alpha1", "kind": "RolloutHistory",
		"metadata": map[string]any{"name": "web-1", "generation": float64(1)}, "spec": parsed(t, spec),
	}
	read := call(t, request{as: controller, method: "GET", path: path + "/web-1"}).must(t, http.StatusOK)
	if diff := cmp.Diff(want, read.fields(t)); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	// The same value in another order or with white space is not a change.
	var object map[string]any
	if err := json.Unmarshal(read.body, &object); err != nil {
		t.Fatal(err)
	}
	object["spec"] = json.RawMessage(strings.Replace(spec, `{"z":{"big":12345678901234567890,"small":1.50,"none":null},`, `{ "z" : {"small":1.50,"none":null,"big":12345678901234567890},`, 1))
	again := call(t, request{as: controller, method: "PUT", path: path + "/web-1", body: object}).must(t, http.StatusOK)
	if diff := cmp.Diff(want, again.fields(t)); diff != "" {
		t.Errorf("written again (-want +got):\n%s", diff)
	}
	done := patch(t, controller, path+"/web-1/status", `{"status":{"phase":"completed","canarySteps":[{"canaryStepIndex":1,"pods":[{"name":"web-x","ip":"10.0.0.1","nodeName":"n"}]},{"pods":[]}]}}`)
	want["status"] = parsed(t, `{"phase":"completed","canarySteps":[{"canaryStepIndex":1,"pods":[{"name":"web-x","ip":"10.0.0.1","nodeName":"n"}]},{"pods":[]}]}`)
	if diff := cmp.Diff(want, done.must(t, http.StatusOK).fields(t)); diff != "" {
		t.Errorf("completed (-want +got):\n%s", diff)
	}
}

// As in a list of custom resources, each item has its apiVersion and kind.
func TestItemsHaveTypes(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	create(t, ns, "web", "web")
	call(t, request{as: alice, method: "POST", path: older(ns, "trafficroutings"), body: routingManifest}).must(t, http.StatusCreated)
	for path, want := range map[string]metav1.TypeMeta{
		list(v1beta1Path, ns):        {APIVersion: "rollouts.kruise.io/v1beta1", Kind: "Rollout"},
		list(v1alpha1Path, ns):       {APIVersion: "rollouts.kruise.io/v1alpha1", Kind: "Rollout"},
		older(ns, "trafficroutings"): {APIVersion: "rollouts.kruise.io/v1alpha1", Kind: "TrafficRouting"},
	} {
		got := decoded[struct{ Items []metav1.TypeMeta }](t, call(t, request{as: alice, method: "GET", path: path}).must(t, http.StatusOK))
		if diff := cmp.Diff([]metav1.TypeMeta{want}, got.Items); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// An empty field differs from an absent one, as in a CRD. A finalizer without a domain causes a warning.
func TestLikeACRD(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	create(t, ns, "web", "web")
	a := patch(t, alice, one(v1beta1Path, ns, "web"), `{"metadata":{"finalizers":["mine"]},"spec":{"strategy":{"paused":false,"canary":{"trafficRoutings":[]}}}}`)
	strategy := a.must(t, http.StatusOK).fields(t)["spec"].(map[string]any)["strategy"].(map[string]any)
	if paused, ok := strategy["paused"]; !ok || paused != false || strategy["canary"].(map[string]any)["trafficRoutings"] == nil {
		t.Errorf("the strategy reads %v, want what was written", strategy)
	}
	if r := a.rollout(t); r.Generation != 2 {
		t.Errorf("generation %d, want 2", r.Generation)
	}
	if len(a.warnings) != 1 || !strings.Contains(a.warnings[0], "example.com/mine") {
		t.Errorf("warnings are %q, want one about the finalizer", a.warnings)
	}
	patch(t, alice, one(v1beta1Path, ns, "web"), `{"spec":{"strategy":{"canary":{"trafficRoutings":null}}}}`).must(t, http.StatusOK)
	again := patch(t, alice, one(v1beta1Path, ns, "web"), `{"metadata":{"labels":{"a":"b"}}}`).must(t, http.StatusOK)
	if r := again.rollout(t); r.Generation != 3 || len(again.warnings) > 0 {
		t.Errorf("generation %d, warnings %q after a change of metadata", r.Generation, again.warnings)
	}
}

// v1alpha1 does not limit the number of steps, so a Rollout may have more steps than v1beta1 accepts. In
// v1beta1, everything but the steps can be changed, and the Rollout can be deleted.
func TestStoredBeforeTheRule(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	steps := strings.Repeat(`{"replicas":1},`, 59) + `{"replicas":2}`
	old := `{"apiVersion":"rollouts.kruise.io/v1alpha1","kind":"Rollout","metadata":{"name":"web"},"spec":{
		"objectRef":{"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}},"strategy":{"canary":{"steps":[` + steps + `]}}}}`
	call(t, request{as: alice, method: "POST", path: list(v1alpha1Path, ns), body: old}).must(t, http.StatusCreated)
	path := one(v1beta1Path, ns, "web")
	patch(t, alice, path, `{"spec":{"strategy":{"paused":true}},"metadata":{"labels":{"a":"b"}}}`).must(t, http.StatusOK)
	refused := patch(t, alice, path, `{"spec":{"strategy":{"canary":{"steps":[{"replicas":1},`+steps+`]}}}}`).must(t, http.StatusUnprocessableEntity)
	if message := refused.status().Message; !strings.Contains(message, "spec.strategy.canary.steps: Too many") {
		t.Errorf("refused with %q, want that there are too many steps", message)
	}
	patch(t, alice, path, `{"spec":{"strategy":{"canary":{"steps":[{"replicas":1}]}}}}`).must(t, http.StatusOK)

	patch(t, alice, one(v1alpha1Path, ns, "web"), `{"spec":{"strategy":{"canary":{"steps":[`+steps+`]}}}}`).must(t, http.StatusOK)
	call(t, request{as: alice, method: "DELETE", path: path}).must(t, http.StatusOK)
	patch(t, controller, path, `{"metadata":{"finalizers":null}}`).must(t, http.StatusOK)
	call(t, request{as: alice, method: "GET", path: path}).must(t, http.StatusNotFound)
}

// The columns are those of OpenKruise.
func TestOlderTables(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	call(t, request{as: alice, method: "POST", path: older(ns, "trafficroutings"), body: routingManifest}).must(t, http.StatusCreated)
	for resource, want := range map[string]struct{ columns, rows [][]any }{
		"trafficroutings":  {columns: [][]any{{"Name", "STATUS", "MESSAGE", "AGE"}}, rows: [][]any{{"web", nil, nil}}},
		"rollouthistories": {columns: [][]any{{"Name", "Age"}}},
	} {
		a := call(t, request{as: alice, method: "GET", path: older(ns, resource), headers: map[string]string{
			"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io",
		}}).must(t, http.StatusOK)
		table := decoded[metav1.Table](t, a)
		var columns []any
		for _, c := range table.ColumnDefinitions {
			columns = append(columns, c.Name)
		}
		var rows [][]any
		for _, r := range table.Rows {
			rows = append(rows, r.Cells[:len(r.Cells)-1])
		}
		if diff := cmp.Diff(want.columns, [][]any{columns}); diff != "" {
			t.Errorf("%s: columns (-want +got):\n%s", resource, diff)
		}
		if diff := cmp.Diff(want.rows, rows); diff != "" {
			t.Errorf("%s: rows (-want +got):\n%s", resource, diff)
		}
	}
}

// Server-side apply works for every kind, and each field has its manager.
func TestApplyHistory(t *testing.T) {
	t.Parallel()
	path := older(namespace(t), "rollouthistories") + "/web-1?fieldManager=test"
	apply := func(data string) answer {
		return call(t, request{
			as: controller, method: "PATCH", path: path,
			body:    `{"apiVersion":"rollouts.kruise.io/v1alpha1","kind":"RolloutHistory","metadata":{"name":"web-1"},"spec":{"service":{"name":"web","data":` + data + `}}}`,
			headers: map[string]string{"Content-Type": "application/apply-patch+yaml"},
		})
	}
	apply(`{"a":{"b":1}}`).must(t, http.StatusCreated)
	got := apply(`{"a":{"c":[1,2]}}`).must(t, http.StatusOK).fields(t)["spec"]
	if diff := cmp.Diff(parsed(t, `{"service":{"name":"web","data":{"a":{"c":[1,2]}}}}`), got); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
	apply(`"text"`).must(t, http.StatusOK)
}
