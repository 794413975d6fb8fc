// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// TestClientPatches sends every kind of patch to the object and to its status, in both versions. A
// patch of one does not change the other, and only changes of the spec increase the generation.
func TestClientPatches(t *testing.T) {
	t.Parallel()
	for _, version := range []schema.GroupVersion{newVersion, oldVersion} {
		for kind, bodies := range map[string][2]string{
			mergePatch: {
				`{"spec":{"strategy":{"paused":true}},"status":{"phase":"Healthy","message":"forged"}}`,
				`{"spec":{"strategy":{"paused":false}},"metadata":{"labels":{"a":"b"}},"status":{"conditions":[` + foreignCondition + `]}}`,
			},
			strategicPatch: {
				`{"spec":{"strategy":{"paused":true}},"status":{"phase":"Healthy","message":"forged"}}`,
				`{"spec":{"strategy":{"paused":false}},"status":{"conditions":[` + foreignCondition + `]}}`,
			},
			jsonPatch: {
				`[{"op":"add","path":"/spec/strategy/paused","value":true},{"op":"replace","path":"/status/phase","value":"Healthy"}]`,
				`[{"op":"add","path":"/status/conditions/-","value":` + foreignCondition + `},{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`,
			},
			applyPatch: {
				`{"apiVersion":"` + version.String() + `","kind":"Rollout","spec":{"strategy":{"paused":true}}}`,
				`{"apiVersion":"` + version.String() + `","kind":"Rollout","status":{"conditions":[` + foreignCondition + `]}}`,
			},
		} {
			t.Run(version.Version+" "+strings.TrimPrefix(kind, "application/"), func(t *testing.T) {
				t.Parallel()
				a := newNamespace(t)
				a.newRolloutWithoutWorkload("web")
				a.awaitObserved("web")
				path := a.rolloutPath(version, "web")
				testEnv.admin.send(t, request{method: "PATCH", path: path + patchQuery(kind), body: bodies[0], contentType: kind}).mustAnswer(200, `"paused":true`)
				walter := a.newStatusWriter()
				walter.send(t, request{method: "PATCH", path: path + "/status" + patchQuery(kind), body: bodies[1], contentType: kind}).mustAnswer(200, "KuberikBakeHealthy")
				a.awaitObserved("web")
				r := a.mustGetRollout("web")
				paused := r.Spec.Strategy.Paused != nil && *r.Spec.Strategy.Paused
				if !paused || r.Generation != 2 || len(r.Labels) > 0 || r.Status.Phase != v1beta1.PhaseInitial || r.Status.Message != "Workload Not Found" {
					t.Errorf("paused %t, generation %d, labels %v, phase %s, %q", paused, r.Generation, r.Labels, r.Status.Phase, r.Status.Message)
				}
				a.checkConditions(r, "KuberikBakeHealthy", "Reconciling")
			})
		}
	}
}

// foreignCondition is a condition type that Weir does not use.
const foreignCondition = `{"type":"KuberikBakeHealthy","status":"True","reason":"Baked","message":"well done"}`

// patchQuery returns the query parameters that a kind of patch needs. A user who applies conditions
// takes them over from the controller, because they are one atomic value.
func patchQuery(kind string) string {
	if kind == applyPatch {
		return "?fieldManager=tool&force=true"
	}
	return ""
}

// checkConditions checks that each of these conditions exists exactly once.
func (a *app) checkConditions(r *v1beta1.Rollout, types ...string) {
	a.t.Helper()
	for _, want := range types {
		n := 0
		for _, c := range r.Status.Conditions {
			if string(c.Type) == want {
				n++
			}
		}
		if n != 1 {
			a.t.Errorf("there are %d conditions %s: %v", n, want, r.Status.Conditions)
		}
	}
}

// newStatusWriter is a user who may write Rollouts and their status, as the service accounts of
// other tools.
func (a *app) newStatusWriter() *user { return a.userWithRules("walter", rolloutWriter) }

// TestClientApply applies a manifest with several field managers. Steps are one atomic value, as
// with CRDs; other fields are merged, and the items of a match are merged by name.
func TestClientApply(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	apply := func(manager, spec string) reply {
		return testEnv.admin.send(t, request{
			method: "PATCH", path: a.rolloutPath(newVersion, "web") + "?fieldManager=" + manager, contentType: applyPatch,
			body: `{"apiVersion":"` + newVersion.String() + `","kind":"Rollout","metadata":{"name":"web"},"spec":` + spec + `}`,
		})
	}
	const steps = `"steps":[{"replicas":"20%%","matches":[{"headers":[{"type":"Exact","name":"a","value":"1"},{"type":"Exact","name":"b","value":"%s"}]}]},{"replicas":"100%%"}]`
	plan := func(value string) string { return `{"canary":{` + fmt.Sprintf(steps, value) + `}}` }
	const ref = `"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}`
	apply("gitops", `{`+ref+`,"strategy":`+plan("2")+`}`).mustAnswer(201)
	apply("operator", `{"strategy":{"paused":true}}`).mustAnswer(200)
	apply("gitops", `{`+ref+`,"strategy":`+plan("3")+`}`).mustAnswer(200, `"paused":true`, `"value":"3"`)
	apply("other", `{"strategy":`+plan("4")+`}`).mustAnswer(409, "gitops", "steps")
	apply("other", `{"strategy":`+plan("3")+`}`).mustAnswer(200)
	apply("operator", `{"strategy":{"canary":{"failureThreshold":"10%"}}}`).mustAnswer(200, `"failureThreshold":"10%"`)
	if r := a.mustGetRollout("web"); r.Spec.Strategy.Paused != nil {
		t.Error("a field that its manager no longer applies should be gone")
	}
	apply("twice", `{"strategy":`+strings.Replace(plan("3"), `"name":"b"`, `"name":"a"`, 1)+`}`).mustAnswer(500, "duplicate")
	for _, m := range a.mustGetRollout("web").ManagedFields {
		if m.APIVersion != newVersion.String() {
			t.Errorf("%s manages fields of %s", m.Manager, m.APIVersion)
		}
		if m.Operation == metav1.ManagedFieldsOperationApply && strings.Contains(string(m.FieldsV1.GetRawBytes()), "f:status") {
			t.Errorf("%s owns the status", m.Manager)
		}
	}
}

// TestClientRoundTrip writes in one API version and reads in the other. A v1alpha1 client that
// reads and writes back loses no fields that v1alpha1 does not have.
func TestClientRoundTrip(t *testing.T) {
	t.Parallel()
	for style, extra := range map[string]bool{"canary": true, "partition": false} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			a := newNamespace(t)
			body := fmt.Sprintf(`{"apiVersion":"%s","kind":"Rollout","metadata":{"name":"web"},"spec":{
				"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},
				"strategy":{"canary":{"enableExtraWorkloadForCanary":%t,"disableGenerateCanaryService":true,"trafficRoutingRef":"shared","steps":[
					{"traffic":"20%%","replicas":1,"requestHeaderModifier":{"set":[{"name":"x","value":"y"}]},
					 "matches":[{"path":{"type":"Exact","value":"/pay"},"headers":[{"name":"a","value":"1"}],"queryParams":[{"name":"q","value":"1"}]}]},
					{"replicas":"100%%"}],
				 "trafficRoutings":[{"service":"web","ingress":{"name":"web"},"customNetworkRefs":[{"apiVersion":"e2e.example.com/v1","kind":"Router","name":"c"}]}]}}}}`,
				newVersion, extra)
			if style == "canary" {
				// A share of traffic and matches exclude each other.
				body = strings.Replace(body, `"traffic":"20%",`, "", 1)
			} else {
				body = strings.NewReplacer(`,
					 "matches":[{"path":{"type":"Exact","value":"/pay"},"headers":[{"name":"a","value":"1"}],"queryParams":[{"name":"q","value":"1"}]}]`, "").Replace(body)
			}
			testEnv.admin.send(t, request{method: "POST", path: a.listPath(newVersion), body: body}).mustAnswer(201)
			before := a.mustGetRollout("web")
			old := testEnv.admin.send(t, request{method: "GET", path: a.rolloutPath(oldVersion, "web")}).mustAnswer(200).object()
			if got := old.GetAnnotations()["rollouts.kruise.io/rolling-style"]; got != style {
				t.Errorf("the style is shown as %q, want %s", got, style)
			}
			steps, _, err := unstructured.NestedSlice(old.Object, "spec", "strategy", "canary", "steps")
			if err != nil || len(steps) != 2 || (style == "partition") != (steps[0].(map[string]any)["weight"] == int64(20)) {
				t.Errorf("the steps are shown as %v (%v)", steps, err)
			}
			// Another client may have written in between.
			a.eventually("the object is written back", func(context.Context) error {
				old = testEnv.admin.send(t, request{method: "GET", path: a.rolloutPath(oldVersion, "web")}).mustAnswer(200).object()
				if put := testEnv.admin.send(t, request{method: "PUT", path: a.rolloutPath(oldVersion, "web"), body: old}); put.code != 200 {
					return fmt.Errorf("%d %s", put.code, put.body)
				}
				return nil
			})
			after := a.mustGetRollout("web")
			if diff := cmp.Diff(before.Spec, after.Spec); diff != "" || after.Generation != 1 {
				t.Errorf("generation %d, spec (-before +after):\n%s", after.Generation, diff)
			}
		})
	}
}

// TestClientProtobufFirst sends requests that prefer protobuf. They get JSON, or protobuf for
// metadata, but never a 406, also for deletions.
func TestClientProtobufFirst(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	const accept = "application/vnd.kubernetes.protobuf,application/json"
	const metadata = "application/vnd.kubernetes.protobuf;as=%[1]s;g=meta.k8s.io;v=v1,application/json;as=%[1]s;g=meta.k8s.io;v=v1,application/json"
	for _, version := range []schema.GroupVersion{newVersion, oldVersion} {
		a.newRolloutWithoutWorkload("web")
		a.awaitObserved("web")
		calls := []request{
			{method: "GET", path: a.listPath(version)},
			{method: "GET", path: a.rolloutPath(version, "web")},
			{method: "GET", path: a.rolloutPath(version, "web") + "/status"},
			{method: "GET", path: a.listPath(version) + "?watch=1&timeoutSeconds=1"},
			{method: "PATCH", path: a.rolloutPath(version, "web"), body: `{"metadata":{"labels":{"a":"b"}}}`, contentType: mergePatch},
			{method: "PATCH", path: a.rolloutPath(version, "web") + "/status", body: `{"status":{}}`, contentType: mergePatch},
			{method: "GET", path: strings.TrimSuffix(a.listPath(version), "rollouts") + "batchreleases"},
			{method: "DELETE", path: a.rolloutPath(version, "web")},
			{method: "DELETE", path: a.listPath(version)},
		}
		for _, r := range calls {
			of := "PartialObjectMetadata"
			if strings.HasSuffix(r.path, "s") && !strings.HasSuffix(r.path, "/status") {
				of += "List"
			}
			for _, r.accept = range []string{accept, fmt.Sprintf(metadata, of)} {
				answer := testEnv.admin.send(t, r)
				if answer.code == http.StatusNotFound && r.method == "DELETE" {
					continue // it may be gone by then
				}
				if answer.code != 200 || r.accept == accept && !strings.HasPrefix(answer.kind, "application/json") {
					t.Errorf("%s %s, accepting %s: %d, %s: %.300s", r.method, r.path, r.accept, answer.code, answer.kind, answer.body)
				}
			}
		}
		a.eventually("the Rollout is gone", a.isGone(&v1beta1.Rollout{}, "web"))
	}
	answer := testEnv.admin.send(t, request{method: "GET", path: a.listPath(newVersion), accept: "application/vnd.kubernetes.protobuf"})
	if answer.code != http.StatusNotAcceptable {
		t.Errorf("protobuf alone: got %d, want 406 as with CRDs", answer.code)
	}
}
