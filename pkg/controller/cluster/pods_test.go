// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// TestPodsAreReadOnce checks that a pass finds pods by owner and revision, and lists the pods of each owner once.
func TestPodsAreReadOnce(t *testing.T) {
	t.Parallel()
	owner := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(name), Controller: new(true)}}
	}
	pod := func(name, set, hash string) *corev1.Pod {
		meta := metav1.ObjectMeta{Namespace: "default", Name: name, OwnerReferences: owner("ReplicaSet", set)}
		if hash != "" {
			meta.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash}
		}
		return &corev1.Pod{ObjectMeta: meta}
	}
	set := func(name string) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), OwnerReferences: owner("Deployment", "uid")}}
	}
	lists := 0
	c := newClientBuilder(t, append(newObjects(), set("one"), set("two"), pod("a", "one", "v1"), pod("b", "two", "v2"), pod("c", "two", "v2"),
		pod("of another", "other", "v2"), pod("bare", "two", ""))...).
		WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if _, ok := l.(*corev1.PodList); ok {
				lists++
			}
			return c.List(ctx, l, opts...)
		}}).Build()
	s := cluster.Reader{Client: c, Live: c}
	row, _ := workload.Find("apps/v1", "Deployment", rollouts.StylePartition)
	w, err := s.Workload(t.Context(), row, "default", "web", planner.HoldState{})
	if err != nil {
		t.Fatal(err)
	}
	for revision, want := range map[string][]string{"v1": {"a"}, "v2": {"b", "c"}, "v3": nil, "": nil} {
		pods, err := s.Pods(t.Context(), w.WithHold(planner.HoldState{}), revision)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range pods {
			got = append(got, p.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pods of %q (-want +got):\n%s", revision, diff)
		}
	}
	if owners := 1 + len(w.Owned); lists != owners {
		t.Errorf("%d lists of the pods of %d owners", lists, owners)
	}
}
