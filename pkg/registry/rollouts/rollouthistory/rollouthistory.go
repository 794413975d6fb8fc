// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollouthistory answers one question: how is a RolloutHistory served?
// It must not know what is kept in one.
package rollouthistory

import (
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
	Validate:       validation.ValidateRolloutHistory,
	ValidateUpdate: validation.ValidateRolloutHistoryUpdate,
	Table: plain.Table[*rollouts.RolloutHistory]{
		Noun:  "rollout history",
		Cells: func(*rollouts.RolloutHistory) []any { return nil },
	},
}
