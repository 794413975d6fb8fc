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

	"github.com/weir-rollouts/weir/pkg/batch"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// The pods of a ReplicaSet are what its status counts; only their labels are
// kept, by name.

func podName(rs *appsv1.ReplicaSet, i int32) string { return rs.Name + "-" + strconv.Itoa(int(i)) }

// podsOf are the pods of the update revision.
func (w *world) podsOf(owned []object.Object, f planner.Workload) []batch.Pod {
	var pods []batch.Pod
	for _, o := range owned {
		if p, ok := o.(*corev1.Pod); ok && p.Labels[ordinalKey] == f.PodTemplateHash {
			pods = append(pods, workload.Pods([]corev1.Pod{*p})...)
		}
		rs, ok := o.(*appsv1.ReplicaSet)
		if !ok || rs.Labels[hashKey] != f.PodTemplateHash {
			continue
		}
		for i := range rs.Status.Replicas {
			m := w.marks[podName(rs, i)]
			pods = append(pods, batch.Pod{Name: podName(rs, i), Came: time.Unix(int64(i), 0), RolloutID: m.RolloutID, Batch: m.Batch})
		}
	}
	return pods
}

// mark is one write for each pod.
func (w *world) mark(marks []planner.Mark) error {
	for _, m := range marks {
		if err := w.spend(acting); err != nil {
			return err
		}
		w.check.effect(w.actor)
		if p := find[*corev1.Pod](w.store.objects, kindPod, m.Pod); p != nil {
			if p.UID != m.UID {
				return errMoved
			}
			if err := w.store.update(labelled(p, workload.Labels(m))); err != nil {
				return err
			}
			continue
		}
		if w.marks[m.Pod] != m {
			w.marks[m.Pod] = m
			w.store.tick()
		}
	}
	return nil
}

// unmark forgets the labels of pods that are gone.
func (w *world) unmark(old, new object.Object) {
	was, ok := old.(*appsv1.ReplicaSet)
	if !ok {
		return
	}
	var left int32
	if rs, ok := new.(*appsv1.ReplicaSet); ok {
		left = rs.Status.Replicas
	}
	for i := left; i < was.Status.Replicas; i++ {
		delete(w.marks, podName(was, i))
	}
}

// batches tells the labels of a set's pods: how many by release and batch.
func (w *world) batches(rs *appsv1.ReplicaSet) string {
	count := map[string]int{}
	for i := range rs.Status.Replicas {
		if m, ok := w.marks[podName(rs, i)]; ok {
			count[fmt.Sprintf("%s/%d", m.RolloutID, m.Batch)]++
		}
	}
	var said []string
	for _, batch := range slices.Sorted(maps.Keys(count)) {
		said = append(said, fmt.Sprintf(", %d of %s", count[batch], batch))
	}
	return strings.Join(said, "")
}
