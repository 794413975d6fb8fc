// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// Lists can select Rollouts by their workload and their state, in both versions.
func TestFieldSelectors(t *testing.T) {
	t.Parallel()
	ns, c := namespace(t), clientset(t, alice)
	create(t, ns, "idle", "idle")
	releasing(t, ns, "waiting")
	call(t, request{
		as: alice, method: "POST", path: list(v1beta1Path, ns),
		body: strings.Replace(manifest("set", "waiting"), "Deployment", "StatefulSet", 1),
	}).must(t, http.StatusCreated)
	for selector, want := range map[string][]string{
		"metadata.name=idle":                                             {"idle"},
		"metadata.namespace=" + ns:                                       {"idle", "set", "waiting"},
		"spec.workloadRef.kind=Deployment":                               {"idle", "waiting"},
		"spec.workloadRef.kind!=Deployment":                              {"set"},
		"spec.workloadRef.name=waiting":                                  {"set", "waiting"},
		"spec.workloadRef.name=waiting,spec.workloadRef.kind=Deployment": {"waiting"},
		"status.phase=Initial":                                           {"idle", "set"},
		"status.phase=Progressing,status.currentStepState=StepPaused":    {"waiting"},
		"status.currentStepState=":                                       {"idle", "set"},
		"status.currentStepState=StepReady":                              nil,
	} {
		options := metav1.ListOptions{FieldSelector: selector}
		newer, err := c.RolloutsV1beta1().Rollouts(ns).List(t.Context(), options)
		if err != nil {
			t.Fatalf("%s: %v", selector, err)
		}
		older, err := c.RolloutsV1alpha1().Rollouts(ns).List(t.Context(), options)
		if err != nil {
			t.Fatalf("%s in v1alpha1: %v", selector, err)
		}
		if got := namesOf(newer.Items, func(r *v1beta1.Rollout) string { return r.Name }); !slices.Equal(got, want) {
			t.Errorf("%s selects %v, want %v", selector, got, want)
		}
		if got := namesOf(older.Items, func(r *v1alpha1.Rollout) string { return r.Name }); !slices.Equal(got, want) {
			t.Errorf("%s selects %v in v1alpha1, want %v", selector, got, want)
		}
	}
	for _, kind := range []string{"rollouts", "batchreleases"} {
		path := v1beta1Path + "/namespaces/" + ns + "/" + kind + "?fieldSelector=" + url.QueryEscape("spec.strategy.paused=true")
		refusal := call(t, request{as: alice, method: "GET", path: path}).must(t, http.StatusBadRequest).status()
		if !strings.Contains(refusal.Message, `"spec.strategy.paused" is not supported: use `) {
			t.Errorf("an unknown selector of %s is answered with %q", kind, refusal.Message)
		}
	}
}

func namesOf[T any](items []T, name func(*T) string) []string {
	var names []string
	for i := range items {
		names = append(names, name(&items[i]))
	}
	slices.Sort(names)
	return names
}

// A watch with a selector reports a Rollout as added when it begins to match, and as deleted when it no
// longer matches.
func TestFieldSelectorWatch(t *testing.T) {
	t.Parallel()
	ns, c := namespace(t), clientset(t, alice)
	events, err := c.RolloutsV1beta1().Rollouts(ns).Watch(t.Context(), metav1.ListOptions{
		FieldSelector: "spec.workloadRef.name=web,status.currentStepState=StepPaused",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	releasing(t, ns, "other")
	releasing(t, ns, "web")
	patch(t, alice, one(v1beta1Path, ns, "web"), `{"metadata":{"labels":{"a":"b"}}}`).must(t, http.StatusOK)
	call(t, request{as: alice, method: "POST", path: one(v1beta1Path, ns, "web") + "/promote"}).must(t, http.StatusCreated)
	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		e := <-events.ResultChan()
		if r, ok := e.Object.(*v1beta1.Rollout); !ok || e.Type != want || r.Name != "web" {
			t.Fatalf("got %s of %v, want %s of web", e.Type, e.Object, want)
		}
	}
}

// A client may know a resource version from data that was lost since. Its watch gets 410 Gone, because it
// would see no event until the new data reaches that version. A list at that version gets 504.
func TestWatchFromLostData(t *testing.T) {
	t.Parallel()
	ns, c := namespace(t), clientset(t, alice)
	stored := create(t, ns, "web", "web")
	events, err := c.RolloutsV1beta1().Rollouts(ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: stored.ResourceVersion})
	if err != nil {
		t.Fatalf("a watch from the version %s of the store: %v", stored.ResourceVersion, err)
	}
	events.Stop()
	for _, version := range []string{"1000000000000", "9223372036854775807"} {
		if _, err := c.RolloutsV1beta1().Rollouts(ns).List(t.Context(), metav1.ListOptions{ResourceVersion: version}); !storage.IsTooLargeResourceVersion(err) {
			t.Errorf("a list at the version %s: %v", version, err)
		}
		if _, err := c.RolloutsV1beta1().Rollouts(ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: version}); !apierrors.IsResourceExpired(err) {
			t.Errorf("a watch from the version %s: %v", version, err)
		}
	}
}
