// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// must ends the test where the host fails.
func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) key() client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: "web"} }

func (h *host) deployment() *appsv1.Deployment {
	d := &appsv1.Deployment{}
	h.must(h.client.Get(h.t.Context(), h.key(), d))
	return d
}

// runUntilHealthy alternates passes and the native controller, one second apart, until the Rollout is Healthy and all pods
// run the image.
func (h *host) runUntilHealthy(image string) {
	h.t.Helper()
	r := &v1beta1.Rollout{}
	for range 100 {
		h.runNativeController()
		_, err := h.passes.Reconcile(h.t.Context(), ctrl.Request{NamespacedName: h.key()})
		h.must(err)
		h.must(h.client.Get(h.t.Context(), h.key(), r))
		if d := h.deployment(); r.Status.Phase == v1beta1.PhaseHealthy && !d.Spec.Paused && imageOf(&d.Spec.Template) == image && d.Status.UpdatedReplicas == 4 {
			return
		}
		h.clock.Step(time.Second)
	}
	h.t.Fatalf("it does not come to rest with %s: %+v", image, r.Status)
}

// updateImage changes the image of the application, through admission.
func (h *host) updateImage(image string) {
	before := h.deployment()
	update := before.DeepCopy()
	update.Spec.Template.Spec.Containers[0].Image = image
	row, _ := workload.Find("apps/v1", "Deployment", rollouts.StylePartition)
	row.HoldUpdate(before, update, "web")
	h.must(h.client.Update(h.t.Context(), update))
}

// runNativeController imitates one pass of kube-controller-manager. Its pods are ready at once.
func (h *host) runNativeController() {
	ctx, d := h.t.Context(), h.deployment()
	sets := &appsv1.ReplicaSetList{}
	h.must(h.client.List(ctx, sets, client.InNamespace(namespace)))
	update := -1
	for i := range sets.Items {
		if imageOf(&sets.Items[i].Spec.Template) == imageOf(&d.Spec.Template) {
			update = i
		}
	}
	if update < 0 && !d.Spec.Paused {
		h.must(h.client.Create(ctx, newReplicaSet(d, len(sets.Items)+1)))
		return
	}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation}
	for i := range sets.Items {
		rs := &sets.Items[i]
		if !d.Spec.Paused {
			rs.Spec.Replicas = new(int32)
			if i == update {
				rs.Spec.Replicas = d.Spec.Replicas
			}
		}
		h.must(h.client.Update(ctx, rs))
		n := *rs.Spec.Replicas
		rs.Status = appsv1.ReplicaSetStatus{ObservedGeneration: rs.Generation, Replicas: n, ReadyReplicas: n, AvailableReplicas: n}
		h.must(h.client.Status().Update(ctx, rs))
		d.Status.Replicas += n
		d.Status.ReadyReplicas, d.Status.AvailableReplicas = d.Status.Replicas, d.Status.Replicas
		if i == update {
			d.Status.UpdatedReplicas = n
		}
	}
	h.must(h.client.Status().Update(ctx, d))
}

func imageOf(t *corev1.PodTemplateSpec) string { return t.Spec.Containers[0].Image }

// newReplicaSet returns the ReplicaSet of a Deployment's template, as kube-controller-manager creates it.
func newReplicaSet(d *appsv1.Deployment, revision int) *appsv1.ReplicaSet {
	hash := imageOf(&d.Spec.Template)
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name + "-" + hash, UID: d.UID + "-" + "set",
			Labels:          map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: hash},
			Annotations:     map[string]string{"deployment.kubernetes.io/revision": strconv.Itoa(revision)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Template: *d.Spec.Template.DeepCopy()},
	}
	rs.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	rs.Spec.Selector = &metav1.LabelSelector{MatchLabels: rs.Labels}
	return rs
}
