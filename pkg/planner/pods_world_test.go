// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// The pods of a ReplicaSet are the pods that its status counts. Only their labels are stored, by
// pod name.

func podName(rs *appsv1.ReplicaSet, i int32) string { return rs.Name + "-" + strconv.Itoa(int(i)) }

// podsOfSet returns the pods of a set with their status.
func (w *world) podsOfSet(rs *appsv1.ReplicaSet) []*corev1.Pod {
	pods := make([]*corev1.Pod, rs.Status.Replicas)
	for i := range int32(len(pods)) {
		pods[i] = &corev1.Pod{}
		pods[i].Name, pods[i].CreationTimestamp = podName(rs, i), metav1.Unix(int64(i), 0)
		if m, ok := w.podLabels[pods[i].Name]; ok {
			pods[i].Labels = workload.BatchLabels(m)
		}
		pods[i].Status = w.podStatus(rs.Spec.Template, i < rs.Status.ReadyReplicas)
	}
	return pods
}

// podStatus returns the status that the kubelet reports for a pod.
func (w *world) podStatus(t corev1.PodTemplateSpec, ready bool) (status corev1.PodStatus) {
	c := corev1.ContainerStatus{Name: "main", State: corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.now.Add(-time.Hour))},
	}}
	switch {
	case ready:
		status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	case hasBrokenImage(t):
		c.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
	case !w.store.unready[tagOf(&t)]:
		c.State.Running.StartedAt = metav1.NewTime(w.now) // the pod has just started
	}
	status.ContainerStatuses = []corev1.ContainerStatus{c}
	return status
}

// labelPod labels a pod.
func (w *world) labelPod(m planner.PodLabel) error {
	if err := w.spendWrite(acting); err != nil {
		return err
	}
	w.check.checkEffect(w.actor)
	p := find[*corev1.Pod](w.store.objects, kindPod, m.Pod)
	switch {
	case p != nil && p.UID != m.UID:
		return errConflict
	case p != nil:
		return w.store.update(withLabels(p, workload.BatchLabels(m)))
	case w.podLabels[m.Pod] != m:
		w.podLabels[m.Pod] = m
		w.store.beginMoment()
	}
	return nil
}

// forgetPodLabels removes the labels of deleted pods.
func (w *world) forgetPodLabels(old, new object.Object) {
	was, ok := old.(*appsv1.ReplicaSet)
	if !ok {
		return
	}
	var left int32
	if rs, ok := new.(*appsv1.ReplicaSet); ok {
		left = rs.Status.Replicas
	}
	for i := left; i < was.Status.Replicas; i++ {
		delete(w.podLabels, podName(was, i))
	}
}

// describePodLabels describes the labels of the pods of a set: the number per release and batch.
func (w *world) describePodLabels(rs *appsv1.ReplicaSet) string {
	count := map[string]int{}
	for i := range rs.Status.Replicas {
		if m, ok := w.podLabels[podName(rs, i)]; ok {
			count[fmt.Sprintf("%s/%d", m.RolloutID, m.Batch)]++
		}
	}
	var said []string
	for _, batch := range slices.Sorted(maps.Keys(count)) {
		said = append(said, fmt.Sprintf(", %d of %s", count[batch], batch))
	}
	return strings.Join(said, "")
}
