// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// metadataLimit limits how many KiB the labels or annotations of others on a workload may have.
type metadataLimit struct {
	field string
	of    func(metav1.Object) map[string]string
	most  int
	why   string
}

// metadataLimits leave space for Weir's annotations. Kubernetes allows 256 KiB for all annotations
// of an object. If users filled them, Weir could not hold, release or restore the workload. Labels
// are limited only by the size of the object.
var metadataLimits = []metadataLimit{
	{"annotations", metav1.Object.GetAnnotations, 192, "since the rest of what Kubernetes allows is for what keeps the workload held and brings it back"},
	{"labels", metav1.Object.GetLabels, 64, "since each write of the workload would take long, and an abort with them"},
}

// maxKeys is the maximum number of annotations, and of labels, that are not Weir's. The cost of
// a write in kube-apiserver grows with the number of keys: a write of an object with 12,000
// one-byte keys takes 35 times as long.
const maxKeys = 512

// MetadataLimitReason returns why an update must be refused: its annotations leave no space for
// Weir's, or it has too many keys. An update that does not make them larger is allowed.
func MetadataLimitReason(old, update metav1.Object) string {
	for _, b := range metadataLimits {
		size, keys := measureMetadata(b.of(update))
		wasSize, wasKeys := measureMetadata(b.of(old))
		switch {
		case size > b.most<<10 && size > wasSize:
			return fmt.Sprintf("metadata.%s must not grow beyond %d KiB in total, %s; shorten them", b.field, b.most, b.why)
		case keys > maxKeys && keys > wasKeys:
			return fmt.Sprintf("metadata.%s must not have more than %d keys, since each write of the workload would take long, and an abort with them; remove some", b.field, maxKeys)
		}
	}
	return ""
}

// maxRevisionDigits is the maximum length of a revision number.
const maxRevisionDigits = 20

// measureMetadata returns the total size and the number of the keys that are not Weir's. It ignores the
// revision number that the native controller writes together with the status.
func measureMetadata(metadata map[string]string) (size, keys int) {
	for key, value := range metadata {
		noted := key == annotationRevision && len(value) <= maxRevisionDigits
		if !noted && !rollouts.IsRecord(key) {
			size += len(key) + len(value)
			keys++
		}
	}
	return size, keys
}
