// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// When an excuse ends. An excuse suspends an invariant after a fault that the world injected.

// noteLostStableSet notes whether the stable ReplicaSet of a release is gone.
func (c *invariants) noteLostStableSet() {
	for _, r := range listOf[*rollouts.Rollout](c.w.store.objects) {
		p := r.Status.Active()
		switch {
		case p == nil || p.StableRevision == "" || c.deployment() == nil:
		case c.setOfRevision(p.StableRevision) == nil:
			c.excusesLostStable = r.Status.Phase != rollouts.PhaseHealthy
		case c.countReadyPodsOf(p.StableRevision) > 0 && c.sumSetSizes() <= replicasOf(c.deployment()):
			c.excusesLostStable = false
		}
	}
}

// sumSetSizes returns the sum of spec.replicas over all sets of the Deployment.
func (c *invariants) sumSetSizes() int32 {
	var n int32
	for _, rs := range listOf[*appsv1.ReplicaSet](c.w.store.objects) {
		if metav1.IsControlledBy(rs, c.deployment()) {
			n += *rs.Spec.Replicas
		}
	}
	return n
}

// noteFailedPods starts the excuse for pods that fail now.
func (c *invariants) noteFailedPods() {
	c.excusesPodFailures, c.failedAt, c.damagedAt = true, c.w.store.newest()+1, c.w.store.newest()+1
}

// endExcuses ends the excuses as soon as all requested pods are ready.
func (c *invariants) endExcuses() {
	c.noteLostStableSet()
	o := c.workload()
	if o == nil || replicasOf(o) <= 1 {
		return
	}
	if d, ok := o.(*appsv1.Deployment); ok && d.Spec.MinReadySeconds > 0 {
		return
	}
	k := keyOf(o).kind
	for v := c.w.seen[k]; c.excusesSizeZero && v <= c.w.store.newest(); v++ {
		if was := c.w.store.at(v)[keyOf(o)]; was != nil && replicasOf(was) <= 1 {
			return // the controller that sizes the sets may still have this version in its cache
		}
	}
	_, unavailable := nativeOf(o).limits(c.owner, replicasOf(o))
	// Pods beyond the size are still to be deleted.
	whole := !slices.ContainsFunc(podsIn(c.w.store.objects), func(p *corev1.Pod) bool { return !c.isWithinSize(o, p) }) &&
		c.countServingPods() >= replicasOf(o)-unavailable
	for _, target := range c.listRouteTargets() {
		whole = whole && target.able > 0
	}
	for hash := range c.promises.keptUntil {
		whole = whole && c.countReadyPodsOf(hash) > 0
	}
	if whole && c.w.seen[kindSet] >= c.failedAt {
		c.excusesPodFailures, c.excusesSizeZero, c.failedAt = false, false, 0
	}
}
