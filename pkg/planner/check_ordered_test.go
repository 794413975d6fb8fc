// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Invariants of workloads whose own controller creates and deletes the pods.

// checkStatefulSetWrite checks a write of a StatefulSet. It excuses writes of the owner: a smaller
// size deletes the highest ordinals, which are the new pods, and a larger size adds new pods.
func (c *invariants) checkStatefulSetWrite(actor string, old, next object.Object) {
	was, _ := old.(*appsv1.StatefulSet)
	is, _ := next.(*appsv1.StatefulSet)
	if is == nil || was == nil {
		return
	}
	c.aborted = c.aborted && statefulSets{}.isStopped(is)
	c.excusesSizeZero = c.excusesSizeZero || *is.Spec.Replicas <= 1 || *is.Spec.Replicas < *was.Spec.Replicas
	c.excusesGrowth = workload.HasReleaseMark(is) && (c.excusesGrowth || *is.Spec.Replicas > *was.Spec.Replicas)
	if !workload.HasReleaseMark(is) {
		c.surplus = surplus{}
	} else if *is.Spec.Replicas > *was.Spec.Replicas {
		c.surplus.sizeGrew = true
	} else if actor == "batch" {
		c.surplus = surplus{allowed: c.surplus.allowed + 1, pods: c.surplus.pods}
	}
	c.checkRevisionTakeover(is, was.Status.CurrentRevision, is.Status.CurrentRevision)
	if b := find[*rollouts.BatchRelease](c.w.store.objects, kindBatch, is.Name); actor == "batch" && b != nil && workload.HasReleaseMark(is) {
		c.checkStatefulSetTarget(is, b)
	}
}

// surplus counts the pods of the new revision beyond the target of the step, and how many are
// allowed. Each write of Weir allows one, because the native controller may create a pod meanwhile.
type surplus struct {
	allowed, pods int
	// sizeGrew reports whether the size has grown since.
	sizeGrew bool
}

// lastTarget returns the last target that the workload received for the revision of the current
// release.
func (c *invariants) lastTarget(o object.Object) (*rollouts.Progress, *planner.Target) {
	b, r := find[*rollouts.BatchRelease](c.w.store.objects, kindBatch, o.GetName()), find[*rollouts.Rollout](c.w.store.objects, kindRollout, o.GetName())
	if !workload.HasReleaseMark(o) || b == nil || r == nil || r.Status.Active() == nil || b.Spec.Plan.BatchPartition == nil {
		return nil, nil
	}
	p, d := r.Status.Active(), b.Status.Drive
	if d == nil || d.Abort || p.UpdateRevision == p.StableRevision || p.UpdateRevision != d.Revision || c.images[d.Revision] != tagOf(templateOf(o)) {
		return nil, nil
	}
	return p, &planner.Target{Partition: d.Partition, KeepOne: d.KeepOne}
}

// checkRevisionTakeover checks the invariant "taken over": the native controller does not make the
// update revision current before the target is all pods. It creates all further pods from the
// current revision.
func (c *invariants) checkRevisionTakeover(o object.Object, was, now string) {
	p, d := c.lastTarget(o)
	if d == nil || was == now || replicasOf(o) == 0 || c.askedForAllPods(o) || find[*appsv1.ControllerRevision](c.w.store.objects, kindRevision, was) == nil {
		return
	}
	if now[strings.LastIndex(now, "-")+1:] == p.UpdateRevision[strings.LastIndex(p.UpdateRevision, "-")+1:] {
		c.violate("taken over", "every pod that comes is of %s, of which %s was asked for", now, d.Partition.String())
	}
}

// askedForAllPods reports whether the target is, or was, all pods.
func (c *invariants) askedForAllPods(o object.Object) bool {
	b, every := find[*rollouts.BatchRelease](c.w.store.objects, kindBatch, o.GetName()), intstr.FromString("100%")
	return b.Status.Drive.Partition == every || b.Spec.Plan.Batches[b.Status.CurrentBatch].CanaryReplicas == every
}

// checkAddedPod checks the invariant "surplus": no more pods of the update revision are created
// beyond the target of the step than surplus allows.
func (c *invariants) checkAddedPod(pod *corev1.Pod) {
	set, _ := c.workload().(*appsv1.StatefulSet)
	if set == nil || !metav1.IsControlledBy(pod, set) || set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
		return
	}
	p, d := c.lastTarget(set)
	if d == nil || c.surplus.sizeGrew || pod.Labels[ordinalKey] != p.UpdateRevision {
		return
	}
	now, _ := c.countUpdatedPods(set, p.UpdateRevision)
	if now <= d.Limit(*set.Spec.Replicas) {
		return
	}
	if c.surplus.pods++; c.surplus.pods > c.surplus.allowed {
		c.violate("surplus", "%s is pod %d of %s, of which %s was asked for", pod.Name, now, p.UpdateRevision, d.Partition.String())
	}
}

// checkStatefulSetTarget checks the invariant "step": the partition adds no more pods of the update
// revision than the batch has, and none during an abort. Existing pods may stay.
func (c *invariants) checkStatefulSetTarget(set *appsv1.StatefulSet, b *rollouts.BatchRelease) {
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
	now, then := c.countUpdatedPods(set, p.UpdateRevision)
	allowed := int32(0)
	if !plan.Abort {
		allowed = planner.Limit(rollouts.StylePartition, plan.Batches[b.Status.CurrentBatch].CanaryReplicas, *set.Spec.Replicas)
	}
	if then > max(now, allowed) && !c.excusesGrowth {
		c.violate("step", "the native controller is told to bring %d pods of %s where %d are allowed", then, p.UpdateRevision, allowed)
	}
}

// countUpdatedPods counts the pods of a revision now, and after the native controller has applied
// the partition.
func (c *invariants) countUpdatedPods(set *appsv1.StatefulSet, revision string) (now, then int32) {
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

// checkPodDeletion checks that only the native controller deletes a ready pod of a StatefulSet or
// CloneSet.
func (c *invariants) checkPodDeletion(actor string, old, next object.Object) {
	was, _ := old.(*corev1.Pod)
	is, _ := next.(*corev1.Pod)
	if was == nil && is != nil && actor == "kube" {
		c.checkAddedPod(is)
	}
	if was == nil || isTerminating(was) || is != nil && !isTerminating(is) {
		return
	}
	if actor == "kube" || actor == "gc" || actor == "user" {
		return
	}
	if d, ok := c.workload().(*appsv1.DaemonSet); ok {
		c.checkDaemonSetPodDeletion(actor, d, was)
	} else if isReady(was) {
		c.violate("available", "%s takes %s, which is ready", actor, was.Name)
	}
}

// checkBatchRequested checks that the plan of the BatchRelease does not start a batch before its
// step.
func (c *invariants) checkBatchRequested(actor string, old object.Object, b *rollouts.BatchRelease) {
	if was, ok := old.(*rollouts.BatchRelease); ok && equal.DeepEqual(was.Spec, b.Spec) {
		return // the batch was requested earlier
	}
	r := find[*rollouts.Rollout](c.w.store.objects, kindRollout, b.Name)
	if plan := b.Spec.Plan; actor != "rollout" || r == nil || r.Status.Active() == nil || plan.BatchPartition == nil || plan.Abort || b.DeletionTimestamp != nil {
		return
	}
	if at := r.Status.Active().CurrentStepIndex; *b.Spec.Plan.BatchPartition >= at {
		c.violate("step", "batch %d is asked for at step %d", *b.Spec.Plan.BatchPartition, at)
	}
}
