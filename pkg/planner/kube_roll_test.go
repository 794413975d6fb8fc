// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/workload"
)

// recreatePods deletes all old pods before it creates the first new pod.
func (k *deploymentSync) recreatePods() {
	k.numberUpdateSet()
	down := false
	for _, rs := range k.old {
		down = k.scaleSetTo(rs, 0) || down
	}
	if down {
		return
	}
	for _, rs := range k.old {
		if rs.Status.Replicas > 0 {
			return
		}
	}
	if k.update == nil {
		if k.createUpdateSet(k.replicas()); k.update == nil {
			return
		}
	}
	k.scaleSetTo(k.update, k.replicas())
	k.completeUpdate()
}

// rollPods is one sync of a rolling update.
func (k *deploymentSync) rollPods() {
	k.numberUpdateSet()
	if k.update == nil {
		if k.createUpdateSet(k.nextUpdateSize(0)); k.update == nil {
			return
		}
		k.setRevision(k.update.Annotations[revisionKey])
	}
	switch {
	case k.scaleSetTo(k.update, k.nextUpdateSize(*k.update.Spec.Replicas)):
	case k.lowerOldSets():
	default:
		k.completeUpdate()
	}
}

// nextUpdateSize returns the size of the update set that maxSurge allows.
func (k *deploymentSync) nextUpdateSize(size int32) int32 {
	var sum int32
	for _, rs := range k.allSets() {
		sum += *rs.Spec.Replicas
	}
	switch most := k.replicas() + k.surge(); {
	case size >= k.replicas():
		return k.replicas()
	case sum >= most:
		return size
	default:
		return size + min(most-sum, k.replicas()-size)
	}
}

// lowerOldSets scales down unavailable old pods first, then as many as maxUnavailable allows.
func (k *deploymentSync) lowerOldSets() bool {
	_, unavailable := limitsOf(k.d.Spec.Strategy.RollingUpdate, k.replicas())
	floor := k.replicas() - unavailable
	var sum, available int32
	for _, rs := range k.allSets() {
		sum += *rs.Spec.Replicas
		available += rs.Status.AvailableReplicas
	}
	spare := sum - floor - (*k.update.Spec.Replicas - k.update.Status.AvailableReplicas)
	if spare <= 0 {
		return false
	}
	sick := k.takePods(spare, func(rs *appsv1.ReplicaSet) int32 { return *rs.Spec.Replicas - rs.Status.AvailableReplicas })
	healthy := k.takePods(available-floor, func(rs *appsv1.ReplicaSet) int32 { return *rs.Spec.Replicas })
	return sick || healthy
}

// takePods scales down old sets, each by at most can pods and all by at most spare pods.
func (k *deploymentSync) takePods(spare int32, can func(*appsv1.ReplicaSet) int32) bool {
	moved := false
	for _, rs := range k.old {
		if n := min(spare, can(rs)); n > 0 {
			spare -= n
			moved = k.scaleSetTo(rs, *rs.Spec.Replicas-n) || moved
		}
	}
	return moved
}

// completeUpdate prunes the history after the update is complete.
func (k *deploymentSync) completeUpdate() {
	for _, rs := range k.old {
		if rs.Status.Replicas > 0 {
			return
		}
	}
	if k.update.Status.AvailableReplicas == k.replicas() {
		k.pruneHistory()
	}
}

// pruneHistory deletes the oldest empty sets beyond the history limit.
func (k *deploymentSync) pruneHistory() {
	if k.d.Spec.RevisionHistoryLimit == nil {
		return
	}
	alive := slices.DeleteFunc(slices.Clone(k.old), func(rs *appsv1.ReplicaSet) bool { return rs.DeletionTimestamp != nil })
	surplus := len(alive) - int(*k.d.Spec.RevisionHistoryLimit)
	old := slices.SortedStableFunc(slices.Values(alive), func(a, b *appsv1.ReplicaSet) int {
		m, _ := intAnnotation(a, revisionKey)
		n, _ := intAnnotation(b, revisionKey)
		return cmp.Compare(m, n)
	})
	for i := range max(surplus, 0) {
		rs := old[i]
		if *rs.Spec.Replicas == 0 && rs.Status.Replicas == 0 && rs.Status.ObservedGeneration >= rs.Generation {
			_ = k.store.remove(rs) // it was read in this sync
		}
	}
}

// createUpdateSet creates the ReplicaSet of the live template. Its hash differs from the hash of
// Weir's formula, as in another version of Kubernetes.
func (k *deploymentSync) createUpdateSet(size int32) {
	hash := nativeHash(k.d)
	for slices.ContainsFunc(k.old, func(rs *appsv1.ReplicaSet) bool { return rs.Labels[hashKey] == hash }) {
		hash += "c" // the real controller hashes the collision count
	}
	template := *k.d.Spec.Template.DeepCopy()
	template.Labels = maps.Clone(template.Labels)
	template.Labels[hashKey] = hash
	selector := k.d.Spec.Selector.DeepCopy()
	selector.MatchLabels[hashKey] = hash
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: k.d.Name + "-" + hash, Labels: maps.Clone(template.Labels),
			Annotations: map[string]string{
				desiredKey: strconv.Itoa(int(k.replicas())), maxKey: strconv.Itoa(int(k.replicas() + k.surge())),
			},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(k.d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: &size, Selector: selector, Template: template},
	}
	k.copyAnnotations(rs)
	if left := find[*appsv1.ReplicaSet](k.store.objects, kindSet, rs.Name); left != nil && !metav1.IsControlledBy(left, k.d) {
		return // an earlier Deployment left a set of the name; the real controller would count a collision
	}
	if k.store.create(rs) != nil {
		panic("native controller: a set of the name exists with another template: " + rs.Name)
	}
	k.update = clone(find[*appsv1.ReplicaSet](k.store.objects, kindSet, rs.Name))
}

func nativeHash(d *appsv1.Deployment) string {
	return "n" + workload.TemplateHash(&d.Spec.Template)
}

// writeStatus writes the status.
func (k *deploymentSync) writeStatus() {
	d := clone(find[*appsv1.Deployment](k.store.objects, kindDeployment, k.d.Name))
	k.listSets()
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation}
	for _, rs := range k.allSets() {
		d.Status.Replicas += rs.Status.Replicas
		d.Status.ReadyReplicas += rs.Status.ReadyReplicas
		d.Status.AvailableReplicas += rs.Status.AvailableReplicas
	}
	if k.update != nil {
		d.Status.UpdatedReplicas = k.update.Status.Replicas
	}
	_ = k.store.updateStatus(d) // it was read in this sync
}

// The ReplicaSet controller and the kubelets.

// syncSet creates or deletes pods until the size matches, unready pods first. It ignores a set that
// is being deleted: the garbage collector deletes the pods, before the set in a foreground
// deletion, and otherwise with the set.
func syncSet(s *store, rs *appsv1.ReplicaSet) {
	want := clone(rs)
	want.Status.ObservedGeneration = rs.Generation
	switch {
	case rs.DeletionTimestamp == nil:
		want.Status.Replicas = *rs.Spec.Replicas
	case slices.Contains(rs.Finalizers, metav1.FinalizerDeleteDependents):
		want.Status.Replicas = 0
	}
	want.Status.ReadyReplicas = min(rs.Status.ReadyReplicas, want.Status.Replicas)
	want.Status.AvailableReplicas = availableOf(want)
	_ = s.updateStatus(want)
}

// makePodsReady makes up to n more pods ready, unless their image is broken. A negative n makes
// ready pods unready.
func makePodsReady(s *store, rs *appsv1.ReplicaSet, n int32) {
	if n > 0 && (hasBrokenImage(rs.Spec.Template) || s.unready[imageOfSet(rs)]) {
		return
	}
	want := clone(rs)
	want.Status.ReadyReplicas = max(min(rs.Status.ReadyReplicas+n, rs.Status.Replicas), 0)
	want.Status.AvailableReplicas = availableOf(want)
	_ = s.updateStatus(want)
}

// availableOf returns the number of ready pods, or 0 if minReadySeconds is set to years.
func availableOf(rs *appsv1.ReplicaSet) int32 {
	if rs.Spec.MinReadySeconds > 1_000_000 {
		return 0
	}
	return rs.Status.ReadyReplicas
}

// imageOfSet returns the image tag of the first container.
func imageOfSet(rs *appsv1.ReplicaSet) string { return tagOf(&rs.Spec.Template) }

func tagOf(t *corev1.PodTemplateSpec) string {
	_, tag, _ := strings.Cut(t.Spec.Containers[0].Image, ":")
	return tag
}

// hasBrokenImage reports whether the image cannot be pulled.
func hasBrokenImage(t corev1.PodTemplateSpec) bool {
	return tagOf(&t) == "failed" || tagOf(&t) == "not-exists"
}
