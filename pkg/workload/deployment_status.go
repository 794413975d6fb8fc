// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

// tellStatus tells how far a release is, for which the status of a Deployment has no field.
func tellStatus(obj object.Object, owned []object.Object) []object.Change {
	d := obj.(*appsv1.Deployment)
	r := findRevisions(d, owned)
	if _, news := untold(d, r); !news {
		return nil
	}
	want := d.DeepCopy()
	tell(want, r)
	return change(obj, want)
}

// tell writes how many pods of the update revision are ready, and how many
// there should be.
func tell(d *appsv1.Deployment, r revisions) {
	switch told, news := untold(d, r); {
	case !news:
	case told == "":
		d.Annotations = without(d.Annotations, rollouts.AnnotationDeploymentExtraStatus)
	default:
		annotate(d, rollouts.AnnotationDeploymentExtraStatus, told)
	}
}

// untold is what is to be told, and whether that is news. An abort has nothing
// to tell of.
func untold(d *appsv1.Deployment, r revisions) (told string, news bool) {
	v, driven := readDriving(d)
	was, said := d.Annotations[rollouts.AnnotationDeploymentExtraStatus]
	if _, controlled := readOwner(d); !controlled || !driven || sizedElsewhere(v.RollingStyle) {
		return "", false
	}
	if v.Abort {
		return "", said
	}
	now := extraStatus{ExpectedUpdatedReplicas: v.target().Limit(replicas(d))}
	if update := facts(r.update); update != nil {
		now.UpdatedReadyReplicas = update.Ready
	}
	told = encode(now)
	return told, told != was && (said || now != extraStatus{})
}
