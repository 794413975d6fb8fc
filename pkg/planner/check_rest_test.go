// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// What must hold of a release that nobody touches any more, in whatever state it
// was left: paused, refused, waiting, or aborted.

// leaveAlone does nothing.
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

// isMissingSetDeleted reports whether somebody has deleted the set that the missing pods would
// be of: the stable one of a release, or all that a Deployment had which is paused.
func (e *releaseEnd) isMissingSetDeleted(d *appsv1.Deployment, total int32) bool {
	if !d.Spec.Paused {
		return false
	}
	if r := e.rollout(); r != nil && r.Status.Phase == rollouts.PhaseProgressing && e.check.setOfRevision(r.Status.Active().StableRevision) != nil {
		return false
	}
	return total == 0 || e.check.excusesLostStable
}

// isStableBroken reports whether what a release began from cannot run. Whoever waits for
// its pods waits for good.
func (c *invariants) isStableBroken() bool {
	r := find[*rollouts.Rollout](c.w.store.objects, kindRollout, app0)
	return r != nil && r.Status.Active() != nil && c.images[r.Status.Active().StableRevision] == "failed"
}

// checkWorkloadReleased: a Rollout that says that all is well has let go of its workload.
func (e *releaseEnd) checkWorkloadReleased() {
	b, r := find[*rollouts.BatchRelease](e.store.objects, kindBatch, app0), e.rollout()
	if b != nil && r != nil && r.Status.Phase == rollouts.PhaseHealthy {
		e.check.violate("undriven", "%s: the rollout is healthy, and its batches are %s", e.name, b.Status.Phase)
	}
}

// checkServiceEndpoints: where any pod of the workload serves, its Service reaches one.
func (e *releaseEnd) checkServiceEndpoints() {
	svc := find[*corev1.Service](e.store.objects, kindService, app0)
	if svc == nil || e.check.countServingPods() == 0 {
		return
	}
	if hash := pinnedRevision(svc); hash != "" && e.check.countReadyPodsOf(hash) == 0 {
		e.check.violate("endpoints", "%s: service %s selects pods of %s, and has none for good", e.name, svc.Name, hash)
	}
}

// checkSetSizes: the sizes of the sets are those of the workload, and the last stable pod has
// not gone by a change of the size.
func (e *releaseEnd) checkSetSizes(d *appsv1.Deployment) {
	n, total, spread := replicasOf(d), e.check.sumSetSizes(), e.check.owner.(*appsv1.Deployment).Spec.Strategy.RollingUpdate
	surge, unavailable := limitsOf(spread, n)
	most := n + max(surge, 1)
	r := e.rollout()
	if r != nil && r.Spec.Strategy.BlueGreen != nil || r == nil && hasBrokenImage(*templateOf(d)) {
		most = max(most, 2*n) // a blue-green release was deleted, and the native controller waits for new pods that never get ready
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
