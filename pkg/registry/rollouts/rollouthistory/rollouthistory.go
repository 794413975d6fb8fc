// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollouthistory answers one question: how is a RolloutHistory served?
// It must not know what is kept in one.
package rollouthistory

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/plain"
)

// Kind is how RolloutHistories are served.
var Kind = plain.Kind[*rollouts.RolloutHistory, rollouts.RolloutHistorySpec, rollouts.RolloutHistoryStatus]{
	Plural: "rollouthistories", Singular: "rollouthistory", Versions: []string{"v1alpha1"},
	New:     func() *rollouts.RolloutHistory { return &rollouts.RolloutHistory{} },
	NewList: func() runtime.Object { return &rollouts.RolloutHistoryList{} },
	Parts: func(h *rollouts.RolloutHistory) (*rollouts.RolloutHistorySpec, *rollouts.RolloutHistoryStatus) {
		return &h.Spec, &h.Status
	},
	Internal:       true,
	Reserved:       reserved,
	Validate:       validation.ValidateRolloutHistory,
	ValidateUpdate: validation.ValidateRolloutHistoryUpdate,
	Table: plain.Table[*rollouts.RolloutHistory]{
		Noun:  "rollout history",
		Cells: func(*rollouts.RolloutHistory) []any { return nil },
	},
}

// reserved is every word of a history, and which Rollout it is of.
func reserved(_ context.Context, _ plain.Drivers, w plain.Write[*rollouts.RolloutHistory]) (string, error) {
	if !w.Changed && maps.Equal(w.Object.Labels, w.Old.Labels) {
		return "", nil
	}
	return "it is the record of a release, which only weir-controller writes; delete it if nobody needs it", nil
}
