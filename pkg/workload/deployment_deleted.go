// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// snapshotReplicaSet returns the copy of a ReplicaSet that a RolloutHistory keeps. It skips a
// ReplicaSet that a user has edited, because its template is no longer that of the revision.
func snapshotReplicaSet(d object.Object, owned []object.Object, revision planner.Revision) *RevisionSnapshot {
	for _, rs := range replicaSets(owned) {
		if metav1.IsControlledBy(rs, d) && hasTemplateOf(&rs.Spec.Template, hashOf(rs), revision) {
			return &RevisionSnapshot{Name: rs.Name, Spec: []byte(encode(rs.Spec))}
		}
	}
	return nil
}

// findReplicaSetByDigest returns the revision of the oldest ReplicaSet whose template has the
// digest.
func findReplicaSetByDigest(d object.Object, owned []object.Object, digest string) string {
	alike := slices.DeleteFunc(replicaSets(owned), func(rs *appsv1.ReplicaSet) bool {
		return !metav1.IsControlledBy(rs, d) || rs.DeletionTimestamp != nil || Digest(&rs.Spec.Template) != digest
	})
	if oldest := smallest(alike, compareAge); oldest != nil {
		return hashOf(oldest)
	}
	return ""
}

// adoptableSet returns a message about a deleted ReplicaSet of the live template. Its native
// controller would use this ReplicaSet for the live template although it creates no pods. It is
// empty if there is none.
func (r revisions) adoptableSet(d *appsv1.Deployment, hold Hold) string {
	if !hold.Active() {
		return ""
	}
	alike := slices.DeleteFunc(slices.Concat(r.all, r.terminating), func(rs *appsv1.ReplicaSet) bool {
		return !sameTemplate(&rs.Spec.Template, &d.Spec.Template)
	})
	if oldest := smallest(alike, compareAge); oldest != nil && oldest.DeletionTimestamp != nil {
		return explainDeletedSet(oldest)
	}
	return ""
}

// blockedSetDeletion returns a message about a deleted ReplicaSet that finalizers keep, of the
// Deployment or of an extra one. withPods restricts the check to ReplicaSets that still have pods.
func blockedSetDeletion(owned []object.Object, withPods bool) string {
	for _, rs := range replicaSets(owned) {
		if rs.DeletionTimestamp != nil && len(rs.Finalizers) > 0 && (rs.Status.Replicas > 0 || !withPods) {
			return explainDeletedSet(rs)
		}
	}
	return ""
}

func explainDeletedSet(rs *appsv1.ReplicaSet) string {
	if rs.Status.Replicas == 0 {
		return rollouts.Lingers("replicaset", rs)
	}
	return rollouts.Lingers("replicaset", rs) + "; its pods run on until it is gone"
}
