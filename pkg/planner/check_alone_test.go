// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

// Invariant "alone": no write of Weir removes the last ready pods of a workload, whichever template
// they run and however a release ends.

// checkLastReadyPods checks a write of a ReplicaSet, of the canary Deployment, or of the
// BatchRelease, whose deletion also deletes the canary Deployment.
func (c *invariants) checkLastReadyPods(actor string, old, next object.Object) {
	d := c.deployment()
	if d == nil || d.Labels[rollouts.LabelCanaryDeployment] != "" || !c.isWeirActor(actor) || *d.Spec.Replicas == 0 || c.requestedReplicas(d) == 0 {
		return
	}
	var taken int32
	switch was := old.(type) {
	case *appsv1.ReplicaSet:
		if c.mayLoseAllPods(d) || c.excusesSizeZero {
			return
		}
		is, _ := next.(*appsv1.ReplicaSet)
		taken = servingPods(was) - servingPods(is)
	case *appsv1.Deployment:
		if was.Labels[rollouts.LabelCanaryDeployment] == "" || c.isBatchDeleted() {
			return
		}
		left := int32(0)
		if is, ok := next.(*appsv1.Deployment); ok && is.DeletionTimestamp == nil {
			left = *is.Spec.Replicas
		}
		taken = max(c.countReadyPods(was)-left, 0)
	case *rollouts.BatchRelease:
		if was.DeletionTimestamp != nil || next != nil && next.GetDeletionTimestamp() == nil {
			return
		}
		for _, e := range listOf[*appsv1.Deployment](c.w.store.objects) {
			// If the Deployment has size 0, an earlier write removed its pods, and that write was
			// checked.
			if e.Labels[rollouts.LabelCanaryDeployment] != "" && *e.Spec.Replicas > 0 {
				taken += c.countReadyPods(e)
			}
		}
	}
	if taken > 0 && c.countReadyPodsBefore()-taken <= 0 && c.w.seen[kindSet] >= c.damagedAt {
		c.violate("alone", "%s takes the last %d ready pods, of %s", actor, taken, old.GetName())
	}
}

// mayLoseAllPods reports whether the owner's maxUnavailable allows that no pod is ready, or whether there is only one
// pod, so that any share includes it. This may have been so at the size that the controller has observed, and the
// owner may have scaled up since.
func (c *invariants) mayLoseAllPods(d *appsv1.Deployment) bool {
	sizes := []int32{*d.Spec.Replicas}
	if seen := find[*appsv1.Deployment](c.w.store.at(c.w.seen[kindDeployment]), kindDeployment, d.Name); seen != nil {
		sizes = append(sizes, *seen.Spec.Replicas)
	}
	return slices.ContainsFunc(sizes, func(size int32) bool {
		_, unavailable := nativeOf(d).limits(c.owner, size)
		return unavailable >= size
	})
}

// noteUnheldUpdate notes that the native controller has removed the last ready pods, which the owner's maxUnavailable
// allows, before Weir has held the workload. Weir may still have these pods in its cache, and pin the Service to
// them.
func (c *invariants) noteUnheldUpdate(actor string, old, next object.Object) {
	was, ok := old.(*appsv1.ReplicaSet)
	if d := c.deployment(); !ok || actor != "kube" || d == nil || !c.mayLoseAllPods(d) {
		return
	}
	if slices.ContainsFunc(listOf[*rollouts.Rollout](c.w.store.objects), isReleasing) {
		return
	}
	is, _ := next.(*appsv1.ReplicaSet)
	if taken := servingPods(was) - servingPods(is); taken > 0 && c.countReadyPodsBefore()-taken <= 0 {
		c.noteFailedPods()
	}
}

// isBatchDeleted reports whether the BatchRelease is being deleted. Its deletion was decided
// earlier, and pods may have become ready since.
func (c *invariants) isBatchDeleted() bool {
	for _, b := range listOf[*rollouts.BatchRelease](c.w.store.objects) {
		return b.DeletionTimestamp != nil
	}
	return true
}

// isWeirActor reports whether the actor is a controller of Weir.
func (c *invariants) isWeirActor(actor string) bool {
	return actor == "rollout" || actor == "batch" || actor == "sizes"
}

// countReadyPods counts the ready pods of a Deployment that the acting controller also observed as
// ready.
func (c *invariants) countReadyPods(d *appsv1.Deployment) int32 {
	var n int32
	seen := c.w.store.at(c.w.seen[kindSet])
	for _, rs := range listOf[*appsv1.ReplicaSet](c.w.store.objects) {
		if metav1.IsControlledBy(rs, d) {
			n += min(servingPods(rs), servingPods(find[*appsv1.ReplicaSet](seen, kindSet, rs.Name)))
		}
	}
	return n
}

// countReadyPodsBefore counts the ready pods before the write that is being checked.
func (c *invariants) countReadyPodsBefore() int32 {
	var n int32
	before := c.w.store.at(c.w.store.newest() - 1)
	for _, rs := range listOf[*appsv1.ReplicaSet](before) {
		if e := metav1.GetControllerOf(rs); e != nil && rs.DeletionTimestamp == nil && !c.losesAllPods(before, e.Name) {
			n += servingPods(rs)
		}
	}
	return n
}

// losesAllPods reports whether a Deployment is gone, is being deleted, or is scaled to 0.
func (c *invariants) losesAllPods(s snapshot, name string) bool {
	d := find[*appsv1.Deployment](s, kindDeployment, name)
	return d == nil || d.DeletionTimestamp != nil || *d.Spec.Replicas == 0
}

// onlyExtraServes reports whether only pods of the canary Deployment are ready, and pods of the
// workload's own template cannot start.
func (e *releaseEnd) onlyExtraServes() bool {
	d, ok := e.workload().(*appsv1.Deployment)
	if !ok || !hasBrokenImage(d.Spec.Template) {
		return false
	}
	var own, extra int32
	for _, rs := range listOf[*appsv1.ReplicaSet](e.store.objects) {
		if metav1.IsControlledBy(rs, d) {
			own += servingPods(rs)
		} else {
			extra += servingPods(rs)
		}
	}
	return own == 0 && extra > 0
}

// createClumsyDeployment creates a Deployment whose owner breaks its pods and deletes its
// ReplicaSets.
func (s *schedule) createClumsyDeployment() {
	s.ownerBreaksPods = true
	s.createDeployment()
}

// clumsyMoves are the additional moves of schedules made by clumsy.
var clumsyMoves = []move{
	{"breaks", 3, func(s *schedule, b byte) {
		sets := byAge(listOf[*appsv1.ReplicaSet](s.store.objects))
		if len(sets) == 0 {
			return
		}
		rs := sets[int(b>>1)%len(sets)]
		if s.store.unready[imageOfSet(rs)] = b%2 == 0; b%2 == 0 {
			s.check.noteFailedPods()
			s.observer.did("breaks " + imageOfSet(rs))
			s.runAs("pods", func() error { makePodsReady(s.store, rs, -*rs.Spec.Replicas); return nil })
		}
	}},
	{"loses", 1, func(s *schedule, _ byte) {
		if r := find[*rollouts.Rollout](s.store.objects, kindRollout, app0); r != nil && r.Status.Phase == rollouts.PhaseProgressing {
			stable := r.Status.Active().StableRevision
			s.deleteSets(func(rs *appsv1.ReplicaSet) bool { return rs.Labels[hashKey] == stable })
		}
	}},
}

// TestSchedulesWithUnreadyStablePods plays schedules with unready stable pods and deleted ReplicaSets.
func TestSchedulesWithUnreadyStablePods(t *testing.T) {
	playSchedules(t, (*schedule).createClumsyDeployment, *schedules)
}
