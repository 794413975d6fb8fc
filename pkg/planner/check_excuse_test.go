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

// When what somebody has done to the world excuses no more what follows from it.

// noteLostStableSet notes whether the stable set of a release is gone.
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

// sumSetSizes is how many pods all sets of the Deployment are asked to have.
func (c *invariants) sumSetSizes() int32 {
	var n int32
	for _, rs := range listOf[*appsv1.ReplicaSet](c.w.store.objects) {
		if metav1.IsControlledBy(rs, c.deployment()) {
			n += *rs.Spec.Replicas
		}
	}
	return n
}

// noteFailedPods excuses what follows from pods that fail now.
func (c *invariants) noteFailedPods() {
	c.excusesPodFailures, c.failedAt, c.damagedAt = true, c.w.store.newest()+1, c.w.store.newest()+1
}

// endExcuses ends excuses as soon as all that is asked for serves.
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
			return // whoever sizes the sets may still see this
		}
	}
	_, unavailable := nativeOf(o).limits(c.owner, replicasOf(o))
	// Those beyond the size are still to go.
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
