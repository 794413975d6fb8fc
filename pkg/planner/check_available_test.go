// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// servingPods counts the ready pods of a ReplicaSet that its size keeps.
func servingPods(rs *appsv1.ReplicaSet) int32 {
	if rs == nil {
		return 0
	}
	return min(rs.Status.ReadyReplicas, *rs.Spec.Replicas)
}

// checkAvailability checks the invariant "available": no write reduces the ready pods below the
// minimum of the owner's strategy, and no write reduces them further if there are too few already.
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

// isUnavailabilityExcused reports whether a loss of ready pods is allowed: pods have failed, the
// workload is gone, or the native controller runs its own rolling update.
func (c *invariants) isUnavailabilityExcused(actor string, d *appsv1.Deployment) bool {
	switch {
	case c.excusesPodFailures, c.excusesLostStable, d == nil, actor == "gc", c.owner.(*appsv1.Deployment).Spec.Strategy.RollingUpdate == nil:
		return true
	default:
		// The native controller also sizes the sets of a paused blue-green release, in proportion.
		return actor == "kube" && (!d.Spec.Paused || d.Spec.MinReadySeconds > 0) && d.Spec.Strategy.RollingUpdate != nil
	}
}

// countServingPods counts the ready pods of the workload's own sets that their size keeps. Pods of
// the canary Deployment do not count for the owner's minimum.
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
