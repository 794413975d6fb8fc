// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// checkAbortKeepsStable checks the invariant "back": while a release is aborted, no write reduces
// the stable pods below the requested replicas. A Service may be pinned to the stable pods, so
// ready pods of the other version do not count.
func (c *invariants) checkAbortKeepsStable(actor string, was, is *appsv1.ReplicaSet) {
	d := c.deployment()
	if c.excusesLostStable || was == nil || d == nil || !d.Spec.Paused || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || actor == "gc" || actor == "user" || !metav1.IsControlledBy(was, d) {
		return // the native controller sizes the sets: after a manual resume, or at rest
	}
	to := int32(0)
	if is != nil {
		to = *is.Spec.Replicas
	}
	if stable := d.Labels[rollouts.LabelStableRevision]; !c.isAborting(d) || stable == "" || was.Labels[hashKey] != stable {
		return
	}
	if floor := c.requestedReplicas(d); to < *was.Spec.Replicas && to < floor {
		c.violate("back", "%s takes %s of stable from %d to %d, of %d", actor, was.Name, *was.Spec.Replicas, to, floor)
	}
}

// isAborting reports whether the last target of the Deployment is an abort, and the acting
// controller has observed it. The status of a BatchRelease takes precedence over the annotation,
// which is then only a copy.
func (c *invariants) isAborting(d *appsv1.Deployment) bool {
	if b := find[*rollouts.BatchRelease](c.w.store.objects, kindBatch, d.Name); b != nil {
		seen := find[*rollouts.BatchRelease](c.w.store.at(c.w.seen[kindBatch]), kindBatch, d.Name)
		return isAborted(b) && isAborted(seen)
	}
	return strings.Contains(d.Annotations[rollouts.AnnotationDeploymentStrategy], `"abort":true`)
}

func isAborted(b *rollouts.BatchRelease) bool {
	return b != nil && b.Status.Drive != nil && b.Status.Drive.Abort
}

// requestedReplicas returns spec.replicas, or the value in the cache of the acting controller if
// that is smaller.
func (c *invariants) requestedReplicas(d *appsv1.Deployment) int32 {
	n := *d.Spec.Replicas
	if seen := find[*appsv1.Deployment](c.w.store.at(c.w.seen[kindDeployment]), kindDeployment, d.Name); seen != nil {
		n = min(n, *seen.Spec.Replicas)
	}
	return n
}
