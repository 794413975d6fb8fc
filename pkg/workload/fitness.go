// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import "github.com/weir-rollouts/weir/pkg/object"

const (
	// emptied is why nothing can be held where the last pods are about to go: the
	// native controller takes the newest template for the stable one as soon as there
	// are none.
	emptied = "with spec.replicas 0 nothing can be held; set spec.replicas first, and change the template when no pod is left"
	// filled is why nothing can be held where the first pods are about to come.
	filled = "spec.replicas is 0, and pods that come with another template may be of that one; change the template first, and set spec.replicas when the release has begun"
)

// empties is why another template cannot be held in an update after which no pods
// are wanted, while there are some. While it is held, the way back stays open.
func empties(was, is *int32, pods int32, isHeld bool) string {
	if !isHeld && isZero(is) && (!isZero(was) || pods > 0) {
		return emptied
	}
	return ""
}

// Refused says why an update must not be: it changes the template of a workload that
// cannot be held as it is then. It is empty if the update may be, and is asked only
// where a Rollout in service names the workload, or holds it: then fitness counts no
// more. Marks in the update do not count.
func (r Row) Refused(old, update object.Object, isHeld bool) string {
	if !r.Rolls(old, update) {
		return ""
	}
	clean := update.DeepCopyObject().(object.Object)
	KeepRecords(old, clean)
	why := r.Sized(old, clean, isHeld)
	if unfit := r.UnsupportedReason(clean); unfit != "" && !isHeld {
		why = unfit
	}
	if why == "" {
		return ""
	}
	return "spec.template must not change in this update: " + why + ". Do one after the other"
}
