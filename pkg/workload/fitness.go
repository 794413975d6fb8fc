// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import "github.com/weir-rollouts/weir/pkg/object"

// emptied is why nothing can be held where the last pods are about to go: the native
// controller takes the newest template for the stable one as soon as there are none.
const emptied = "with spec.replicas 0 nothing can be held; set spec.replicas first, and change the template when no pod is left"

// Refused says why an update must not be: it changes the template of a workload that
// cannot be held as it is then. It is empty if the update may be, and is asked only
// where a Rollout in service names the workload and does not hold it yet. Marks in
// the update do not count.
func (r Row) Refused(old, update object.Object) string {
	if !r.Rolls(old, update) {
		return ""
	}
	clean := update.DeepCopyObject().(object.Object)
	KeepRecords(old, clean)
	why := r.Unfit(clean)
	if why == "" && r.Empties(old, clean) {
		why = emptied
	}
	if why == "" {
		return ""
	}
	return "spec.template must not change in this update: " + why + ". Do one after the other, or disable the Rollout"
}
