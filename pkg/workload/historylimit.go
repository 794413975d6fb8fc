// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// minHistoryLimit keeps the native controller from deleting the stable revision as soon as it has no
// pods.
const minHistoryLimit int32 = 10

// raiseLimit saves a limit that is too low, and raises it.
func raiseLimit(v *strategyRecord, limit **int32) {
	if *limit != nil && **limit < minHistoryLimit {
		v.RevisionHistoryLimit, *limit = *limit, new(minHistoryLimit)
	}
}

// keepLimit saves a limit that the owner changes during a release, and reverts the change.
func keepLimit(was, is metav1.Object, limit **int32, had *int32) {
	v, recorded := readStrategy(was)
	if recorded && v.RevisionHistoryLimit != nil && *limit != nil && **limit < minHistoryLimit {
		v.RevisionHistoryLimit, *limit = *limit, had
		writeStrategy(is, v)
	}
}

// restoreLimit restores the owner's limit.
func restoreLimit(v strategyRecord, limit **int32) {
	if v.RevisionHistoryLimit != nil && *limit != nil && **limit == minHistoryLimit {
		*limit = v.RevisionHistoryLimit
	}
}

// keepsNoHistory reports whether the native controller deletes every ReplicaSet without pods. This
// includes the stable ReplicaSet if the Deployment is scaled to 0 before its first batch.
func keepsNoHistory(d *appsv1.Deployment) bool {
	return d.Spec.RevisionHistoryLimit != nil && *d.Spec.RevisionHistoryLimit == 0
}

// noHistoryEdit is the pending edit of an owner who set the limit to 0. The webhook and the policies
// write it in exactly these bytes when they hold the workload.
const noHistoryEdit = `{"revisionHistoryLimit":0}`

// hasNoHistoryEdit reports whether admission has raised a limit of 0 and left that note.
func hasNoHistoryEdit(obj metav1.Object) bool {
	return obj.GetAnnotations()[rollouts.AnnotationWantedSpec] == noHistoryEdit
}

// raiseZeroLimit raises a limit of 0 when the Deployment is held.
func raiseZeroLimit(d *appsv1.Deployment) {
	if keepsNoHistory(d) {
		d.Spec.RevisionHistoryLimit = new(minHistoryLimit)
		setAnnotation(d, rollouts.AnnotationWantedSpec, noHistoryEdit)
	}
}

// saveZeroLimit saves and raises a limit of 0 that the owner writes while the Deployment is held.
func saveZeroLimit(was, d *appsv1.Deployment) {
	if keepsNoHistory(d) && !keepsNoHistory(was) {
		v, _ := readStrategy(d)
		raiseLimit(&v, &d.Spec.RevisionHistoryLimit)
		writeStrategy(d, v)
	}
}
