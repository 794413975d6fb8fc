// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/weir-rollouts/weir/pkg/object"
)

// Invariants of workloads whose own controller makes and takes their pods.

// ordered excuses what an owner does: the pods of the highest ordinals go first,
// which are the new ones.
func (c *checks) ordered(old, next object.Object) {
	was, _ := old.(*appsv1.StatefulSet)
	is, _ := next.(*appsv1.StatefulSet)
	if is == nil {
		return
	}
	c.aborted = c.aborted && statefulSets{}.stopped(is)
	c.empty = c.empty || *is.Spec.Replicas <= 1 || was != nil && *is.Spec.Replicas < *was.Spec.Replicas
}

// pod: nobody but its own controller takes a pod that is ready.
func (c *checks) pod(actor string, old, next object.Object) {
	was, _ := old.(*corev1.Pod)
	is, _ := next.(*corev1.Pod)
	if was == nil || terminating(was) || is != nil && !terminating(is) {
		return
	}
	if isReady(was) && actor != "kube" && actor != "gc" && actor != "user" {
		c.violate("available", "%s takes %s, which is ready", actor, was.Name)
	}
}
