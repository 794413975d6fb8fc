// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"fmt"
	"slices"

	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/glossary"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/endpoint"
	"github.com/weir-rollouts/weir/pkg/why"
)

// tables prints Rollouts. Everything in a row comes from the stored Rollout, except for the images of its latest release,
// which the RolloutHistory of the release has.
type tables struct {
	// histories reads RolloutHistories from the watch cache; nil until the endpoints are connected.
	histories rest.Getter
}

func (t *tables) newTable() endpoint.Table[*rollouts.Rollout] {
	return endpoint.Table[*rollouts.Rollout]{
		Noun: "rollout",
		Columns: []metav1.TableColumnDefinition{
			{Name: "STATUS", Type: "string", Description: "The phase of the rollout."},
			{Name: "CANARY_STEP", Type: "integer", Description: "The current step, counted from 1."},
			{Name: "CANARY_STATE", Type: "string", Description: "The state of the current step."},
			{Name: "MESSAGE", Type: "string", Description: "What the rollout does or waits for."},
		},
		More: []metav1.TableColumnDefinition{
			{Name: "STATE", Type: "string", Description: "The state of the rollout, in the words of docs/glossary.md."},
			{Name: "VERSIONS", Type: "string", Description: "The versions before and after the current release, or else the version that serves."},
			{Name: "WAITING-FOR", Type: "string", Priority: 1, Description: "What the rollout waits for."},
			{Name: "SINCE", Type: "date", Priority: 1, Description: "Since when it waits for it."},
			{Name: "STEP", Type: "string", Priority: 1, Description: "The current step, and how many there are."},
			{Name: "NEW", Type: "string", Priority: 1, Description: "How many pods of the new version are ready, and how many there are."},
			{Name: "TRAFFIC", Type: "string", Priority: 1, Description: "The share of the requests that the new version gets, or which requests it gets."},
			{Name: "BY", Type: "string", Priority: 1, Description: "Who used the latest verb in this release."},
		},
		Cells: func(ctx context.Context, r *rollouts.Rollout) (cells, more []any) {
			var step, state, since any
			if p := r.Status.Active(); p != nil && p.CurrentStepIndex != 0 {
				step, state = int64(p.CurrentStepIndex), string(p.State)
			}
			waiting := planner.WaitingFor(r)
			if !waiting.Since.IsZero() {
				since = metatable.ConvertToHumanReadableDateType(waiting.Since)
			}
			cells = []any{endpoint.TextCell(r.Status.Phase), step, state, endpoint.TextCell(r.Status.Message)}
			more = []any{glossary.FindState(why.ShownState(r)).Title, endpoint.TextCell(why.Versions(r, t.readImages(ctx, r))), waiting.Text, since}
			return cells, append(more, releaseCells(r)...)
		},
	}
}

// readImages returns the images that the latest release changes; nil if its RolloutHistory is not stored. It reads the
// watch cache, so that a list of many Rollouts needs no request for each row. It reads as this process, because every
// user who may see the Rollout may see its images.
func (t *tables) readImages(ctx context.Context, r *rollouts.Rollout) []rollouts.ImageChange {
	latest := why.LatestRelease(r)
	if latest == nil || t.histories == nil {
		return nil
	}
	ctx = genericapirequest.WithNamespace(genericapirequest.WithUser(ctx, nil), r.Namespace)
	obj, err := t.histories.Get(ctx, planner.HistoryName(r, latest.Number), &metav1.GetOptions{ResourceVersion: "0"})
	if err != nil {
		return nil // the row then names the revisions
	}
	h, ok := obj.(*rollouts.RolloutHistory)
	if !ok {
		return nil
	}
	changes, _ := why.TemplateChanges(h)
	return why.ImageChanges(changes)
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
