// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

// An object of OpenKruise may lack structs that its Go type always has, such as spec.updateStrategy.
// kube-apiserver can still apply the patch.
func TestPatchOfPartialObjects(t *testing.T) {
	t.Parallel()
	template := func(image string) map[string]any {
		return map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": image}}},
		}
	}
	for _, kind := range []rollouts.ObjectRef{
		{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet"}, {APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet"},
		{APIVersion: "apps.kruise.io/v1alpha1", Kind: "DaemonSet"}, {APIVersion: "apps.example.com/v1", Kind: "StatefulSet"},
	} {
		for name, strategy := range map[string]any{
			"none": nil, "empty": map[string]any{}, "null below": map[string]any{"rollingUpdate": nil}, "unknown": map[string]any{"fromTheFuture": "x"},
		} {
			t.Run(kind.APIVersion+"/"+kind.Kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				deploy := func(image string) object.Object {
					spec := map[string]any{"template": template(image)}
					if strategy != nil {
						spec["updateStrategy"] = strategy
					}
					return customResource(kind, map[string]any{"spec": spec})
				}
				stored := storedAfter(t, kind, deploy("v1"), deploy("v2"))
				is, _, _ := unstructured.NestedMap(stored.Object, "spec", "updateStrategy")
				update, _, _ := unstructured.NestedMap(is, "rollingUpdate")
				if is["partition"] != "100%" && update["partition"] == nil {
					t.Errorf("it is not held: %v", stored.Object)
				}
				if name == "unknown" && is["fromTheFuture"] != "x" {
					t.Errorf("an unknown field is lost: %v", is)
				}
			})
		}
	}
}

// storedAfter returns an object as kube-apiserver stores it after an update by a user, if a Rollout
// releases workloads of this kind with the name web.
func storedAfter(t *testing.T, kind rollouts.ObjectRef, old, update object.Object) *unstructured.Unstructured {
	t.Helper()
	kind.Name = "web"
	h := &Handler{Rollouts: named{liveRollout(func(r *rollouts.Rollout) { r.Spec.WorkloadRef = &kind })}, Controller: weir}
	review := reviewOf(t, sent{as: "alice", old: old, update: update})
	response := serve(t, h, review)
	if !response.Allowed {
		t.Fatalf("refused: %s", response.Result.Message)
	}
	stored := &unstructured.Unstructured{}
	if err := json.Unmarshal(apply(t, review.Request.Object.Raw, response), &stored.Object); err != nil {
		t.Fatal(err)
	}
	return stored
}
