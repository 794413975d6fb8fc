// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
)

// malformed returns objects that validation refuses, as an import, an older version or a
// writer of the store may have stored them.
func malformed() []client.Object {
	named := metav1.ObjectMeta{Namespace: "shop", Name: "web", OwnerReferences: []metav1.OwnerReference{{Controller: new(true)}}}
	var out []client.Object
	for _, release := range []v1beta1.Release{
		{},
		{Steps: []v1beta1.Step{{}}, TrafficRoutings: []v1beta1.TrafficRoutingRef{{}}},
		{TrafficRoutings: []v1beta1.TrafficRoutingRef{{Ingress: &v1beta1.IngressRef{}, Gateway: &v1beta1.GatewayRef{}, CustomNetworkRefs: []v1beta1.ObjectRef{{}, {APIVersion: "a/b/c"}}}}},
	} {
		for _, strategy := range []v1beta1.Strategy{{}, {Canary: &v1beta1.CanaryStrategy{Release: release}}, {BlueGreen: &v1beta1.BlueGreenStrategy{Release: release}}} {
			for _, ref := range []v1beta1.ObjectRef{{}, {APIVersion: "a/b/c", Kind: "D"}, {APIVersion: "apps/v1", Kind: "Deployment"}} {
				out = append(out, &v1beta1.Rollout{ObjectMeta: named, Spec: v1beta1.RolloutSpec{WorkloadRef: ref, Strategy: strategy}, Status: v1beta1.RolloutStatus{Phase: "Healthy"}})
			}
		}
	}
	return append(out,
		&v1beta1.BatchRelease{ObjectMeta: named}, &v1beta1.BatchRelease{ObjectMeta: named, Spec: v1beta1.BatchReleaseSpec{WorkloadRef: &v1beta1.ObjectRef{}}},
		&v1alpha1.TrafficRouting{ObjectMeta: named}, &v1alpha1.TrafficRouting{ObjectMeta: named, Spec: v1alpha1.TrafficRoutingSpec{ObjectRef: []v1alpha1.TrafficRoutingRef{{}}}},
		&appsv1.Deployment{ObjectMeta: named}, &appsv1.ReplicaSet{ObjectMeta: named}, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: named},
		&corev1.Pod{ObjectMeta: named, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{}, {Name: "app", State: corev1.ContainerState{}, RestartCount: -1}}}},
		&unstructured.Unstructured{}, &unstructured.Unstructured{Object: map[string]any{"metadata": "x", "spec": []any{}, "status": 1}},
	)
}

// TestMalformed calls everything that handles a single object outside of a pass with malformed objects. A panic there would
// end the process, and end it again after each restart.
func TestMalformed(t *testing.T) {
	t.Parallel()
	gk := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	keys := []client.IndexerFunc{
		cluster.WorkloadKeys, cluster.GroupKeys, cluster.NetworkKeys, cluster.TrafficRoutingKeys, cluster.LinkedRollouts, cluster.ScaleTargetNames, cluster.ScaleTargetKeys,
		cluster.OwnerKeys, cluster.KeysOfWorkload(gk), cluster.KeysOfOwner(gk), cluster.KeysOfPodOwner(gk), cluster.KeysOfNetworkObject("Service"), cluster.KeysOfRollout,
	}
	predicates := []predicate.Predicate{
		cluster.WorkloadChanged(), cluster.OwnedChanged(), cluster.PodHealthChanged(), cluster.ScaleTargetChanged(), cluster.BatchTargetChanged(), cluster.RolloutPhaseChanged(), cluster.WithoutRollout(),
	}
	for i, o := range malformed() {
		t.Run(fmt.Sprintf("%d %T", i, o), func(t *testing.T) {
			t.Parallel()
			for _, key := range keys {
				key(o)
			}
			for _, p := range predicates {
				p.Create(event.CreateEvent{Object: o})
				p.Update(event.UpdateEvent{ObjectOld: o, ObjectNew: o})
				p.Delete(event.DeleteEvent{Object: o})
			}
			if r, ok := o.(*v1beta1.Rollout); ok {
				c := fake.NewClientBuilder().WithScheme(newServer(t).Scheme()).WithObjects(r).Build()
				key := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(r)}
				if cluster.IsResting(t.Context(), cluster.Reader{Client: c})(key) {
					t.Error("it is at rest")
				}
			}
		})
	}
}

// TestRecoverPanic makes code panic that handles a single object outside of a pass. Then nothing is enqueued, no key is
// found, and the Rollout does not count as resting.
func TestRecoverPanic(t *testing.T) {
	t.Parallel()
	r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Status: v1beta1.RolloutStatus{Phase: "Healthy"}}
	c := fake.NewClientBuilder().WithScheme(newServer(t).Scheme()).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			panic("malformed")
		},
	}).Build()
	if cluster.IsResting(t.Context(), cluster.Reader{Client: c})(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(r)}) {
		t.Error("it is at rest")
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	woken := cluster.EnqueueByIndex(c, cluster.NewRolloutList, cluster.ByWorkload, func(client.Object) []string { panic("malformed") })
	woken.Create(t.Context(), event.CreateEvent{Object: r}, queue)
	woken.Update(t.Context(), event.UpdateEvent{ObjectOld: r, ObjectNew: r}, queue)
	if queue.Len() > 0 {
		t.Errorf("%d requests are woken", queue.Len())
	}
	indexes := indexers{}
	if err := cluster.RegisterIndexes(t.Context(), indexes); err != nil {
		t.Fatal(err)
	}
	for name, keys := range indexes {
		if found := keys(panicking{r}); len(found) > 0 {
			t.Errorf("index %s finds %v", name, found)
		}
	}
}

// indexers collects the indexes of a manager.
type indexers map[string]client.IndexerFunc

// IndexField implements client.FieldIndexer.
func (i indexers) IndexField(_ context.Context, o client.Object, name string, keys client.IndexerFunc) error {
	i[fmt.Sprintf("%s of %T", name, o)] = keys
	return nil
}

// panicking is an object that cannot be read.
type panicking struct{ client.Object }

func (panicking) GetFinalizers() []string { panic("malformed") }
