// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/weir-rollouts/weir/pkg/object"
)

// PodLabels are the labels of the live template, by which a Service selects pods.
// They are not nil for a workload of a kind in the table.
func PodLabels(obj object.Object) map[string]string {
	var labels map[string]string
	switch w := obj.(type) {
	case *appsv1.Deployment:
		labels = w.Spec.Template.Labels
	case *appsv1.StatefulSet:
		labels = w.Spec.Template.Labels
	case *appsv1.DaemonSet:
		labels = w.Spec.Template.Labels
	case *AdvancedStatefulSet:
		labels = w.Spec.Template.Labels
	case *AdvancedDaemonSet:
		labels = w.Spec.Template.Labels
	case *CloneSet:
		labels = w.Spec.Template.Labels
	default:
		return nil
	}
	if labels == nil {
		labels = map[string]string{}
	}
	return labels
}
