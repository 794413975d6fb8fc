// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/plain"
)

var table = plain.Table[*rollouts.Rollout]{
	Noun: "rollout",
	Columns: []metav1.TableColumnDefinition{
		{Name: "STATUS", Type: "string", Description: "The phase of the rollout."},
		{Name: "CANARY_STEP", Type: "integer", Description: "The current step, counted from 1."},
		{Name: "CANARY_STATE", Type: "string", Description: "The state of the current step."},
		{Name: "MESSAGE", Type: "string", Description: "What the rollout does or waits for."},
	},
	Wide: []metav1.TableColumnDefinition{
		{Name: "WAITING-FOR", Type: "string", Priority: 1, Description: "What the rollout waits for."},
		{Name: "SINCE", Type: "date", Priority: 1, Description: "Since when it waits for it."},
	},
	Cells: func(r *rollouts.Rollout) (cells, wide []any) {
		var step, state, since any
		if p := r.Status.Active(); p != nil && p.CurrentStepIndex != 0 {
			step, state = int64(p.CurrentStepIndex), string(p.State)
		}
		waiting := planner.WaitingFor(r)
		if !waiting.Since.IsZero() {
			since = metatable.ConvertToHumanReadableDateType(waiting.Since)
		}
		return []any{plain.Text(r.Status.Phase), step, state, plain.Text(r.Status.Message)}, []any{waiting.What, since}
	},
}
