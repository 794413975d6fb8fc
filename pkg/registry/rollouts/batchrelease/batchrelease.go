// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package batchrelease answers one question: how is a BatchRelease served? It
// must not know how batches are run.
package batchrelease

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/plain"
)

// Kind is how BatchReleases are served.
var Kind = plain.Kind[*rollouts.BatchRelease, rollouts.BatchReleaseSpec, rollouts.BatchReleaseStatus]{
	Plural: "batchreleases", Singular: "batchrelease", Versions: []string{"v1beta1", "v1alpha1"},
	New:     func() *rollouts.BatchRelease { return &rollouts.BatchRelease{} },
	NewList: func() runtime.Object { return &rollouts.BatchReleaseList{} },
	Parts: func(b *rollouts.BatchRelease) (*rollouts.BatchReleaseSpec, *rollouts.BatchReleaseStatus) {
		return &b.Spec, &b.Status
	},
	Internal:       true,
	Reserved:       reserved,
	Validate:       validation.ValidateBatchRelease,
	ValidateUpdate: validation.ValidateBatchReleaseUpdate,
	InUse:          func(b *rollouts.BatchRelease) bool { return b.Status.Drive != nil },
	Table: plain.Table[*rollouts.BatchRelease]{
		Noun: "batch release",
		Columns: []metav1.TableColumnDefinition{
			{Name: "KIND", Type: "string", Description: "The kind of the workload."},
			{Name: "PHASE", Type: "string", Description: "The phase of the batch release."},
			{Name: "BATCH", Type: "integer", Description: "The current batch, counted from 0."},
			{Name: "BATCH-STATE", Type: "string", Description: "The state of the current batch."},
		},
		Cells: func(b *rollouts.BatchRelease) []any {
			var kind, batch any
			if b.Spec.WorkloadRef != nil {
				kind = b.Spec.WorkloadRef.Kind
			}
			if b.Status.BatchState != "" || b.Status.CurrentBatch != 0 {
				batch = int64(b.Status.CurrentBatch)
			}
			return []any{kind, plain.Text(b.Status.Phase), batch, plain.Text(b.Status.BatchState)}
		},
	},
}

// reserved is a BatchRelease that a Rollout drives: what one says moves a release
// past its pauses, and its going takes pods along. One is a Rollout's by its owner, or by its name, under which the
// Rollout would take it for its own.
func reserved(ctx context.Context, d plain.Drivers, w plain.Write[*rollouts.BatchRelease]) (string, error) {
	r, err := d.Rollout(ctx, w.Object.Name)
	if err != nil {
		return "", err
	}
	owner, before := driver(w.Object, r), ""
	if !w.New {
		before = driver(w.Old, r)
	}
	if owner == "" && before == "" && r == nil || !w.Changed && spares(w, r, owner, before) {
		return "", nil
	}
	return fmt.Sprintf("Rollout %q drives it: change that instead", w.Object.Name), nil
}

// spares reports whether a write leaves to the Rollout what it drives: it is about
// labels, about one that goes with its Rollout, or takes off an owner that is gone.
func spares(w plain.Write[*rollouts.BatchRelease], r *rollouts.Rollout, owner, before string) bool {
	gone := r == nil || before != string(r.UID)
	if owner != before {
		return owner == "" && gone
	}
	return !w.Gone || gone || r.DeletionTimestamp != nil
}

// driver is the UID of the Rollout that controls it, however the reference spells its
// kind, or empty.
func driver(b *rollouts.BatchRelease, r *rollouts.Rollout) string {
	if ref := metav1.GetControllerOfNoCopy(b); ref != nil && (ref.Kind == "Rollout" || r != nil && ref.UID == r.UID) {
		return string(ref.UID)
	}
	return ""
}
