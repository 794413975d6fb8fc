// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// servingPods counts the ready pods that are asked to stay.
func servingPods(rs *appsv1.ReplicaSet) int32 {
	if rs == nil {
		return 0
	}
	return min(rs.Status.ReadyReplicas, *rs.Spec.Replicas)
}

// Available: no write takes ready pods below the floor that the owner set, or
// takes any more where there are too few already.
func (c *invariants) checkAvailability(actor string, was, is *appsv1.ReplicaSet) {
	lowered := was != nil && (is == nil || *is.Spec.Replicas < *was.Spec.Replicas)
	lost := servingPods(was) - servingPods(is)
	d := c.deployment()
	if !lowered || lost <= 0 || c.isUnavailabilityExcused(actor, d) || !metav1.IsControlledBy(was, d) {
		return
	}
	n := c.requestedReplicas(d)
	_, unavailable := nativeOf(d).limits(c.owner, n)
	if after, floor := c.countServingPods(), n-unavailable; after < floor {
		c.violate("available", "%s leaves %d ready pods of a floor of %d, taking %d from %s", actor, after, floor, lost, was.Name)
	}
}

// isUnavailabilityExcused reports whether nobody promised the pods that go: some have failed, the
// workload is gone, or it is the native controller's own rolling update.
func (c *invariants) isUnavailabilityExcused(actor string, d *appsv1.Deployment) bool {
	switch {
	case c.excusesPodFailures, c.excusesLostStable, d == nil, actor == "gc", c.owner.(*appsv1.Deployment).Spec.Strategy.RollingUpdate == nil:
		return true
	default:
		// Stopped, it still sizes the sets of a blue-green release, in proportion.
		return actor == "kube" && (!d.Spec.Paused || d.Spec.MinReadySeconds > 0) && d.Spec.Strategy.RollingUpdate != nil
	}
}

// countServingPods counts the ready pods of the workload's own sets that are asked to
// stay. Those of an extra one are nobody's promise.
func (c *invariants) countServingPods() int32 {
	var n int32
	d := c.workload()
	for _, p := range podsIn(c.w.store.objects) {
		if d != nil && metav1.IsControlledBy(p, d) && !isUnavailable(p) && c.isWithinSize(d, p) {
			n++
		}
	}
	for _, rs := range listOf[*appsv1.ReplicaSet](c.w.store.objects) {
		if d != nil && metav1.IsControlledBy(rs, d) {
			n += servingPods(rs)
		}
	}
	return n
}
