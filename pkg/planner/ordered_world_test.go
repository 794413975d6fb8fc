// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// StatefulSets in the world, and pods that are stored objects.

type statefulSets struct{}

func (statefulSets) newWorkload(a app) object.Object {
	labels := map[string]string{"app": a.name}
	s := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: a.name, Annotations: map[string]string{"owner": "team"}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &a.replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, RevisionHistoryLimit: &a.history,
			Template: podTemplate(a), PodManagementPolicy: appsv1.OrderedReadyPodManagement,
		},
	}
	if a.parallel {
		s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	}
	s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	if !a.onDelete {
		missing := intstr.Parse(a.unavail)
		s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{
			Type:          appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32), MaxUnavailable: &missing},
		}
	}
	return s
}

func podTemplate(a app) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": a.name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "echo:" + a.image}}},
	}
}

func (statefulSets) template(o object.Object) *corev1.PodTemplateSpec {
	return &o.(*appsv1.StatefulSet).Spec.Template
}
func (statefulSets) size(o object.Object) *int32 { return o.(*appsv1.StatefulSet).Spec.Replicas }

// sync runs the controller if the StatefulSet or one of its pods has changed. A deleted
// ControllerRevision causes no sync.
func (statefulSets) sync(s *store, name string) {
	set := find[*appsv1.StatefulSet](s.objects, kindStatefulSet, name)
	versions := []string{set.ResourceVersion}
	for _, p := range podsIn(s.objects) {
		if metav1.IsControlledBy(p, set) {
			versions = append(versions, p.Name, p.ResourceVersion)
		}
	}
	seen := strings.Join(versions, " ")
	if s.synced[set.UID] != seen && syncStatefulSet(s, name) {
		s.synced[set.UID] = seen
	}
}

// isStopped reports whether the partition covers all pods.
func (statefulSets) isStopped(o object.Object) bool {
	s := o.(*appsv1.StatefulSet)
	u := s.Spec.UpdateStrategy.RollingUpdate
	return u != nil && u.Partition != nil && *u.Partition > 0 && *u.Partition >= *s.Spec.Replicas
}

func (statefulSets) resume(o object.Object) {
	if u := o.(*appsv1.StatefulSet).Spec.UpdateStrategy.RollingUpdate; u != nil {
		u.Partition = new(int32)
	}
}

func (statefulSets) describeStrategy(o object.Object) string {
	u := o.(*appsv1.StatefulSet).Spec.UpdateStrategy
	if u.RollingUpdate == nil || u.RollingUpdate.Partition == nil {
		return string(u.Type)
	}
	return fmt.Sprintf("partition %d", *u.RollingUpdate.Partition)
}

func (statefulSets) limits(owner object.Object, n int32) (surge, unavailable int32) {
	return 0, missingAllowed(owner.(*appsv1.StatefulSet).Spec.UpdateStrategy.RollingUpdate, n)
}

func (statefulSets) restoreStrategy(o, owner object.Object) {
	o.(*appsv1.StatefulSet).Spec.UpdateStrategy = *owner.(*appsv1.StatefulSet).Spec.UpdateStrategy.DeepCopy()
}

// hasOwnerStrategy ignores the partition, which holds the pods of an aborted release.
func (s statefulSets) hasOwnerStrategy(o, owner object.Object) bool {
	a, b := clone(o), clone(owner)
	s.resume(a)
	s.resume(b)
	return equality.Semantic.DeepEqual(a.(*appsv1.StatefulSet).Spec.UpdateStrategy, b.(*appsv1.StatefulSet).Spec.UpdateStrategy)
}

func (s statefulSets) hasOwnerSpec(o, owner object.Object) bool {
	a, b := o.(*appsv1.StatefulSet).Spec, owner.(*appsv1.StatefulSet).Spec
	same := s.hasOwnerStrategy(o, owner)
	if !s.isStopped(o) {
		same = equality.Semantic.DeepEqual(a.UpdateStrategy, b.UpdateStrategy)
	}
	return same && *a.RevisionHistoryLimit == *b.RevisionHistoryLimit
}

// kubelet advances a stored pod: a terminating pod ends, and another pod becomes ready unless its
// image is broken.
func kubelet(s *store, p *corev1.Pod) {
	switch {
	case isTerminating(p):
		s.removeEndedPod(p)
	case !isReady(p) && !isBrokenPod(s, p):
		setReady(s, p, true)
	}
}

func isBrokenPod(s *store, p *corev1.Pod) bool {
	t := corev1.PodTemplateSpec{Spec: p.Spec}
	return hasBrokenImage(t) || s.unready[tagOf(&t)]
}

func setReady(s *store, p *corev1.Pod, ready bool) {
	next := clone(p)
	next.Status.Phase, next.Status.Conditions = corev1.PodRunning, nil
	if ready {
		next.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	_ = s.updateStatus(next)
}

func podTag(p *corev1.Pod) string { return tagOf(&corev1.PodTemplateSpec{Spec: p.Spec}) }

// podsIn returns the pods of a snapshot, sorted by name.
func podsIn(s snapshot) []*corev1.Pod { return listOf[*corev1.Pod](s) }

// withLabels returns a copy of a pod with additional labels.
func withLabels(p *corev1.Pod, labels map[string]string) *corev1.Pod {
	next := clone(p)
	next.Labels = maps.Clone(p.Labels)
	maps.Copy(next.Labels, labels)
	return next
}

// deleteStuckPods deletes pods of an earlier version that never became ready, as their owner must.
// The StatefulSet controller with OrderedReady waits for such pods, and without a release Weir does
// not delete them.
func (w *world) deleteStuckPods() bool {
	o := w.check.workload()
	if o == nil || workload.HasReleaseMark(o) || nativeOf(o).isStopped(o) {
		return false
	}
	stuck := false
	for _, p := range podsIn(w.store.objects) {
		if isUnavailable(p) && podTag(p) != tagOf(templateOf(o)) {
			stuck = true
			w.observer.did("deletes " + p.Name)
			w.runAs("user", func() error { return w.store.remove(p) })
		}
	}
	return stuck
}

// deleteRevision deletes the ControllerRevision of an image.
func (w *world) deleteRevision(tag string) {
	for _, r := range listOf[*appsv1.ControllerRevision](w.store.objects) {
		if tagOf(templateIn(r)) == tag {
			w.runAs("user", func() error { return w.store.remove(r) })
		}
	}
}
