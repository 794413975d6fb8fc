// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
)

// IsResting does not read workloads of optional kinds: their cache may never sync, and the queue waits for IsResting.
func TestIsRestingOfAnotherGroup(t *testing.T) {
	t.Parallel()
	r := &v1beta1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 3},
		Spec:       v1beta1.RolloutSpec{WorkloadRef: v1beta1.ObjectRef{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: "web"}},
		Status:     v1beta1.RolloutStatus{Phase: "Healthy", ObservedGeneration: 3},
	}
	c := fake.NewClientBuilder().WithScheme(newServer(t).Scheme()).WithObjects(r).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, isRollout := o.(*v1beta1.Rollout); !isRollout {
				t.Errorf("it reads a %s", o.GetObjectKind().GroupVersionKind().Kind)
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
	key := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "web"}}
	if cluster.IsResting(t.Context(), cluster.Reader{Client: c})(key) {
		t.Error("it is at rest")
	}
}

// A pass may wait only if the Rollout and its workload show that no release is in progress.
func TestIsResting(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1beta1.Rollout, *appsv1.Deployment)
		want   bool
	}{
		"at rest":          {func(*v1beta1.Rollout, *appsv1.Deployment) {}, true},
		"never released":   {func(r *v1beta1.Rollout, _ *appsv1.Deployment) { r.Status.Canary = nil }, true},
		"in progress":      {func(r *v1beta1.Rollout, _ *appsv1.Deployment) { r.Status.Phase = "Progressing" }, false},
		"edited":           {func(r *v1beta1.Rollout, _ *appsv1.Deployment) { r.Generation++ }, false},
		"workload changed": {func(_ *v1beta1.Rollout, d *appsv1.Deployment) { d.Generation++ }, false},
		"workload held": {func(_ *v1beta1.Rollout, d *appsv1.Deployment) {
			d.Annotations = map[string]string{"rollouts.kruise.io/in-progressing": "{}"}
		}, false},
		"workload gone":       {func(_ *v1beta1.Rollout, d *appsv1.Deployment) { d.Name = "other" }, false},
		"Rollout gone":        {func(r *v1beta1.Rollout, _ *appsv1.Deployment) { r.Name = "other" }, false},
		"workload of no kind": {func(r *v1beta1.Rollout, _ *appsv1.Deployment) { r.Spec.WorkloadRef.Kind = "Other" }, false},
		"blue-green, it changed": {func(r *v1beta1.Rollout, _ *appsv1.Deployment) {
			r.Status.Canary, r.Status.BlueGreen = nil, &v1beta1.BlueGreenStatus{Progress: v1beta1.Progress{ObservedWorkloadGeneration: 6}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &v1beta1.Rollout{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 3},
				Spec:       v1beta1.RolloutSpec{WorkloadRef: v1beta1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}},
				Status: v1beta1.RolloutStatus{
					Phase: "Healthy", ObservedGeneration: 3,
					Canary: &v1beta1.CanaryStatus{Progress: v1beta1.Progress{ObservedWorkloadGeneration: 7}},
				},
			}
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 7}}
			tc.change(r, d)
			c := fake.NewClientBuilder().WithScheme(newServer(t).Scheme()).WithObjects(r, d).Build()
			key := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "web"}}
			if got := cluster.IsResting(t.Context(), cluster.Reader{Client: c})(key); got != tc.want {
				t.Errorf("%t, want %t", got, tc.want)
			}
		})
	}
}
