// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

// fileReplicaSet is what is to be put on file of a ReplicaSet.
func fileReplicaSet(_ object.Object, owned []object.Object, revision string) *File {
	for _, o := range owned {
		if rs, ok := o.(*appsv1.ReplicaSet); ok && hashOf(rs) == revision {
			return &File{Name: rs.Name, Spec: []byte(encode(rs.Spec))}
		}
	}
	return nil
}

// takenFor says which set of a held Deployment its native controller would take for
// that of the live template, though it was deleted and makes no pods; empty if none.
func (r revisions) takenFor(d *appsv1.Deployment) string {
	if _, controlled := readOwner(d); !controlled && !held(d) {
		return ""
	}
	alike := slices.DeleteFunc(slices.Concat(r.all, r.ending), func(rs *appsv1.ReplicaSet) bool {
		return !sameTemplate(&rs.Spec.Template, &d.Spec.Template)
	})
	if oldest := first(alike, older); oldest != nil && oldest.DeletionTimestamp != nil {
		return lingering(oldest)
	}
	return ""
}

// deletedSet says what keeps a set that was deleted, of the Deployment or of what is
// beside it; withPods looks only at those whose pods run on.
func deletedSet(owned []object.Object, withPods bool) string {
	for _, rs := range replicaSets(owned) {
		if rs.DeletionTimestamp != nil && len(rs.Finalizers) > 0 && (rs.Status.Replicas > 0 || !withPods) {
			return lingering(rs)
		}
	}
	return ""
}

func lingering(rs *appsv1.ReplicaSet) string {
	if rs.Status.Replicas == 0 {
		return rollouts.Lingers("replicaset", rs)
	}
	return rollouts.Lingers("replicaset", rs) + "; its pods run on until it is gone"
}
