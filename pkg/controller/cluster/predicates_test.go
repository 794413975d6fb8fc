// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// heldDeployment returns a Deployment in the middle of a release.
func heldDeployment() *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "apps", Name: "web", UID: "web-uid", Generation: 7, ResourceVersion: "70",
		Labels:      map[string]string{rollouts.LabelStableRevision: "one"},
		Annotations: map[string]string{rollouts.AnnotationInProgress: `{"rolloutName":"web"}`},
	}}
	d.Spec.Replicas, d.Spec.Paused = new(int32(10)), true
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:two"}}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 7, Replicas: 10, UpdatedReplicas: 2, ReadyReplicas: 10, AvailableReplicas: 10}
	return d
}

// newReplicaSets returns the two ReplicaSets of a Deployment.
func newReplicaSets(d *appsv1.Deployment) []object.Object {
	var owned []object.Object
	for hash, image := range map[string]string{"one": "web:one", "two": "web:two"} {
		rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: "apps", Name: "web-" + hash, Labels: map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		}}
		rs.Spec.Replicas = new(int32(5))
		rs.Spec.Template.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash}
		rs.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: image}}
		owned = append(owned, rs)
	}
	return owned
}

// Updates of a Deployment that no plan depends on are rejected. No row of the workload table reads the fields of rejected
// updates.
func TestWorkloadChanged(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		from, edit func(*appsv1.Deployment)
		wakes      bool
	}{
		"pods are counted": {nil, func(d *appsv1.Deployment) {
			d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas = 12, 4, 8
			d.Status.AvailableReplicas, d.Status.UnavailableReplicas, d.Status.TerminatingReplicas = 8, 4, new(int32(2))
		}, false},
		"a condition changes": {nil, func(d *appsv1.Deployment) {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: "ReplicaSetUpdated"}}
		}, false},
		"names collide":       {nil, func(d *appsv1.Deployment) { d.Status.CollisionCount = new(int32(1)) }, false},
		"nothing changes":     {nil, func(*appsv1.Deployment) {}, false},
		"it is seen":          {nil, func(d *appsv1.Deployment) { d.Status.ObservedGeneration++ }, true},
		"the spec changes":    {nil, func(d *appsv1.Deployment) { d.Generation++ }, true},
		"a label changes":     {nil, func(d *appsv1.Deployment) { d.Labels = nil }, true},
		"an annotation comes": {nil, func(d *appsv1.Deployment) { d.Annotations[rollouts.AnnotationWantedSpec] = "{}" }, true},
		"it is restored":      {nil, func(d *appsv1.Deployment) { d.Annotations = nil }, true},
		"it is deleted":       {nil, func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, true},
		"another of its name": {nil, func(d *appsv1.Deployment) { d.UID = "other" }, true},
		"pods of one that is not held": {
			func(d *appsv1.Deployment) { d.Annotations = nil },
			func(d *appsv1.Deployment) { d.Status.UpdatedReplicas++ }, true,
		},
		"pods of one beside another": {
			func(d *appsv1.Deployment) { d.Labels[rollouts.LabelCanaryDeployment] = "web" },
			func(d *appsv1.Deployment) { d.Status.AvailableReplicas++ }, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			was := heldDeployment()
			if tc.from != nil {
				tc.from(was)
			}
			is := was.DeepCopy()
			is.ResourceVersion = "71"
			tc.edit(is)
			if got := cluster.WorkloadChanged().Update(event.UpdateEvent{ObjectOld: was, ObjectNew: is}); got != tc.wakes {
				t.Errorf("it wakes: %t", got)
			}
			if !tc.wakes {
				sameFacts(t, was, is)
			}
		})
	}
}

// sameFacts checks that no row of Deployments observes a difference.
func sameFacts(t *testing.T, was, is *appsv1.Deployment) {
	t.Helper()
	for _, row := range workload.Table {
		if row.GVK.Kind != "Deployment" {
			continue
		}
		owned := newReplicaSets(was)
		if diff := cmp.Diff(row.Observe(was, owned, workload.HoldFromRecords(was)), row.Observe(is, owned, workload.HoldFromRecords(is))); diff != "" {
			t.Errorf("the style %s sees a difference:\n%s", row.Style, diff)
		}
		before, sized := row.ScalingFacts(was, owned, workload.HoldFromRecords(was))
		after, still := row.ScalingFacts(is, owned, workload.HoldFromRecords(is))
		if diff := cmp.Diff(before, after); diff != "" || sized != still {
			t.Errorf("the style %s sizes it in another way:\n%s", row.Style, diff)
		}
	}
}

// Updates of a ReplicaSet are accepted if an observed fact changes.
func TestOwnedChanged(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit  func(*appsv1.ReplicaSet)
		wakes bool
	}{
		"nothing changes":            {func(*appsv1.ReplicaSet) {}, false},
		"what was seen is seen anew": {func(rs *appsv1.ReplicaSet) { rs.Status.FullyLabeledReplicas = 3 }, false},
		"a pod comes":                {func(rs *appsv1.ReplicaSet) { rs.Status.Replicas++ }, true},
		"a pod gets ready":           {func(rs *appsv1.ReplicaSet) { rs.Status.ReadyReplicas++ }, true},
		"a pod serves for long":      {func(rs *appsv1.ReplicaSet) { rs.Status.AvailableReplicas++ }, true},
		"the spec changes":           {func(rs *appsv1.ReplicaSet) { rs.Generation++ }, true},
		"a finalizer goes":           {func(rs *appsv1.ReplicaSet) { rs.Finalizers = []string{"example.com/keep"} }, true},
		"two changes are seen":       {func(rs *appsv1.ReplicaSet) { rs.Status.ObservedGeneration = rs.Generation }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			was := newReplicaSets(heldDeployment())[0].(*appsv1.ReplicaSet)
			was.Generation, was.Status.ObservedGeneration = 4, 2
			is := was.DeepCopy()
			tc.edit(is)
			if got := cluster.OwnedChanged().Update(event.UpdateEvent{ObjectOld: was, ObjectNew: is}); got != tc.wakes {
				t.Errorf("it wakes: %t", got)
			}
		})
	}
}

// An update is accepted when kube-controller-manager has observed the size zero, although no counter changes: no new pod
// of the ReplicaSet can appear after that.
func TestEmptiedReplicaSetPasses(t *testing.T) {
	t.Parallel()
	was := newReplicaSets(heldDeployment())[0].(*appsv1.ReplicaSet)
	was.Spec.Replicas, was.Generation, was.Status.ObservedGeneration = new(int32(0)), 4, 3
	is := was.DeepCopy()
	is.Status.ObservedGeneration = 4
	if !cluster.OwnedChanged().Update(event.UpdateEvent{ObjectOld: was, ObjectNew: is}) {
		t.Error("it wakes nobody")
	}
}

// delayQueue is a queue that records delays.
type delayQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	after []time.Duration
}

func (w *delayQueue) AddAfter(_ reconcile.Request, after time.Duration) {
	w.after = append(w.after, after)
}

// TestSkipInitialList checks that only objects of the initial list are rejected.
func TestSkipInitialList(t *testing.T) {
	t.Parallel()
	passes, pod := cluster.SkipInitialList(), &corev1.Pod{}
	for what, got := range map[string]bool{
		"made":    passes.Create(event.CreateEvent{Object: pod}),
		"changed": passes.Update(event.UpdateEvent{ObjectOld: pod, ObjectNew: pod}),
		"deleted": passes.Delete(event.DeleteEvent{Object: pod}),
		"other":   passes.Generic(event.GenericEvent{Object: pod}),
		"found":   !passes.Create(event.CreateEvent{Object: pod, IsInInitialList: true}),
	} {
		if !got {
			t.Errorf("%s: %t", what, got)
		}
	}
}

// Requests of creations, updates and deletions are delayed.
func TestDelay(t *testing.T) {
	t.Parallel()
	var q delayQueue
	h := cluster.Delay(time.Second, cluster.EnqueueMapped(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetName()}}}
	}))
	h.Create(t.Context(), event.CreateEvent{Object: heldDeployment()}, &q)
	h.Update(t.Context(), event.UpdateEvent{ObjectOld: heldDeployment(), ObjectNew: heldDeployment()}, &q)
	h.Delete(t.Context(), event.DeleteEvent{Object: heldDeployment()}, &q)
	if diff := cmp.Diff([]time.Duration{time.Second, time.Second, time.Second}, q.after); diff != "" {
		t.Errorf("woken after (-want +got):\n%s", diff)
	}
}
