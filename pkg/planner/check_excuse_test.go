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

// loses notes whether the stable set of a release is gone.
func (c *invariants) loses() {
	for _, r := range each[*rollouts.Rollout](c.w.store.objects) {
		p := r.Status.Active()
		switch {
		case p == nil || p.StableRevision == "" || c.deployment() == nil:
		case c.set(p.StableRevision) == nil:
			c.lost = r.Status.Phase != rollouts.PhaseHealthy
		case c.able(p.StableRevision) > 0 && c.allSizes() <= replicasOf(c.deployment()):
			c.lost = false
		}
	}
}

// allSizes is how many pods all sets of the Deployment are asked to have.
func (c *invariants) allSizes() int32 {
	var n int32
	for _, rs := range each[*appsv1.ReplicaSet](c.w.store.objects) {
		if metav1.IsControlledBy(rs, c.deployment()) {
			n += *rs.Spec.Replicas
		}
	}
	return n
}

// fails excuses what follows from pods that fail now.
func (c *invariants) fails() {
	c.sick, c.sickAt, c.hurtAt = true, c.w.store.newest()+1, c.w.store.newest()+1
}

// recover ends excuses as soon as all that is asked for serves.
func (c *invariants) recover() {
	c.loses()
	o := c.workload()
	if o == nil || replicasOf(o) <= 1 {
		return
	}
	if d, ok := o.(*appsv1.Deployment); ok && d.Spec.MinReadySeconds > 0 {
		return
	}
	k := keyOf(o).kind
	for v := c.w.seen[k]; c.empty && v <= c.w.store.newest(); v++ {
		if was := c.w.store.at(v)[keyOf(o)]; was != nil && replicasOf(was) <= 1 {
			return // whoever sizes the sets may still see this
		}
	}
	_, unavailable := nativeOf(o).limits(c.owner, replicasOf(o))
	// Those beyond the size are still to go.
	whole := !slices.ContainsFunc(podsIn(c.w.store.objects), func(p *corev1.Pod) bool { return !c.within(o, p) }) &&
		c.serving() >= replicasOf(o)-unavailable
	for _, target := range c.targets() {
		whole = whole && target.able > 0
	}
	for hash := range c.promises.kept {
		whole = whole && c.able(hash) > 0
	}
	if whole && c.w.seen[kindSet] >= c.sickAt {
		c.sick, c.empty, c.sickAt = false, false, 0
	}
}
