// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Endings of workloads whose live template may differ from the template that the owner requested.

// wantedImage returns the image that the owner requested. isSetAside reports whether the live
// template has another image, because the stable template is set meanwhile.
func (e *releaseEnd) wantedImage(o object.Object) string {
	if tag, known := e.check.images[e.wantedRevision(o)]; known {
		return tag
	}
	return tagOf(templateOf(o))
}

func (e *releaseEnd) isSetAside(o object.Object) bool {
	return e.wantedImage(o) != tagOf(templateOf(o))
}

// wantedRevision returns the revision that the owner requested.
func (e *releaseEnd) wantedRevision(o object.Object) string {
	ref := e.rollout().Spec.WorkloadRef
	row, _ := workload.Find(ref.APIVersion, ref.Kind, rollouts.StyleFor(&e.rollout().Spec.Strategy, ref))
	var owned []object.Object
	for _, own := range e.store.objects {
		if metav1.IsControlledBy(own, o) {
			owned = append(owned, own)
		}
	}
	return row.Observe(o, owned, workload.HoldFromRecords(o)).UpdateRevision
}
