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

// Invariants of workloads whose pods Weir deletes for a release.

// isWithinSize reports whether the size of the workload keeps the pod.
func (c *invariants) isWithinSize(o object.Object, p *corev1.Pod) bool {
	if _, ok := o.(*appsv1.DaemonSet); ok {
		return c.w.store.objects[key{kindNode, nodeOf(p)}] != nil
	}
	if _, ok := o.(*workload.CloneSet); ok {
		return true // pods of a CloneSet have no order, and the controller deletes surplus pods
	}
	return ordinalOf(p) < int(replicasOf(o))
}

// checkDaemonSetPodDeletion checks that a deleted pod has an old template, that the deletion of a
// ready pod respects the owner's maxUnavailable, and that no more pods get the new version than the
// batch has.
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

// countUpdatedNodes returns how many nodes have a pod of an image, or have no pod and will get one
// of it.
func (c *invariants) countUpdatedNodes(tag string, n int32) int32 {
	for _, p := range podsIn(c.w.store.objects) {
		if !isTerminating(p) && podTag(p) != tag {
			n--
		}
	}
	return n
}
