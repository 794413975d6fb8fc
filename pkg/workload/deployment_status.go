// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

// updateExtraStatus writes the progress of a release to an annotation, because the status of a
// Deployment has no field for it.
func updateExtraStatus(obj object.Object, owned []object.Object, hold Hold) []object.Change {
	d := obj.(*appsv1.Deployment)
	r := findRevisions(d, owned, hold)
	if _, news := newExtraStatus(d, r, hold); !news {
		return nil
	}
	want := hold.copyOf(d).(*appsv1.Deployment)
	writeExtraStatus(want, r, hold)
	return changesBetween(obj, want)
}

// writeExtraStatus writes how many pods of the update revision are ready, and how many there should
// be.
func writeExtraStatus(d *appsv1.Deployment, r revisions, hold Hold) {
	switch status, news := newExtraStatus(d, r, hold); {
	case !news:
	case status == "":
		d.Annotations = withoutKeys(d.Annotations, rollouts.AnnotationDeploymentExtraStatus)
	default:
		setAnnotation(d, rollouts.AnnotationDeploymentExtraStatus, status)
	}
}

// newExtraStatus returns the new value of the annotation, and reports whether it differs from the
// current one. An abort has no progress to report.
func newExtraStatus(d *appsv1.Deployment, r revisions, hold Hold) (status string, news bool) {
	v := hold.strategy
	was, said := d.Annotations[rollouts.AnnotationDeploymentExtraStatus]
	if hold.Target() == nil || isSizedNatively(v.RollingStyle) {
		return "", false
	}
	if v.Abort {
		return "", said
	}
	now := extraStatus{ExpectedUpdatedReplicas: v.target().Limit(replicas(d))}
	if update := setFacts(r.update); update != nil {
		now.UpdatedReadyReplicas = update.Ready
	}
	status = encode(now)
	return status, status != was && (said || now != extraStatus{})
}
