// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// minHistoryLimit keeps the native controller from deleting the stable revision the moment it
// has no pods.
const minHistoryLimit int32 = 10

// raiseLimit saves a limit that is too low, and raises it.
func raiseLimit(v *strategyRecord, limit **int32) {
	if *limit != nil && **limit < minHistoryLimit {
		v.RevisionHistoryLimit, *limit = *limit, new(minHistoryLimit)
	}
}

// keepLimit saves what the owner writes meanwhile, and keeps what it was.
func keepLimit(was, is metav1.Object, limit **int32, had *int32) {
	v, recorded := readStrategy(was)
	if recorded && v.RevisionHistoryLimit != nil && *limit != nil && **limit < minHistoryLimit {
		v.RevisionHistoryLimit, *limit = *limit, had
		writeStrategy(is, v)
	}
}

// restoreLimit gives the owner's back.
func restoreLimit(v strategyRecord, limit **int32) {
	if v.RevisionHistoryLimit != nil && *limit != nil && **limit == minHistoryLimit {
		*limit = v.RevisionHistoryLimit
	}
}

// keepsNoHistory reports whether the native controller deletes each set of a Deployment that has no pods,
// the stable one too where it is scaled to 0 before its first batch.
func keepsNoHistory(d *appsv1.Deployment) bool {
	return d.Spec.RevisionHistoryLimit != nil && *d.Spec.RevisionHistoryLimit == 0
}

// noHistoryEdit is the note of that owner's wish. Each door writes it with the hold, in
// these bytes.
const noHistoryEdit = `{"revisionHistoryLimit":0}`

// hasNoHistoryEdit reports whether a door has raised the limit and left that note.
func hasNoHistoryEdit(obj metav1.Object) bool {
	return obj.GetAnnotations()[rollouts.AnnotationWantedSpec] == noHistoryEdit
}

// raiseZeroLimit raises a limit of 0 with the hold.
func raiseZeroLimit(d *appsv1.Deployment) {
	if keepsNoHistory(d) {
		d.Spec.RevisionHistoryLimit = new(minHistoryLimit)
		setAnnotation(d, rollouts.AnnotationWantedSpec, noHistoryEdit)
	}
}

// saveZeroLimit raises a limit of 0 that is written while a Deployment is held.
func saveZeroLimit(was, d *appsv1.Deployment) {
	if keepsNoHistory(d) && !keepsNoHistory(was) {
		v, _ := readStrategy(d)
		raiseLimit(&v, &d.Spec.RevisionHistoryLimit)
		writeStrategy(d, v)
	}
}
