// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

// pendingEdit is the annotation in which the admission policies save an owner's change to a held
// workload while the webhook is unavailable. The policies revert the change in the spec, whatever
// the style. Only PreserveHold decides what becomes of the edit.
type pendingEdit struct {
	UpdateStrategy          *appsv1.StatefulSetUpdateStrategy `json:"updateStrategy,omitempty"`
	Strategy                *appsv1.DeploymentStrategy        `json:"strategy,omitempty"`
	RevisionHistoryLimit    *int32                            `json:"revisionHistoryLimit,omitempty"`
	MinReadySeconds         *int32                            `json:"minReadySeconds,omitempty"`
	ProgressDeadlineSeconds *int32                            `json:"progressDeadlineSeconds,omitempty"`
}

// hasPendingEdit reports whether the policies saved an edit.
func hasPendingEdit(obj object.Object) bool {
	return obj.GetAnnotations()[rollouts.AnnotationWantedSpec] != ""
}

// PreserveHold reverts the changes of an update that would end the hold. An edit that the policies
// saved counts as part of the update.
func (r Row) PreserveHold(old, update object.Object) {
	noted := hasPendingEdit(update)
	mergePendingEdit(r, update)
	r.Adapter.PreserveHold(old, update)
	if noted {
		update.SetAnnotations(withoutKeys(update.GetAnnotations(), rollouts.AnnotationWantedSpec))
	}
}

// ApplyPendingEdit applies an edit that the policies saved while the webhook was unavailable, as
// PreserveHold would have done. For a workload that is not held, it only removes the edit.
func (r Row) ApplyPendingEdit(obj object.Object, hold Hold) []object.Change {
	if !hasPendingEdit(obj) {
		return nil
	}
	repaired := hold.copyOf(obj)
	want := copyOf(repaired)
	if hold.Held {
		r.PreserveHold(repaired, want)
	} else {
		want.SetAnnotations(withoutKeys(want.GetAnnotations(), rollouts.AnnotationWantedSpec))
	}
	return changesBetween(obj, want)
}

// HoldMissed holds a workload that admission has missed. If again is true, the workload is marked as
// held but its controller is not stopped. Then the spec has Weir's values, so the saved strategy of
// the owner stays. The same applies to a workload with a target from a release that the store does
// not know: the store may have been restored from a backup that is older than the release.
func (r Row) HoldMissed(obj object.Object, hold Hold, by string, again bool) []object.Change {
	want, noted := hold.copyOf(obj), obj.GetAnnotations()[rollouts.AnnotationOriginalStrategy]
	r.Hold(want, by, hold.Held)
	if _, controlled := readController(obj); again || controlled {
		want.SetAnnotations(withoutKeys(want.GetAnnotations(), rollouts.AnnotationOriginalStrategy))
		if noted != "" {
			setAnnotation(want, rollouts.AnnotationOriginalStrategy, noted)
		}
	}
	return changesBetween(obj, want)
}

// mergePendingEdit writes the saved edit, if there is one, into the spec. An unreadable edit is
// ignored.
func mergePendingEdit(r Row, obj object.Object) {
	note := obj.GetAnnotations()[rollouts.AnnotationWantedSpec]
	var w pendingEdit
	if err := json.Unmarshal([]byte(note), &w); err == nil && r.applyEdit != nil {
		r.applyEdit(obj, w)
	}
}

func applyDeploymentEdit(obj object.Object, w pendingEdit) {
	s := &obj.(*appsv1.Deployment).Spec
	s.Strategy = orElse(w.Strategy, s.Strategy)
	s.MinReadySeconds = orElse(w.MinReadySeconds, s.MinReadySeconds)
	s.RevisionHistoryLimit = cmp.Or(w.RevisionHistoryLimit, s.RevisionHistoryLimit)
	s.ProgressDeadlineSeconds = cmp.Or(w.ProgressDeadlineSeconds, s.ProgressDeadlineSeconds)
}

func applyStatefulSetEdit(obj object.Object, w pendingEdit) {
	s := &nativeOf(obj).Spec
	if u := w.UpdateStrategy; u != nil {
		s.UpdateStrategy.Type = u.Type
		if u.RollingUpdate != nil && u.RollingUpdate.Partition != nil {
			nativeStatefulSet{nativeOf(obj)}.setPartition(*u.RollingUpdate.Partition)
		}
	}
	s.RevisionHistoryLimit = cmp.Or(w.RevisionHistoryLimit, s.RevisionHistoryLimit)
}

func applyDaemonSetEdit(obj object.Object, w pendingEdit) {
	s := &obj.(*appsv1.DaemonSet).Spec
	if u := w.UpdateStrategy; u != nil {
		s.UpdateStrategy.Type = appsv1.DaemonSetUpdateStrategyType(u.Type)
	}
	s.RevisionHistoryLimit = cmp.Or(w.RevisionHistoryLimit, s.RevisionHistoryLimit)
}
