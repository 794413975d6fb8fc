// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// Held reports whether the workload is taken from its native controller.
func (r Row) Held(obj object.Object) bool { return hasHoldMark(obj) }

// StartsRelease reports whether an update asks for another release. It is the only home of that
// rule in Go; the policies have it in CEL, and TestChanged of pkg/admission/workload runs
// both.
func (r Row) StartsRelease(old, update object.Object) bool {
	return (r.ReplacesPods(old, update) || changesRolloutID(old, update)) && (r.canHold == nil || r.canHold(update))
}

// ReplacesPods reports whether the native controller replaces pods for an update.
func (r Row) ReplacesPods(old, update object.Object) bool {
	same := sameWholeTemplate
	if r.sameTemplates != nil {
		same = r.sameTemplates
	}
	return !same(r.Template(old), r.Template(update)) || !sameUnknown(old, update)
}

// RefusalReason says why an update must not be: it changes the template of a workload that
// cannot be held as it is then. It is empty if the update may be, and is asked only
// where a Rollout in service names the workload, or holds it: then fitness counts no
// more. Marks in the update do not count.
func (r Row) RefusalReason(old, update object.Object, isHeld bool) string {
	if !r.ReplacesPods(old, update) {
		return ""
	}
	clean := copyOf(update)
	KeepRecords(old, clean)
	why := r.UnholdableReason(old, clean, isHeld)
	if why == "" {
		return ""
	}
	return "spec.template must not change in this update: " + why + ". Do one after the other"
}

// scaledToZeroReason says why another template cannot be held in an update after which no pods are
// wanted, while there are some: the native controller takes the newest template for the
// stable one as soon as there are none. While the workload is held, the way back stays
// open.
func scaledToZeroReason(was, is *int32, pods int32, isHeld bool) string {
	if !isHeld && isZero(is) && (!isZero(was) || pods > 0) {
		return "with spec.replicas 0 nothing can be held; set spec.replicas first, and change the template when no pod is left"
	}
	return ""
}

// PodLabels are the labels of the live template, by which a Service selects pods. They
// are not nil.
func (r Row) PodLabels(obj object.Object) map[string]string {
	labels := maps.Clone(r.Template(obj).Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	return labels
}

// TypeLabel is the value of the workload-type label, as OpenKruise has it.
func (r Row) TypeLabel() string { return typeLabel(r.GVK.Kind) }

func typeLabel(kind string) string { return strings.ToLower(kind) }

// AddTypeLabel makes the workload visible to admission.
func (r Row) AddTypeLabel(obj object.Object, hold Hold) []object.Change {
	want := hold.copyOf(obj)
	setLabel(want, rollouts.LabelWorkloadType, r.TypeLabel())
	return changesBetween(obj, want)
}

// RemoveTypeLabel takes that back.
func (r Row) RemoveTypeLabel(obj object.Object, hold Hold) []object.Change {
	want := hold.copyOf(obj)
	want.SetLabels(withoutKeys(want.GetLabels(), rollouts.LabelWorkloadType))
	return changesBetween(obj, want)
}

// RemoveExtraDeployments removes what was made beside the workload.
func (r Row) RemoveExtraDeployments(_ object.Object, owned []object.Object) []object.Change {
	if r.removeExtras == nil {
		return nil
	}
	return r.removeExtras(owned)
}

// ScalingFacts returns the facts that sizes are decided by, and reports whether sizes are to
// be decided here at all.
func (r Row) ScalingFacts(obj object.Object, owned []object.Object, hold Hold) (sizes.Scaling, bool) {
	if r.sizer == nil {
		return sizes.Scaling{}, false
	}
	return r.sizer.ScalingFacts(obj, owned, hold)
}

// ResizeReplicaSets turns decided sizes into changes.
func (r Row) ResizeReplicaSets(obj object.Object, owned []object.Object, hold Hold, scale sizes.Scale) ([]object.Change, error) {
	if r.sizer == nil {
		return nil, nil
	}
	return r.sizer.ResizeReplicaSets(obj, owned, hold, scale)
}

// OwnerLimits are how many pods the owner allows to come beside those that there are to be, and
// to be missing.
func (r Row) OwnerLimits(obj object.Object) (surge, unavailable int32) {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return ownerLimits(o, HoldFromRecords(o))
	case *CloneSet:
		surge = resolveShare(o.Spec.UpdateStrategy.MaxSurge, orElse(o.Spec.Replicas, 1), true)
	}
	return surge, r.Observe(obj, nil, HoldFromRecords(obj)).MaxUnavailable
}

// UpdateExtraStatus writes counters of pods to an annotation of the workload. Its status has no
// fields for them, and clients that drive a Deployment by annotations read them.
func (r Row) UpdateExtraStatus(obj object.Object, owned []object.Object, hold Hold) []object.Change {
	if r.updateExtraStatus == nil {
		return nil
	}
	return r.updateExtraStatus(obj, owned, hold)
}
