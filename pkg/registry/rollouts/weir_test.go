// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
)

const weirPath = "/apis/weir-rollouts.io/v1alpha1"

func weirManifest(kind, name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"weir-rollouts.io/v1alpha1","kind":%q,"metadata":{"name":%q},"spec":%s}`, kind, name, spec)
}

// The kinds of the second API group have no status, and are returned as written.
func TestWeirKinds(t *testing.T) {
	t.Parallel()
	const source = `{"prometheus":{"url":"http://p:9090","auth":{"secret":"p"},"headers":{"X-Scope-OrgID":"$namespace"}},"namespaces":{},"rawQueries":false}`
	const check = `{"args":[{"name":"heap","default":"0.8"}],"query":{"promql":"max(used{pod=~\"$pods\"})","max":"$heap"}}`
	for _, c := range []struct{ kind, path, spec, column string }{
		{"MetricSource", weirPath + "/metricsources", source, "http://p:9090"},
		{"ClusterCheck", weirPath + "/clusterchecks", check, "query"},
		{"Check", weirPath + "/namespaces/" + namespace(t) + "/checks", check, "query"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			const name = "kinds"
			body := strings.TrimSuffix(weirManifest(c.kind, name, c.spec), "}") + `,"status":{"ready":true}}`
			created := call(t, request{as: admin, method: "POST", path: c.path, body: body}).must(t, http.StatusCreated)
			want := parsed(t, weirManifest(c.kind, name, c.spec))
			want["metadata"].(map[string]any)["generation"] = float64(1)
			if diff := cmp.Diff(want, created.fields(t)); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
			one := c.path + "/" + name
			patch(t, admin, one, `{"metadata":{"labels":{"a":"b"}}}`).must(t, http.StatusOK)
			want["metadata"].(map[string]any)["labels"] = map[string]any{"a": "b"}
			if diff := cmp.Diff(want, call(t, request{as: admin, method: "GET", path: one}).must(t, http.StatusOK).fields(t)); diff != "" {
				t.Errorf("after a label (-want +got):\n%s", diff)
			}
			refused := patch(t, admin, one, `{"spec":null}`).must(t, http.StatusUnprocessableEntity)
			if !strings.Contains(refused.status().Message, "spec") {
				t.Errorf("refused with %q, want the field", refused.status().Message)
			}
			a := call(t, request{as: admin, method: "GET", path: one, headers: map[string]string{"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}}).must(t, http.StatusOK)
			if cells := decoded[metav1.Table](t, a).Rows[0].Cells; cells[0] != name || cells[1] != c.column {
				t.Errorf("printed as %v", cells)
			}
			call(t, request{as: admin, method: "GET", path: one + "/status"}).must(t, http.StatusNotFound)
			call(t, request{as: admin, method: "DELETE", path: one}).must(t, http.StatusOK)
			call(t, request{as: admin, method: "GET", path: one}).must(t, http.StatusNotFound)
		})
	}
}

// A check cannot use another check: with strict validation, the field is an error; without it, the field is
// dropped and the check measures nothing.
func TestCheckUsesNone(t *testing.T) {
	t.Parallel()
	path := weirPath + "/namespaces/" + namespace(t) + "/checks"
	body := weirManifest("Check", "x", `{"use":{"kind":"Check","name":"y"}}`)
	for query, want := range map[string]struct {
		code    int
		message string
	}{
		"":                        {http.StatusUnprocessableEntity, "set one of successRate, latency, asGoodAs, query, http and job"},
		"?fieldValidation=Strict": {http.StatusBadRequest, `unknown field "spec.use"`},
	} {
		refused := call(t, request{as: admin, method: "POST", path: path + query, body: body}).must(t, want.code)
		if !strings.Contains(refused.status().Message, want.message) {
			t.Errorf("refused with %q, want %s", refused.status().Message, want.message)
		}
	}
}

// The typed client writes, applies, lists and watches, also concurrently: the types in the server's memory
// are those that it sends.
func TestWeirClients(t *testing.T) {
	t.Parallel()
	ns, c := namespace(t), clientset(t, admin).WeirV1alpha1()
	w, err := c.Checks(ns).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			name := fmt.Sprintf("c%d", i)
			body := []byte(weirManifest("Check", name, `{"successRate":"99%"}`))
			for range 3 {
				if _, err := c.Checks(ns).Patch(t.Context(), name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "test"}); err != nil {
					t.Error(err)
				}
				if _, err := c.Checks(ns).Patch(t.Context(), name, types.StrategicMergePatchType, []byte(`{"spec":{"tolerance":{"ratio":"2"}}}`), metav1.PatchOptions{}); err != nil {
					t.Error(err)
				}
				if _, err := c.Checks(ns).List(t.Context(), metav1.ListOptions{ResourceVersion: "0"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for seen := map[string]bool{}; len(seen) < 8; {
		check, ok := (<-w.ResultChan()).Object.(*weir.Check)
		if !ok {
			t.Fatal("the watch has ended")
		}
		seen[check.Name] = true
	}
	list, err := c.Checks(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if got := list.Items[i].Spec; *got.SuccessRate != "99%" || *got.Tolerance.Ratio != "2" || list.Items[i].Generation != 2 {
			t.Errorf("%s is of generation %d: %+v", list.Items[i].Name, list.Items[i].Generation, got)
		}
	}
	if _, err := c.MetricSources().Create(t.Context(), &weir.MetricSource{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an empty source was answered %v", err)
	}
}
