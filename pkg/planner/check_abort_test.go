// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Back: while a release is aborted, no write takes stable's pods below the size
// that the owner asks for. A Service may be pinned to them, and whether as many
// pods of the other version are ready is no excuse.
func (c *invariants) checkAbortKeepsStable(actor string, was, is *appsv1.ReplicaSet) {
	d := c.deployment()
	if c.excusesLostStable || was == nil || d == nil || !d.Spec.Paused || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || actor == "gc" || actor == "user" || !metav1.IsControlledBy(was, d) {
		return // also where the native controller sizes: resumed by hand, or at rest
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

// isAborting reports whether the Deployment was last told to go back to stable, and whoever acts
// now has seen it. The store counts before the annotation, which is a record where a
// BatchRelease tells.
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

// requestedReplicas is the size that the owner asks for, or asked for when it was last seen
// by whoever acts now, if that was less.
func (c *invariants) requestedReplicas(d *appsv1.Deployment) int32 {
	n := *d.Spec.Replicas
	if seen := find[*appsv1.Deployment](c.w.store.at(c.w.seen[kindDeployment]), kindDeployment, d.Name); seen != nil {
		n = min(n, *seen.Spec.Replicas)
	}
	return n
}
