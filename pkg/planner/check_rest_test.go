// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Invariants of a release that nobody changes any more, in any state: paused, refused, waiting, or
// aborted.

// leaveAlone does nothing, and checks the invariants of a world at rest.
func (e *releaseEnd) leaveAlone() {
	if !e.settle() || e.workload() == nil || replicasOf(e.workload()) == 0 {
		return
	}
	e.checkServiceEndpoints()
	e.checkWorkloadReleased()
	if d, ok := e.workload().(*appsv1.Deployment); ok && d.DeletionTimestamp == nil {
		e.checkSetSizes(d)
	}
}

// isMissingSetDeleted reports whether the ReplicaSet of the missing pods was deleted: the stable
// set of a release, or all sets of a paused Deployment.
func (e *releaseEnd) isMissingSetDeleted(d *appsv1.Deployment, total int32) bool {
	if !d.Spec.Paused {
		return false
	}
	if r := e.rollout(); r != nil && r.Status.Phase == rollouts.PhaseProgressing && e.check.setOfRevision(r.Status.Active().StableRevision) != nil {
		return false
	}
	return total == 0 || e.check.excusesLostStable
}

// isStableBroken reports whether pods of the stable revision cannot become ready. A release that
// waits for these pods waits forever.
func (c *invariants) isStableBroken() bool {
	r := find[*rollouts.Rollout](c.w.store.objects, kindRollout, app0)
	return r != nil && r.Status.Active() != nil && c.images[r.Status.Active().StableRevision] == "failed"
}

// checkWorkloadReleased checks that a healthy Rollout no longer controls its workload.
func (e *releaseEnd) checkWorkloadReleased() {
	b, r := find[*rollouts.BatchRelease](e.store.objects, kindBatch, app0), e.rollout()
	if b != nil && r != nil && r.Status.Phase == rollouts.PhaseHealthy {
		e.check.violate("undriven", "%s: the rollout is healthy, and its batches are %s", e.name, b.Status.Phase)
	}
}

// checkServiceEndpoints checks that the Service selects at least one ready pod if the workload has
// one.
func (e *releaseEnd) checkServiceEndpoints() {
	svc := find[*corev1.Service](e.store.objects, kindService, app0)
	if svc == nil || e.check.countServingPods() == 0 {
		return
	}
	if hash := pinnedRevision(svc); hash != "" && e.check.countReadyPodsOf(hash) == 0 {
		e.check.violate("endpoints", "%s: service %s selects pods of %s, and has none for good", e.name, svc.Name, hash)
	}
}

// checkSetSizes checks that the sizes of the sets match the size of the workload, and that a change
// of the size did not remove the last stable pod.
func (e *releaseEnd) checkSetSizes(d *appsv1.Deployment) {
	n, total, spread := replicasOf(d), e.check.sumSetSizes(), e.check.owner.(*appsv1.Deployment).Spec.Strategy.RollingUpdate
	surge, unavailable := limitsOf(spread, n)
	most := n + max(surge, 1)
	r := e.rollout()
	if r != nil && r.Spec.Strategy.BlueGreen != nil || r == nil && hasBrokenImage(*templateOf(d)) {
		most = max(most, 2*n) // a blue-green release was deleted, and the native controller waits for new pods that never become ready
	}
	if total < n-unavailable && e.isMissingSetDeleted(d, total) {
		return
	}
	if total < n-unavailable || total > most {
		e.check.violate("sized", "%s: sets of %d pods in all, where %d are asked for", e.name, total, n)
	}
	b := find[*rollouts.BatchRelease](e.store.objects, kindBatch, app0)
	if r == nil || r.Status.Phase != rollouts.PhaseProgressing || b == nil || n <= 1 {
		return
	}
	drive, stable := b.Status.Drive, r.Status.Active().StableRevision
	part := drive != nil && !drive.Abort && drive.Partition != intstr.FromString("100%") && (drive.Partition.Type == intstr.String || drive.Partition.IntVal < n)
	if part && e.check.setOfRevision(stable) != nil && *e.check.setOfRevision(stable).Spec.Replicas == 0 {
		e.check.violate("sized", "%s: stable has no pod at a step of %s of %d", e.name, drive.Partition.String(), n)
	}
}
