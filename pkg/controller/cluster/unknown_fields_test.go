// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// ofScheme is a client with another scheme.
type ofScheme struct {
	client.Client
	scheme *runtime.Scheme
}

// Scheme implements client.Client.
func (c ofScheme) Scheme() *runtime.Scheme { return c.scheme }

// A workload whose template differs from the stable one in a field that Weir does not know is
// not at stable, and setting the stable template removes the field on the server.
func TestUnknownFieldsOfWorkloads(t *testing.T) {
	row, _ := workload.Find("apps.kruise.io/v1alpha1", "CloneSet", rollouts.StylePartition)
	template := func(extra map[string]any) map[string]any {
		container := map[string]any{"name": "c", "image": "v1"}
		maps.Copy(container, extra)
		return map[string]any{"spec": map[string]any{"containers": []any{container}}}
	}
	web := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"template": template(map[string]any{"imagE": "v2", "fromTheFuture": int64(9007199254740993)}), "notOurs": "stays",
			"updateStrategy": map[string]any{"partition": "100%", "alsoNotOurs": true},
		},
		"status": map[string]any{"observedGeneration": int64(1), "currentRevision": "web-a", "updateRevision": "web-a", "replicas": int64(1)},
	}}
	web.SetGroupVersionKind(row.GVK)
	web.SetNamespace("default")
	web.SetName("web")
	web.SetUID("w-1")
	web.SetGeneration(2) // its controller has not seen it
	web.SetAnnotations(map[string]string{rollouts.AnnotationInProgress: `{"rolloutName":"web"}`})
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-a", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(web, row.GVK)}},
		Revision:   1, Data: runtime.RawExtension{Raw: []byte(`{"spec":{"template":{"$patch":"replace","spec":{"containers":[{"name":"c","image":"v1","n":9007199254740995}]}}}}`)},
	}
	c := newClientBuilder(t, web, revision).WithIndex(&appsv1.ControllerRevision{}, cluster.ByOwner, cluster.OwnerKeys).Build()
	// The fake client registers the kinds of its objects. A real one does not know this kind.
	s := cluster.Server{Reader: cluster.Reader{Client: ofScheme{c, newClientBuilder(t).Build().Scheme()}}}
	w, err := s.Workload(t.Context(), row, "default", "web", planner.HoldState{Holder: "web", Stable: "a"})
	if err != nil || w == nil {
		t.Fatal(w, err)
	}
	if facts := w.Facts(); facts.HasStableTemplate || facts.LiveRevision != "" {
		t.Errorf("live %q, at stable %t; want that its revision is not known yet", facts.LiveRevision, facts.HasStableTemplate)
	}
	if err := s.Write(t.Context(), row.SetStable(w.Object, w.Owned, w.Hold)); err != nil {
		t.Fatal(err)
	}
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(row.GVK)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(web), stored); err != nil {
		t.Fatal(err)
	}
	containers, _, _ := unstructured.NestedSlice(stored.Object, "spec", "template", "spec", "containers")
	want := []any{map[string]any{"name": "c", "image": "v1", "n": int64(9007199254740995), "resources": map[string]any{}}}
	if diff := cmp.Diff(want, containers); diff != "" {
		t.Errorf("the containers (-want +got):\n%s", diff)
	}
	spec := stored.Object["spec"].(map[string]any)
	if strategy := spec["updateStrategy"].(map[string]any); spec["notOurs"] != "stays" || strategy["alsoNotOurs"] != true {
		t.Errorf("other fields became %v", spec)
	}
}
