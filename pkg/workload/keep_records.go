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

// KeepRecords reverts what an update changes of Weir's records on a workload. Keys of users stay as
// the update has them.
func KeepRecords(old, update metav1.Object) {
	update.SetLabels(recordsOf(update.GetLabels(), old.GetLabels(), rollouts.Offers))
	update.SetAnnotations(recordsOf(update.GetAnnotations(), old.GetAnnotations(), nil))
}

// recordsOf returns m with the records of old. A record in offers that old lacks stays as m has it.
// The annotation of a refusal is never copied from old: Weir does not store it.
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

// RestoreCreated returns a workload that is being created as its owner wrote it. Scenario: a
// manifest was exported during a release. Its spec has Weir's settings, and its annotations have the
// owner's.
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

// HoldUpdate holds a workload whose template an update changes. It first replaces the records in the
// update by the stored ones, because its author could have written them. An exception are the records of
// an admission policy or another webhook that has held the same update a moment ago: HoldUpdate keeps
// their mark, the saved strategy and the note about a raised history limit. Hold uses the saved strategy
// only if the spec stops the controller as well.
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
