// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Invariants of workloads of which pods are deleted for a release.

// isWithinSize reports whether a pod is not beyond the size.
func (c *invariants) isWithinSize(o object.Object, p *corev1.Pod) bool {
	if _, ok := o.(*appsv1.DaemonSet); ok {
		return c.w.store.objects[key{kindNode, nodeOf(p)}] != nil
	}
	if _, ok := o.(*workload.CloneSet); ok {
		return true // its pods have no order, and it takes those that are too many
	}
	return ordinalOf(p) < int(replicasOf(o))
}

// checkDaemonSetPodDeletion: a pod is deleted only if it is to be replaced; if it is ready, no more
// are missing then than the owner allows, and not more get the new version than
// the batch has.
func (c *invariants) checkDaemonSetPodDeletion(actor string, d *appsv1.DaemonSet, was *corev1.Pod) {
	live := tagOf(&d.Spec.Template)
	if podTag(was) == live {
		c.violate("available", "%s takes %s, which runs the live template", actor, was.Name)
	}
	n := replicasOf(d)
	_, unavailable := daemonSets{}.limits(d, n)
	if gone := n - c.countServingPods(); isReady(was) && !c.excusesPodFailures && gone > unavailable {
		c.violate("available", "%s takes %s, so that %d of %d are missing, where %d may be", actor, was.Name, gone, n, unavailable)
	}
	r := find[*rollouts.Rollout](c.w.store.objects, kindRollout, d.Name)
	b := find[*rollouts.BatchRelease](c.w.store.objects, kindBatch, d.Name)
	if r == nil || b == nil || r.Status.Active() == nil || b.Spec.Plan.BatchPartition == nil {
		return
	}
	p, plan := r.Status.Active(), b.Spec.Plan
	if p.UpdateRevision == p.StableRevision || p.UpdateRevision != plan.Revision || c.images[p.UpdateRevision] != live {
		return
	}
	allowed := int32(0)
	if !plan.Abort {
		allowed = planner.Limit(rollouts.StylePartition, plan.Batches[b.Status.CurrentBatch].CanaryReplicas, n)
	}
	if then := c.countUpdatedNodes(live, n); then > allowed {
		c.violate("step", "%s takes %s, so that %d pods get %s where %d are allowed", actor, was.Name, then, live, allowed)
	}
}

// countUpdatedNodes is how many nodes have a pod of an image, or none and will get one.
func (c *invariants) countUpdatedNodes(tag string, n int32) int32 {
	for _, p := range podsIn(c.w.store.objects) {
		if !isTerminating(p) && podTag(p) != tag {
			n--
		}
	}
	return n
}
