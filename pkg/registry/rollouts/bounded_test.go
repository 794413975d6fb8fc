// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// Other controllers may have 32 conditions of 1 KiB. Weir's conditions do not count.
func TestConditionsOfOthersAreBounded(t *testing.T) {
	t.Parallel()
	for _, as := range []string{dave, admin} {
		t.Run(as, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			releasing(t, ns, "web")
			path := one(v1beta1Path, ns, "web") + "/status"
			say := func(of string, bytes int) answer {
				all := get(t, ns, "web").Status.Conditions
				c := v1beta1.Condition{Type: v1beta1.ConditionType(of), Status: "True", Message: strings.Repeat("a", bytes-len(of)-len("True"))}
				return patch(t, as, path, string(encode(t, map[string]any{"status": map[string]any{"conditions": append(all, c)}})))
			}
			for _, bytes := range []int{1025, 400_000} {
				a := say("Gate", bytes).must(t, http.StatusUnprocessableEntity)
				if m := a.status().Message; !strings.Contains(m, "status.conditions[Gate]: Too long") {
					t.Errorf("%d bytes: %q", bytes, m)
				}
			}
			for i := range 32 {
				say(fmt.Sprintf("Gate%d", i), 1024).must(t, http.StatusOK)
			}
			a := say("Gate32", 20).must(t, http.StatusUnprocessableEntity)
			if m := a.status().Message; !strings.Contains(m, "status.conditions: Too many: 33") {
				t.Errorf("one too many: %q", m)
			}
			verb(t, admin, v1beta1Path, ns, "abort", nil).must(t, http.StatusCreated)
		})
	}
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// An object that is too large is refused, and the error names its largest field. Writes that shrink the
// object, remove a finalizer or come from the controller are admitted.
func TestObjectsAreBounded(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	path := one(v1beta1Path, ns, "web")
	releasing(t, ns, "web")
	steps := func(values int) string {
		match := func(i int) string {
			return fmt.Sprintf(`{"path":{"value":"/%d"},"headers":[{"name":"a","value":%q}]}`, i, strings.Repeat("v", 4096))
		}
		var all []string
		for i := range 16 {
			var matches []string
			for j := range values {
				matches = append(matches, match(i*16+j))
			}
			all = append(all, `{"replicas":"`+strconv.Itoa(i+1)+`%","matches":[`+strings.Join(matches, ",")+`]}`)
		}
		return `{"spec":{"strategy":{"canary":{"steps":[` + strings.Join(all, ",") + `]}}}}`
	}
	other := `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"Rollout","metadata":{"name":"big"},
		"spec":{"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"big"},` + strings.TrimPrefix(strings.TrimSuffix(steps(16), "}"), `{"spec":{`) + `}`
	call(t, request{as: alice, method: "POST", path: list(v1beta1Path, ns), body: other}).tooLarge(t, "spec")
	create(t, ns, "plain", "plain")
	patch(t, alice, one(v1beta1Path, ns, "plain"), steps(16)).tooLarge(t, "spec")
	patch(t, alice, one(v1beta1Path, ns, "plain"), steps(5)).must(t, http.StatusOK)
	annotate := func(name string, bytes int) answer {
		return patch(t, alice, path, `{"metadata":{"annotations":{"`+name+`":"`+strings.Repeat("a", bytes)+`"}}}`)
	}
	annotate("a", 250_000).must(t, http.StatusOK)
	patch(t, alice, path, `{"spec":{"strategy":{"canary":{"patchPodTemplateMetadata":{"annotations":{"a":"`+strings.Repeat("a", 180_000)+`"}}}}}}`).must(t, http.StatusOK)

	// managedFields contains an entry for each applier, and their number is not limited.
	var labels []string
	for i := range 300 {
		labels = append(labels, fmt.Sprintf(`"label-%d":"v"`, i))
	}
	var last answer
	for i := range 100 {
		last = call(t, request{
			as: alice, method: "PATCH", path: fmt.Sprintf("%s?fieldManager=m%d&force=true", path, i),
			body:    `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"Rollout","metadata":{"name":"web","labels":{` + strings.Join(labels, ",") + `}},` + manifestSpec("web"),
			headers: map[string]string{"Content-Type": "application/apply-patch+yaml"},
		})
		if last.code != http.StatusOK {
			break
		}
	}
	last.tooLarge(t, "metadata.annotations")
	verb(t, admin, v1beta1Path, ns, "abort", nil).must(t, http.StatusCreated)
	now := get(t, ns, "web")
	now.Status.Message = strings.Repeat("said by the controller ", 100)
	call(t, request{as: controller, method: "PUT", path: path + "/status", body: now}).must(t, http.StatusOK)
	annotate("a", 1000).must(t, http.StatusOK)
	call(t, request{as: alice, method: "DELETE", path: path}).must(t, http.StatusOK)
	patch(t, controller, path, `{"metadata":{"finalizers":null}}`).must(t, http.StatusOK)
}

// manifestSpec returns a manifest from its spec on.
func manifestSpec(name string) string {
	m := manifest(name, name)
	return m[strings.Index(m, `"spec"`):]
}

// tooLarge fails the test unless the error names the field that makes the object too large.
func (a answer) tooLarge(t *testing.T, field string) {
	t.Helper()
	a.must(t, http.StatusUnprocessableEntity)
	if m := a.status().Message; !strings.Contains(m, field+": Too long: an object may have 512 KiB") {
		t.Errorf("the answer should name %s: %.400s", field, m)
	}
}

// The response to a list of thousands of errors is not larger than that to a few errors.
func TestMistakesAreBounded(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	many := strings.TrimSuffix(strings.Repeat("{},", 10_000), ",")
	rollout := func(version string) string {
		return `{"apiVersion":"rollouts.kruise.io/` + version + `","kind":"Rollout","metadata":{"name":"big"},"spec":{
			"objectRef":{"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"big"}},
			"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"big"},"strategy":{"canary":{"steps":[` + many + `]}}}}`
	}
	for name, tt := range map[string]struct {
		path, body string
		most       int
	}{
		"steps":                   {list(v1beta1Path, ns), rollout("v1beta1"), 1},
		"steps of an old version": {list(v1alpha1Path, ns), rollout("v1alpha1"), 20},
		"matches":                 {list(v1beta1Path, ns), strings.Replace(rollout("v1beta1"), `[`+many, `[{"replicas":1,"matches":[`+many+`]}`, 1), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := call(t, request{as: admin, method: "POST", path: tt.path, body: tt.body}).must(t, http.StatusUnprocessableEntity).status()
			if n := len(said.Details.Causes); n > tt.most {
				t.Errorf("%d mistakes are told, want %d", n, tt.most)
			}
		})
	}
}

// Objects with more than 512 annotations or labels are refused.
func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	keyed := func(n int) map[string]string {
		keys := map[string]string{}
		for i := range n {
			keys[fmt.Sprint("a", i)] = ""
		}
		return keys
	}
	create(t, ns, "web", "web")
	for _, as := range []string{alice, admin} {
		for _, field := range []string{"annotations", "labels"} {
			change := func(n int) answer {
				return patch(t, as, one(v1beta1Path, ns, "web"), string(encode(t, map[string]any{"metadata": map[string]any{field: keyed(n)}})))
			}
			change(500).must(t, http.StatusOK)
			a := change(513).must(t, http.StatusUnprocessableEntity)
			if m := a.status().Message; !strings.Contains(m, "metadata."+field+": Too many: 513: must have at most 512 items") {
				t.Errorf("%s of a change: %q", field, m)
			}
		}
	}
	routing := map[string]any{
		"apiVersion": "rollouts.kruise.io/v1alpha1", "kind": "TrafficRouting", "metadata": map[string]any{"name": "web", "labels": keyed(513)},
		"spec": map[string]any{"objectRef": []any{map[string]any{"service": "web", "ingress": map[string]any{"name": "web"}}}},
	}
	a := call(t, request{as: admin, method: http.MethodPost, path: v1alpha1Path + "/namespaces/" + ns + "/trafficroutings", body: routing}).must(t, http.StatusUnprocessableEntity)
	if m := a.status().Message; !strings.Contains(m, "metadata.labels: Too many: 513: must have at most 512 items") {
		t.Errorf("a TrafficRouting: %q", m)
	}
}
