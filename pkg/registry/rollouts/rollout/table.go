// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"

	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/endpoint"
)

var table = endpoint.Table[*rollouts.Rollout]{
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
		{Name: "STEP", Type: "string", Priority: 1, Description: "The current step, and how many there are."},
		{Name: "NEW", Type: "string", Priority: 1, Description: "How many pods of the new version are ready, and how many there are."},
		{Name: "TRAFFIC", Type: "string", Priority: 1, Description: "The share of the requests that the new version gets, or which requests it gets."},
		{Name: "BY", Type: "string", Priority: 1, Description: "Who used the latest verb in this release."},
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
		return []any{endpoint.TextCell(r.Status.Phase), step, state, endpoint.TextCell(r.Status.Message)}, append([]any{waiting.Text, since}, releaseCells(r)...)
	},
}

// releaseCells returns the cells about the current release.
func releaseCells(r *rollouts.Rollout) []any {
	p, cells := r.Status.Active(), make([]any, 4)
	_, release := r.Spec.Strategy.Active()
	if p == nil || p.CurrentStepIndex == 0 || r.Status.Phase != rollouts.PhaseProgressing {
		return cells
	}
	if release != nil {
		cells[0] = fmt.Sprintf("%d/%d", p.CurrentStepIndex, len(release.Steps))
	}
	cells[1] = fmt.Sprintf("%d/%d", p.UpdateReadyReplicas, p.UpdateReplicas)
	if step := release.Step(p.CurrentStepIndex); step != nil && step.AsksForTraffic() && isTrafficInPlace(r, p) {
		cells[2] = planner.DescribeMatches(step.Matches)
		if step.Traffic != nil {
			cells[2] = *step.Traffic
		}
	}
	if d := latestDecision(&r.Status); d != nil {
		cells[3] = d.User
		if d.Via == rollouts.ViaAnalysis {
			cells[3] = "checks"
		}
	}
	return cells
}

// isTrafficInPlace reports whether the traffic of the step is in place.
func isTrafficInPlace(r *rollouts.Rollout, p *rollouts.Progress) bool {
	passed := []rollouts.StepState{rollouts.StepMetricsAnalysis, rollouts.StepPaused, rollouts.StepReady}
	return planner.StateOf(r) == planner.StateInStep && slices.Contains(passed, p.State)
}

// latestDecision returns the latest decision of the current release, or nil.
func latestDecision(s *rollouts.RolloutStatus) *rollouts.Decision {
	if len(s.Decisions) == 0 {
		return nil
	}
	d := &s.Decisions[len(s.Decisions)-1]
	if n := len(s.Releases); n > 0 && d.ID < s.Releases[n-1].FirstDecision {
		return nil
	}
	return d
}
