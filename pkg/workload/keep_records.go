// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// KeepRecords puts the records on a workload back as they are stored, whatever an
// update makes of them. Users' own keys stay as they are written.
func KeepRecords(old, update metav1.Object) {
	update.SetLabels(recordsOf(update.GetLabels(), old.GetLabels(), rollouts.Offers))
	update.SetAnnotations(recordsOf(update.GetAnnotations(), old.GetAnnotations(), nil))
}

// recordsOf is m with the records of old, and such that are offered where old has none.
// Words of a refusal are never kept: one that is stored was there before Weir.
func recordsOf(m, old map[string]string, offers []string) map[string]string {
	kept := maps.Clone(m)
	maps.DeleteFunc(kept, func(key, _ string) bool {
		_, had := old[key]
		return rollouts.IsRecord(key) && (had || !slices.Contains(offers, key))
	})
	for key, value := range old {
		if !rollouts.IsRecord(key) || key == rollouts.AnnotationRefused {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = value
	}
	if len(kept) == 0 && len(m) > 0 {
		return nil
	}
	return kept
}

// RestoreCreated is a workload that is made, as its owner wrote it: one that was exported in
// the middle of a release has our settings in its spec, and theirs in our keys.
func (r Row) RestoreCreated(obj object.Object) object.Object {
	if !HasReleaseMark(obj) {
		return obj
	}
	row, ok := Find(r.GVK.GroupVersion().String(), r.GVK.Kind, StyleOf(obj))
	if !ok {
		row = r
	}
	for _, c := range row.Restore(obj, nil, HoldFromRecords(obj), planner.RestoreWorkload{}) {
		if c.Base == obj && c.Want != nil {
			return c.Want
		}
	}
	return obj
}

// HoldUpdate holds a workload that an update changes. Records that came with the
// update are dropped first. Of a hold that another door has set a moment ago the
// mark and what it noted of the owner's strategy are left to Hold, which believes
// them only if the workload is stopped as well. So is the note that it raised a limit.
func (r Row) HoldUpdate(old, update object.Object, by string) {
	wrote, raised := update.GetAnnotations(), r.GVK == deploymentKind && hasNoHistoryEdit(update)
	KeepRecords(old, update)
	if raised {
		setAnnotation(update, rollouts.AnnotationWantedSpec, noHistoryEdit)
	}
	for _, key := range []string{rollouts.AnnotationInProgress, rollouts.AnnotationOriginalStrategy} {
		if value := wrote[key]; value != "" && wrote[rollouts.AnnotationInProgress] != "" {
			setAnnotation(update, key, value)
		}
	}
	r.Hold(update, by, hasHoldMark(update))
}
