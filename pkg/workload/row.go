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

// Held reports whether the workload has the annotation that marks a held workload.
func (r Row) Held(obj object.Object) bool { return hasHoldMark(obj) }

// StartsRelease reports whether an update asks for another release. No other Go code decides this.
// The admission policies repeat the rule in CEL, and TestChanged of pkg/admission/workload compares
// both.
func (r Row) StartsRelease(old, update object.Object) bool {
	return (r.ReplacesPods(old, update) || changesRolloutID(old, update)) && (r.canHold == nil || r.canHold(update))
}

// ReplacesPods reports whether the native controller replaces pods because of an update.
func (r Row) ReplacesPods(old, update object.Object) bool {
	same := sameWholeTemplate
	if r.sameTemplates != nil {
		same = r.sameTemplates
	}
	return !same(r.Template(old), r.Template(update)) || !sameUnknown(old, update)
}

// RefusalReason returns why an update must be refused: it changes the template and, in the same
// write, makes the workload impossible to hold. It is empty if the update is allowed. Admission
// calls it only if an enabled Rollout names the workload or holds it. Records of Weir that the
// update changes do not count.
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
	return "spec.template must not change in this update: " + why
}

// scaledToZeroReason returns why a new template cannot be held by an update that also scales the
// workload to 0: the native controller then takes the newest template for the stable one at once. A
// held workload may always be scaled, so that an owner can revert.
func scaledToZeroReason(was, is *int32, pods int32, isHeld bool) string {
	if !isHeld && isZero(is) && (!isZero(was) || pods > 0) {
		return "a workload without pods cannot be held. Send two updates: first spec.replicas, and when no pod is left, spec.template"
	}
	return ""
}

// PodLabels returns the labels of the live template, by which a Service selects pods. The result is
// never nil.
func (r Row) PodLabels(obj object.Object) map[string]string {
	labels := maps.Clone(r.Template(obj).Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	return labels
}

// TypeLabel returns the value of the workload-type label in OpenKruise's spelling.
func (r Row) TypeLabel() string { return typeLabel(r.GVK.Kind) }

func typeLabel(kind string) string { return strings.ToLower(kind) }

// AddTypeLabel adds the label by which admission selects the workload.
func (r Row) AddTypeLabel(obj object.Object, hold Hold) []object.Change {
	want := hold.copyOf(obj)
	setLabel(want, rollouts.LabelWorkloadType, r.TypeLabel())
	return changesBetween(obj, want)
}

// RemoveTypeLabel removes the label by which admission selects the workload.
func (r Row) RemoveTypeLabel(obj object.Object, hold Hold) []object.Change {
	want := hold.copyOf(obj)
	want.SetLabels(withoutKeys(want.GetLabels(), rollouts.LabelWorkloadType))
	return changesBetween(obj, want)
}

// RemoveExtraDeployments deletes the extra Deployments of a release.
func (r Row) RemoveExtraDeployments(_ object.Object, owned []object.Object) []object.Change {
	if r.removeExtras == nil {
		return nil
	}
	return r.removeExtras(owned)
}

// ScalingFacts returns the facts that decide the sizes of ReplicaSets, and reports whether Weir
// sizes them now.
func (r Row) ScalingFacts(obj object.Object, owned []object.Object, hold Hold) (sizes.Scaling, bool) {
	if r.sizer == nil {
		return sizes.Scaling{}, false
	}
	return r.sizer.ScalingFacts(obj, owned, hold)
}

// ResizeReplicaSets returns the changes that apply the sizes.
func (r Row) ResizeReplicaSets(obj object.Object, owned []object.Object, hold Hold, scale sizes.Scale) ([]object.Change, error) {
	if r.sizer == nil {
		return nil, nil
	}
	return r.sizer.ResizeReplicaSets(obj, owned, hold, scale)
}

// OwnerLimits returns how many pods above the size, and how many missing pods, the owner allows.
func (r Row) OwnerLimits(obj object.Object) (surge, unavailable int32) {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return ownerLimits(o, HoldFromRecords(o))
	case *CloneSet:
		surge = resolveShare(o.Spec.UpdateStrategy.MaxSurge, orElse(o.Spec.Replicas, 1), true)
	}
	return surge, r.Observe(obj, nil, HoldFromRecords(obj)).MaxUnavailable
}

// UpdateExtraStatus writes pod counters to an annotation of the workload, and the record of a target
// that needed no other write (planner.KindTraits.SizedByStore). The status has no fields for the
// counters, and clients that drive a Deployment by annotations read them.
func (r Row) UpdateExtraStatus(obj object.Object, owned []object.Object, hold Hold) []object.Change {
	if r.updateExtraStatus == nil {
		return nil
	}
	return r.updateExtraStatus(obj, owned, hold)
}
