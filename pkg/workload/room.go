// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// mostAnnotations bounds what others write into the annotations of a workload. All of
// them may have 256 KiB, and without what is left nothing could be held, driven or
// brought back.
const mostAnnotations = 192 << 10

// Crowded says why an update must not be: its annotations leave no room for ours. One
// that makes them no larger may be.
func Crowded(old, update metav1.Object) string {
	if is := crowd(update); is <= mostAnnotations || is <= crowd(old) {
		return ""
	}
	return "metadata.annotations must not grow beyond 192 KiB in total, " +
		"since the rest of what Kubernetes allows is for what keeps the workload held and brings it back; shorten them"
}

// crowd is the size of the annotations that others write, but for what the
// native controller notes through the status.
func crowd(obj metav1.Object) int {
	n := 0
	for key, value := range obj.GetAnnotations() {
		if key != annotationRevision && !rollouts.IsRecord(key) {
			n += len(key) + len(value)
		}
	}
	return n
}
