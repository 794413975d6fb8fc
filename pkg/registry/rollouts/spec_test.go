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

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// When a user creates a Rollout, the server sets the status, the generation, the finalizer and the hash of
// the plan.
func TestCreate(t *testing.T) {
	t.Parallel()
	r := create(t, namespace(t), "web", "web")

	type facts struct {
		Generation int64
		Finalizers []string
		Phase      v1beta1.Phase
		Message    string
		Canary     bool
		Conditions []string
	}
	got := facts{r.Generation, r.Finalizers, r.Status.Phase, r.Status.Message, r.Status.Canary != nil, nil}
	for _, c := range r.Status.Conditions {
		got.Conditions = append(got.Conditions, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
	}
	want := facts{1, []string{"rollouts.kruise.io/rollout"}, v1beta1.PhaseInitial, "", true, []string{"Reconciling True Initial"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	if len(r.Annotations["rollouts.kruise.io/hash"]) != 64 {
		t.Errorf("annotations are %v, want a hash of the plan", r.Annotations)
	}
}

// Argo CD reads status.canaryStatus without a nil check.
func TestCreateHasWhatHealthChecksIndex(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	a := call(t, request{as: alice, method: "POST", path: list(v1beta1Path, ns), body: manifest("web", "web")}).must(t, http.StatusCreated)
	var raw struct {
		Status map[string]any `json:"status"`
	}
	if err := json.Unmarshal(a.body, &raw); err != nil {
		t.Fatal(err)
	}
	if raw.Status["canaryStatus"] == nil {
		t.Errorf("status is %v, want canaryStatus in it", raw.Status)
	}
}

// The generation counts changes of the spec, in either version.
func TestGeneration(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	before := create(t, ns, "web", "web")
	hash := before.Annotations["rollouts.kruise.io/hash"]
	steps := []struct {
		name, path, patch string
		generation        int64
		sameHash          bool
	}{
		{"a label", one(v1beta1Path, ns, "web"), `{"metadata":{"labels":{"a":"b"}}}`, 1, true},
		{"the status by the main resource", one(v1beta1Path, ns, "web"), `{"status":{"phase":"Healthy"}}`, 1, true},
		{"a pause", one(v1beta1Path, ns, "web"), `{"spec":{"strategy":{"paused":true}}}`, 2, true},
		{"a step", one(v1beta1Path, ns, "web"), `{"spec":{"strategy":{"canary":{"steps":[{"replicas":"30%"},{"replicas":"50%"},{"replicas":"100%"}]}}}}`, 3, false},
		{"an older version", one(v1alpha1Path, ns, "web"), `{"spec":{"strategy":{"paused":false}}}`, 4, false},
		{"a forged hash", one(v1beta1Path, ns, "web"), `{"metadata":{"annotations":{"rollouts.kruise.io/hash":"x"}}}`, 4, false},
		{"no finalizer", one(v1beta1Path, ns, "web"), `{"metadata":{"finalizers":null}}`, 4, false},
	}
	for _, s := range steps {
		patch(t, alice, s.path, s.patch).must(t, http.StatusOK)
		r := get(t, ns, "web")
		got := r.Annotations["rollouts.kruise.io/hash"]
		if r.Generation != s.generation || (got == hash) != s.sameHash || len(got) != 64 {
			t.Errorf("after %s: generation %d and hash %s, want generation %d, same hash %t", s.name, r.Generation, got, s.generation, s.sameHash)
		}
		if diff := cmp.Diff([]string{"rollouts.kruise.io/rollout"}, r.Finalizers); diff != "" {
			t.Errorf("after %s: finalizers (-want +got):\n%s", s.name, diff)
		}
		if r.Status.Phase != v1beta1.PhaseInitial {
			t.Errorf("after %s: phase %s, want the status as it was", s.name, r.Status.Phase)
		}
	}
}

// A PUT of the spec or the status needs a current resourceVersion.
func TestPutNeedsResourceVersion(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	r := create(t, ns, "web", "web")
	old := r.ResourceVersion
	patch(t, alice, one(v1beta1Path, ns, "web"), `{"metadata":{"labels":{"a":"b"}}}`).must(t, http.StatusOK)
	for _, path := range []string{one(v1beta1Path, ns, "web"), one(v1beta1Path, ns, "web") + "/status"} {
		for _, c := range []struct {
			version string
			code    int
		}{{"", http.StatusUnprocessableEntity}, {old, http.StatusConflict}} {
			r.ResourceVersion = c.version
			a := call(t, request{as: controller, method: "PUT", path: path, body: r})
			if a.code != c.code {
				t.Errorf("PUT %s with resourceVersion %q: %d, want %d: %s", path, c.version, a.code, c.code, a.body)
			}
		}
	}
	call(t, request{as: alice, method: "PUT", path: one(v1beta1Path, ns, "other"), body: create(t, ns, "spare", "spare")}).
		must(t, http.StatusBadRequest)
}

// Both versions show the same object.
func TestBothVersions(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	old := `{"apiVersion":"rollouts.kruise.io/v1alpha1","kind":"Rollout","metadata":{"name":"web"},"spec":{
		"objectRef":{"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}},
		"strategy":{"canary":{"steps":[{"weight":20},{"weight":100}]}}}}`
	call(t, request{as: alice, method: "POST", path: list(v1alpha1Path, ns), body: old}).must(t, http.StatusCreated)

	r := get(t, ns, "web")
	canary := r.Spec.Strategy.Canary
	if canary == nil || canary.EnableExtraWorkloadForCanary == nil || !*canary.EnableExtraWorkloadForCanary || len(canary.Steps) != 2 {
		t.Fatalf("strategy is %+v, want two steps with an extra workload", r.Spec.Strategy)
	}
	if got := *canary.Steps[0].Traffic; got != "20%" {
		t.Errorf("traffic of the first step is %s, want 20%%", got)
	}
	back := call(t, request{as: alice, method: "GET", path: one(v1alpha1Path, ns, "web")}).must(t, http.StatusOK)
	if !strings.Contains(string(back.body), `"weight":20`) {
		t.Errorf("v1alpha1 reads %s, want its weight", back.body)
	}
}

// A deletion waits for the finalizer, which the controller removes.
func TestDelete(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	create(t, ns, "web", "web")
	path := one(v1beta1Path, ns, "web")
	call(t, request{as: alice, method: "DELETE", path: path}).must(t, http.StatusOK)
	if r := get(t, ns, "web"); r.DeletionTimestamp == nil {
		t.Fatal("the rollout is not being deleted")
	}
	// Edits do not restore the finalizer.
	patch(t, alice, path, `{"metadata":{"labels":{"a":"b"}}}`).must(t, http.StatusOK)
	patch(t, controller, path, `{"metadata":{"finalizers":null}}`).must(t, http.StatusOK)
	call(t, request{as: alice, method: "GET", path: path}).must(t, http.StatusNotFound)
}

// A write of the spec of a BatchRelease does not change the status, and vice versa. Only the controller
// writes both at once: it stores a plan with the status that takes the plan up.
func TestBatchRelease(t *testing.T) {
	t.Parallel()
	type has struct {
		generation int64
		phase      v1beta1.Phase
		partition  bool
	}
	for as, want := range map[string][]has{
		alice:      {{generation: 1}, {generation: 1, phase: "Progressing"}, {generation: 2, phase: "Progressing", partition: true}},
		controller: {{generation: 1, phase: "Completed"}, {generation: 1, phase: "Progressing"}, {generation: 2, phase: "Completed", partition: true}},
	} {
		base := v1beta1Path + "/namespaces/" + namespace(t) + "/batchreleases"
		body := `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"BatchRelease","metadata":{"name":"web"},
			"spec":{"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"releasePlan":{"batches":[{"canaryReplicas":"20%"}]}},
			"status":{"phase":"Completed"}}`
		var got []has
		for _, a := range []answer{
			call(t, request{as: as, method: "POST", path: base, body: body}).must(t, http.StatusCreated),
			patch(t, as, base+"/web/status", `{"status":{"phase":"Progressing"},"spec":{"releasePlan":{"batchPartition":1}}}`).must(t, http.StatusOK),
			patch(t, as, base+"/web", `{"status":{"phase":"Completed"},"spec":{"releasePlan":{"batchPartition":0}}}`).must(t, http.StatusOK),
		} {
			var b v1beta1.BatchRelease
			if err := json.Unmarshal(a.body, &b); err != nil {
				t.Fatal(err)
			}
			got = append(got, has{b.Generation, b.Status.Phase, b.Spec.ReleasePlan.BatchPartition != nil})
		}
		if !slices.Equal(got, want) {
			t.Errorf("as %s: got %v, want %v", as, got, want)
		}
		call(t, request{as: as, method: "DELETE", path: base + "/web"}).must(t, http.StatusOK)
	}
}

// A BatchRelease has managed fields only after a user has applied it. Before that, they would only enlarge
// each write of its status.
func TestFieldsOfBatchRelease(t *testing.T) {
	t.Parallel()
	base := v1beta1Path + "/namespaces/" + namespace(t) + "/batchreleases"
	body := `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"BatchRelease","metadata":{"name":"web"},
		"spec":{"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"releasePlan":{"batches":[{"canaryReplicas":"20%"}]}}}`
	managers := func(a answer) []string {
		var b v1beta1.BatchRelease
		if err := json.Unmarshal(a.body, &b); err != nil {
			t.Fatal(err)
		}
		names := []string{}
		for _, m := range b.ManagedFields {
			names = append(names, m.Manager)
		}
		return names
	}
	apply := func(name string) answer {
		return call(t, request{
			as: controller, method: "PATCH", path: base + "/" + name + "?fieldManager=gitops", body: strings.Replace(body, "web", name, 1),
			headers: map[string]string{"Content-Type": "application/apply-patch+yaml"},
		})
	}
	got := [][]string{
		managers(call(t, request{as: controller, method: "POST", path: base, body: body}).must(t, http.StatusCreated)),
		managers(patch(t, controller, base+"/web/status", `{"status":{"phase":"Progressing"}}`).must(t, http.StatusOK)),
		managers(apply("web").must(t, http.StatusOK)),
		managers(apply("api").must(t, http.StatusCreated)),
	}
	want := [][]string{{}, {}, {"gitops", "before-first-apply"}, {"gitops"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("managers of the fields (-want +got):\n%s", diff)
	}
}

// Clients of both versions can apply the same object; the status has no managers.
func TestServerSideApply(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	apply := func(manager, body string) answer {
		return call(t, request{
			as: alice, method: "PATCH", path: one(v1beta1Path, ns, "web") + "?fieldManager=" + manager, body: body,
			headers: map[string]string{"Content-Type": "application/apply-patch+yaml"},
		})
	}
	r := apply("gitops", manifest("web", "web")).must(t, http.StatusCreated).rollout(t)
	if r.Status.Phase != v1beta1.PhaseInitial || r.Generation != 1 {
		t.Errorf("applied: phase %s, generation %d; want Initial and 1", r.Status.Phase, r.Generation)
	}
	apply("gitops", manifest("web", "web")).must(t, http.StatusOK)
	apply("somebody", strings.Replace(manifest("web", "web"), "20%", "25%", 1)).must(t, http.StatusConflict)
	for _, m := range get(t, ns, "web").ManagedFields {
		if m.Operation == metav1.ManagedFieldsOperationApply && strings.Contains(string(m.FieldsV1.GetRawBytes()), "f:status") {
			t.Errorf("an applier owns the status: %s", m.FieldsV1.GetRawBytes())
		}
	}
}

// A client of v1alpha1 reads, adds a label and puts the object back. Its version has no path in matches, so
// the client does not send it. The server keeps the path.
func TestOldClientKeepsWhatItCannotSee(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	create(t, ns, "web", "web")
	patch(t, alice, one(v1beta1Path, ns, "web"), `{"spec":{"strategy":{"canary":{"steps":[
		{"replicas":"20%","matches":[{"path":{"type":"Exact","value":"/pay"}}]},{"replicas":"100%"}]}}}}`).must(t, http.StatusOK)
	want := get(t, ns, "web")

	var old map[string]any
	read := call(t, request{as: alice, method: "GET", path: one(v1alpha1Path, ns, "web")}).must(t, http.StatusOK)
	if err := json.Unmarshal(read.body, &old); err != nil {
		t.Fatal(err)
	}
	metadata, ok := old["metadata"].(map[string]any)
	if !ok {
		t.Fatalf("metadata is %v", old["metadata"])
	}
	metadata["labels"] = map[string]any{"team": "payments"}
	call(t, request{as: alice, method: "PUT", path: one(v1alpha1Path, ns, "web"), body: old}).must(t, http.StatusOK)

	got := get(t, ns, "web")
	if diff := cmp.Diff(want.Spec, got.Spec); diff != "" || got.Generation != want.Generation || got.Labels["team"] != "payments" {
		t.Errorf("labels %v, generation %d, want %d; spec (-want +got):\n%s", got.Labels, got.Generation, want.Generation, diff)
	}
}
