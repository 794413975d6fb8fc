// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

// tellStatus tells how far a release is, for which the status of a Deployment has no field.
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

// tell writes how many pods of the update revision are ready, and how many
// there should be.
func writeExtraStatus(d *appsv1.Deployment, r revisions, hold Hold) {
	switch status, news := newExtraStatus(d, r, hold); {
	case !news:
	case status == "":
		d.Annotations = withoutKeys(d.Annotations, rollouts.AnnotationDeploymentExtraStatus)
	default:
		setAnnotation(d, rollouts.AnnotationDeploymentExtraStatus, status)
	}
}

// untold is what is to be told, and whether that is news. An abort has nothing
// to tell of.
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
