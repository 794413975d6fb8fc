// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Invariants of workloads whose own controller makes and takes their pods.

// ordered excuses what an owner does: the pods of the highest ordinals go first,
// which are the new ones, and those that come are new as well.
func (c *checks) ordered(actor string, old, next object.Object) {
	was, _ := old.(*appsv1.StatefulSet)
	is, _ := next.(*appsv1.StatefulSet)
	if is == nil || was == nil {
		return
	}
	c.aborted = c.aborted && statefulSets{}.stopped(is)
	c.empty = c.empty || *is.Spec.Replicas <= 1 || *is.Spec.Replicas < *was.Spec.Replicas
	c.grown = marked(is) && (c.grown || *is.Spec.Replicas > *was.Spec.Replicas)
	if b := find[*rollouts.BatchRelease](c.w.store.objects, kindBatch, is.Name); actor == "batch" && b != nil && marked(is) {
		c.step(is, b)
	}
}

// Step: what is told to the native controller brings no more pods of the update
// revision than the batch has, and none while it is aborted. What is there stays.
func (c *checks) step(set *appsv1.StatefulSet, b *rollouts.BatchRelease) {
	r := find[*rollouts.Rollout](c.w.store.objects, kindRollout, b.Name)
	plan := b.Spec.Plan
	if r == nil || plan.BatchPartition == nil || r.Status.Active() == nil {
		return
	}
	p := r.Status.Active()
	update := c.images[p.UpdateRevision] == tagOf(&set.Spec.Template)
	if !update || p.UpdateRevision == p.StableRevision || p.UpdateRevision != plan.Revision {
		return
	}
	now, then := c.updated(set, p.UpdateRevision)
	allowed := int32(0)
	if !plan.Abort {
		allowed = planner.Limit(rollouts.StylePartition, plan.Batches[b.Status.CurrentBatch].CanaryReplicas, *set.Spec.Replicas)
	}
	if then > max(now, allowed) && !c.grown {
		c.violate("step", "the native controller is told to bring %d pods of %s where %d are allowed", then, p.UpdateRevision, allowed)
	}
}

// updated counts the pods of a revision, and how many there will be.
func (c *checks) updated(set *appsv1.StatefulSet, revision string) (now, then int32) {
	from := min(*set.Spec.UpdateStrategy.RollingUpdate.Partition, *set.Spec.Replicas)
	then = *set.Spec.Replicas - from
	for _, p := range podsIn(c.w.store.objects) {
		if p.Labels[ordinalKey] != revision || !metav1.IsControlledBy(p, set) || ordinalOf(p) >= int(*set.Spec.Replicas) {
			continue
		}
		now++
		if ordinalOf(p) < int(from) {
			then++
		}
	}
	return now, then
}

// pod: nobody but its own controller takes a pod that is ready.
func (c *checks) pod(actor string, old, next object.Object) {
	was, _ := old.(*corev1.Pod)
	is, _ := next.(*corev1.Pod)
	if was == nil || terminating(was) || is != nil && !terminating(is) {
		return
	}
	if actor == "kube" || actor == "gc" || actor == "user" {
		return
	}
	if d, ok := c.workload().(*appsv1.DaemonSet); ok {
		c.taken(actor, d, was)
	} else if isReady(was) {
		c.violate("available", "%s takes %s, which is ready", actor, was.Name)
	}
}

// batchAsked: a batch is not asked for before its step.
func (c *checks) batchAsked(actor string, b *rollouts.BatchRelease) {
	r := find[*rollouts.Rollout](c.w.store.objects, kindRollout, b.Name)
	if plan := b.Spec.Plan; actor != "rollout" || r == nil || r.Status.Active() == nil || plan.BatchPartition == nil || plan.Abort || b.DeletionTimestamp != nil {
		return
	}
	if at := r.Status.Active().CurrentStepIndex; *b.Spec.Plan.BatchPartition >= at {
		c.violate("step", "batch %d is asked for at step %d", *b.Spec.Plan.BatchPartition, at)
	}
}
