// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

// Custom resources keep fields that Weir does not know, and their controllers decode fields
// case-sensitively. Every change in the pod template is a new template. A key that differs only in case
// does not count as the key.
func TestDecodesAsKubeAPIServerDoes(t *testing.T) {
	t.Parallel()
	type tree = map[string]any
	container := func(image string, more tree) tree {
		c := tree{"name": "c", "image": image}
		maps.Copy(c, more)
		return c
	}
	template := func(metadata tree, containers []any, more tree) tree {
		t := tree{"metadata": metadata, "spec": tree{"containers": containers}}
		maps.Copy(t, more)
		return t
	}
	labels := tree{"labels": tree{"app": "web"}}
	v1 := template(labels, []any{container("v1", nil)}, nil)
	v2 := template(labels, []any{container("v2", nil)}, nil)
	spec := func(t tree, more tree) tree {
		s := tree{"replicas": 3, "template": t, "updateStrategy": tree{}}
		maps.Copy(s, more)
		return s
	}
	for name, tt := range map[string]struct {
		// old and update are the contents without the metadata.
		old, update tree
		// passes means that the template has not changed.
		passes bool
	}{
		"nothing":               {tree{"spec": spec(v1, nil)}, tree{"spec": spec(v1, nil)}, true},
		"the size":              {tree{"spec": spec(v1, nil)}, tree{"spec": spec(v1, tree{"replicas": 5})}, true},
		"a field of the spec":   {tree{"spec": spec(v1, nil)}, tree{"spec": spec(v1, tree{"lifecycle": tree{"preDelete": tree{}}})}, true},
		"the image":             {tree{"spec": spec(v1, nil)}, tree{"spec": spec(v2, nil)}, false},
		"beside a folded spec":  {tree{"spec": spec(v1, nil)}, tree{"spec": spec(v2, nil), "ſpec": spec(v1, nil)}, false},
		"beside another SPEC":   {tree{"spec": spec(v1, nil)}, tree{"spec": spec(v2, nil), "zPEC": 1, "sPEC": spec(v1, nil)}, false},
		"a planted folded spec": {tree{"spec": spec(v1, nil), "ſpec": spec(v1, nil)}, tree{"spec": spec(v2, nil), "ſpec": spec(v1, nil)}, false},
		"a folded template":     {tree{"spec": spec(v1, nil)}, tree{"spec": spec(v2, tree{"templatE": v1})}, false},
		"a folded pod spec": {
			tree{"spec": spec(v1, nil)}, tree{"spec": spec(template(labels, []any{container("v2", nil)}, tree{"ſpec": v1["spec"]}), nil)}, false},
		"folded containers": {
			tree{"spec": spec(v1, nil)},
			tree{"spec": spec(tree{"metadata": labels, "spec": tree{"containers": []any{container("v2", nil)}, "containerſ": []any{container("v1", nil)}}}, nil)}, false},
		"a folded image": {
			tree{"spec": spec(v1, nil)}, tree{"spec": spec(template(labels, []any{container("v2", tree{"imagE": "v1"})}, nil), nil)}, false},
		"a folded image alone": {
			tree{"spec": spec(v1, nil)}, tree{"spec": spec(template(labels, []any{container("v1", tree{"imagE": "v2"})}, nil), nil)}, false},
		"folded labels": {
			tree{"spec": spec(v1, nil)},
			tree{"spec": spec(template(tree{"labels": tree{"app": "web", "version": "v2"}, "labelſ": tree{"app": "web"}}, []any{container("v1", nil)}, nil), nil)}, false},
		"a field of the pod spec": {
			tree{"spec": spec(v1, nil)}, tree{"spec": spec(tree{"metadata": labels, "spec": tree{"containers": []any{container("v1", nil)}, "fromTheFuture": true}}, nil)}, false},
		"a field of a container": {
			tree{"spec": spec(v1, nil)}, tree{"spec": spec(template(labels, []any{container("v1", tree{"fromTheFuture": []any{1}})}, nil), nil)}, false},
		"a field of a list element of a container": {
			tree{"spec": spec(v1, nil)},
			tree{"spec": spec(template(labels, []any{container("v1", tree{"env": []any{tree{"name": "a"}, tree{"name": "b", "valu\u0000e": "x"}}})}, nil), nil)}, false},
		"another value of such a field": {
			tree{"spec": spec(template(labels, []any{container("v1", tree{"fromTheFuture": 1})}, nil), nil)},
			tree{"spec": spec(template(labels, []any{container("v1", tree{"fromTheFuture": 2})}, nil), nil)}, false},
		"very large numbers": {
			tree{"spec": spec(template(labels, []any{container("v1", tree{"fromTheFuture": int64(9007199254740992)})}, nil), nil)},
			tree{"spec": spec(template(labels, []any{container("v1", tree{"fromTheFuture": int64(9007199254740993)})}, nil), nil)}, false},
		"a field of the template goes": {
			tree{"spec": spec(template(labels, []any{container("v1", nil)}, tree{"extra": nil}), nil)}, tree{"spec": spec(v1, nil)}, false},
		"such a field stays": {
			tree{"spec": spec(template(labels, []any{container("v1", tree{"fromTheFuture": tree{"a": 1}})}, tree{"extra": nil}), nil)},
			tree{"spec": spec(template(labels, []any{container("v1", tree{"fromTheFuture": tree{"a": 1}})}, tree{"extra": nil}), tree{"replicas": 5})}, true},
		"a NUL in a value": {
			tree{"spec": spec(v1, nil)}, tree{"spec": spec(template(tree{"labels": tree{"app": "web", "x": "\u0000"}}, []any{container("v1", nil)}, nil), nil)}, false},
	} {
		for _, kind := range []rollouts.ObjectRef{
			{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet"}, {APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet"},
			{APIVersion: "apps.kruise.io/v1alpha1", Kind: "DaemonSet"}, {APIVersion: "apps.example.com/v1", Kind: "StatefulSet"},
		} {
			t.Run(name+"/"+kind.Kind+"/"+kind.APIVersion, func(t *testing.T) {
				t.Parallel()
				old, update := customResource(kind, tt.old), customResource(kind, tt.update)
				stored := storedAfter(t, kind, old, update)
				if held := stored.GetAnnotations()[rollouts.AnnotationInProgress] != ""; held == tt.passes {
					t.Errorf("held: %t, want %t: %v", held, !tt.passes, stored.Object)
				}
				want, _, _ := unstructured.NestedFieldNoCopy(update.(*unstructured.Unstructured).Object, "spec", "template")
				got, _, _ := unstructured.NestedFieldNoCopy(stored.Object, "spec", "template")
				if !bytes.Equal(marshal(t, want), marshal(t, got)) {
					t.Errorf("the template became %s, want %s", marshal(t, got), marshal(t, want))
				}
			})
		}
	}
}

func customResource(kind rollouts.ObjectRef, content map[string]any) object.Object {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(u.Object, content)
	u.SetAPIVersion(kind.APIVersion)
	u.SetKind(kind.Kind)
	u.SetNamespace("ns")
	u.SetName("web")
	u.SetLabels(map[string]string{rollouts.LabelWorkloadType: strings.ToLower(kind.Kind)})
	u.Object["status"] = map[string]any{"observedGeneration": 1, "updateRevision": "a", "currentRevision": "a", "desiredNumberScheduled": 3}
	return u
}

// Keys of the review itself and of metadata are also case-sensitive.
func TestFoldedKeysOfReviews(t *testing.T) {
	t.Parallel()
	review := string(marshal(t, reviewOf(t, sent{as: "alice", old: cloneSet(), update: cloneSet(cloneImage("v2"))})))
	ref := &rollouts.ObjectRef{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: "web"}
	h := &Handler{Rollouts: named{liveRollout(func(r *rollouts.Rollout) { r.Spec.WorkloadRef = ref })}, Controller: weir}
	for name, tt := range map[string]struct {
		change func(string) string
		want   int
		held   bool
	}{
		"as it is": {func(s string) string { return s }, http.StatusOK, true},
		"another user": {func(s string) string {
			return strings.Replace(s, `"userInfo":{"username":"alice"}`, `"userInfo":{"username":"alice"},"uſerInfo":{"username":"`+weir+`"}`, 1)
		}, http.StatusOK, true},
		"another name of the user": {func(s string) string {
			return strings.Replace(s, `"username":"alice"`, `"username":"alice","userName":"`+weir+`"`, 1)
		}, http.StatusOK, true},
		"another operation": {func(s string) string {
			return strings.Replace(s, `"operation":"UPDATE"`, `"operation":"UPDATE","Operation":"DELETE"`, 1)
		}, http.StatusOK, true},
		"another object": {func(s string) string {
			return strings.Replace(s, `"oldObject":`, `"Object":{},"oldObject":`, 1)
		}, http.StatusOK, true},
		"the labels of the workload": {func(s string) string {
			return strings.ReplaceAll(s, `"labels":{"rollouts`, `"labelſ":{},"labels":{"rollouts`)
		}, http.StatusOK, true},
		"no request but a folded one": {func(s string) string {
			return strings.Replace(s, `"request":`, `"requeſt":`, 1)
		}, http.StatusBadRequest, false},
		"a request twice": {func(s string) string {
			return strings.Replace(s, `"request":{`, `"request":{},"request":{`, 1)
		}, http.StatusBadRequest, false},
		"a user twice": {func(s string) string {
			return strings.Replace(s, `"username":"alice"`, `"username":"alice","username":"`+weir+`"`, 1)
		}, http.StatusBadRequest, false},
		"an image twice": {func(s string) string {
			return strings.Replace(s, `"image":"v2"`, `"image":"v2","image":"v1"`, 1)
		}, http.StatusInternalServerError, false},
		"a spec twice": {func(s string) string {
			return strings.Replace(s, `"spec":{"template"`, `"spec":{},"spec":{"template"`, 1)
		}, http.StatusInternalServerError, false},
		"bytes that are no text": {func(s string) string {
			return strings.Replace(s, `"image":"v2"`, "\"image\":\"v2\xff\"", 1)
		}, http.StatusOK, true},
		"a number that is none": {func(s string) string {
			return strings.Replace(s, `"image":"v2"`, `"image":"v2","x":1e999999`, 1)
		}, http.StatusInternalServerError, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := tt.change(review)
			if body == review && name != "as it is" {
				t.Fatal("the case changes nothing")
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body)))
			if w.Code != tt.want {
				t.Fatalf("answered with %d, want %d: %s", w.Code, tt.want, w.Body)
			}
			answer := &admissionv1.AdmissionReview{}
			if w.Code == http.StatusOK && json.Unmarshal(w.Body.Bytes(), answer) != nil {
				t.Fatal(w.Body)
			}
			if held := answer.Response != nil && bytes.Contains(answer.Response.Patch, []byte("in-progressing")); held != tt.held {
				t.Errorf("held: %t, want %t", held, tt.held)
			}
		})
	}
}

// kube-apiserver sends JSON. The webhook decodes nothing else.
func TestOtherEncodings(t *testing.T) {
	t.Parallel()
	review := reviewOf(t, sent{as: "alice", old: deployment(), update: deployment(image("v2"))})
	cborBody, err := direct.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	protobuf, err := (&appsv1.Deployment{}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{
		"CBOR": cborBody, "protobuf": append([]byte("k8s\x00"), protobuf...), "UTF-16": {0xff, 0xfe, '{', 0, '}', 0}, "NUL": {0}, "nothing": nil,
		"two reviews": append(marshal(t, review), marshal(t, review)...),
	} {
		w := httptest.NewRecorder()
		(&Handler{Rollouts: unreachable{}}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(body)))
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: answered with %d: %s", name, w.Code, w.Body)
		}
	}
}

// unreachable fails a test that calls it.
type unreachable struct{}

func (unreachable) ListCached(string, rollouts.ObjectRef) ([]*rollouts.Rollout, error) {
	panic("asked about what is no review")
}

func (unreachable) ListLive(context.Context, string, rollouts.ObjectRef) ([]*rollouts.Rollout, error) {
	panic("asked about what is no review")
}
