// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package release answers what one pass over a Rollout does, about its BatchRelease too:
// batch.Decide judges the batch, planner.Decide goes on from there, and a batch that it
// wants is begun in the same decision. It is pure.
package release

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/batch"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Observed is all that one pass over a Rollout knows.
type Observed struct {
	planner.Observed
	// Batches are the facts of the BatchRelease of the Rollout, whose Release is nil where
	// there is none yet; nil where the workload cannot be read.
	Batches *batch.Observed
}

// Decision is everything one pass over a Rollout decided.
type Decision struct {
	planner.Decision
	// First is what was found out of the batch, to be stored before the status of the Rollout.
	First []planner.Action
	// Beside are actions of a batch that goes on. They do not wait for the other actions,
	// nor these for them.
	Beside []planner.Action
}

// Decide decides what one pass over a Rollout does.
func Decide(o Observed) Decision {
	if planner.Over(o.Rollout) || o.Batches == nil || o.Batches.Release == nil {
		return begin(o, Decision{Decision: planner.Decide(o.Observed)})
	}
	judged := batch.Decide(*o.Batches)
	now := *o.Batches.Release
	now.Status = judged.Status
	o.Batch = planner.BatchFacts(&now)
	o.Batch.Acts = len(judged.Actions) > 0
	d := Decision{Decision: planner.Decide(o.Observed)}
	if runs := begins(d.Actions); runs >= 0 && !changed(o.Batches.Release.Status, judged.Status) {
		return begin(o, d)
	}
	if len(judged.Actions) > 0 && slices.ContainsFunc(d.Actions, onWorkload) {
		return d // it is judged again as it will be then
	}
	// What was found out is stored first, so that whoever reads a BatchRelease sees each
	// batch become ready. The next pass begins what follows.
	d.Actions, d.Reasons = without(d.Actions, d.Reasons, begins(d.Actions))
	if !equality.Semantic.DeepEqual(o.Batches.Release.Status, judged.Status) {
		d.First = []planner.Action{planner.JudgeBatch{Status: judged.Status}}
	}
	d.Beside, d.Events = onBatch(judged.Actions), append(d.Events, judged.Events...)
	return d
}

// changed reports whether a batch has become ready, or its BatchRelease has come to its end.
func changed(was, is rollouts.BatchReleaseStatus) bool {
	return is.BatchState != was.BatchState && is.BatchState == rollouts.BatchReady || is.Phase != was.Phase && is.Phase == rollouts.PhaseCompleted
}

// onWorkload reports whether an action of the Rollout changes the workload.
func onWorkload(a planner.Action) bool {
	switch a.(type) {
	case planner.Label, planner.Unlabel, planner.Hold, planner.ApplyPendingEdit, planner.AskAgain, planner.PutRight, planner.RestoreWorkload, planner.SetStable:
		return true
	default:
		return false
	}
}

// begins is the index of the action that gives the BatchRelease another plan; -1 if none does.
func begins(actions []planner.Action) int {
	return slices.IndexFunc(actions, func(a planner.Action) bool { _, runs := a.(planner.RunBatch); return runs })
}

func without(actions []planner.Action, reasons []string, i int) ([]planner.Action, []string) {
	if i < 0 {
		return actions, reasons
	}
	return slices.Delete(actions, i, i+1), slices.Delete(reasons, i, i+1)
}

// begin takes up the plan that a decision wants the BatchRelease to have: its next status
// is written with the plan, and its actions follow. Where the plan changes what the store
// says of the workload, the next pass takes it up, which sees the workload so. What is made
// beside a workload, and what that is told, name the BatchRelease by its uid, so that
// nothing follows where it does not exist yet.
func begin(o Observed, d Decision) Decision {
	i := begins(d.Actions)
	if i < 0 || o.Batches == nil {
		return d
	}
	plan, exists := d.Actions[i].(planner.RunBatch).Plan, o.Batches.Release != nil
	next := planned(o, plan)
	if exists && !sameKnown(o.Batches.Release, next) {
		return d
	}
	facts := *o.Batches
	facts.Release = next
	begun := batch.Decide(facts)
	d.Actions[i] = planner.RunBatch{Plan: plan, Status: &begun.Status}
	if exists {
		actions := onBatch(begun.Actions)
		d.Actions = slices.Insert(d.Actions, i+1, actions...)
		d.Reasons = slices.Insert(d.Reasons, i+1, slices.Repeat([]string{d.Reasons[i]}, len(actions))...)
	}
	d.Events = append(d.Events, begun.Events...)
	return d
}

// planned is the BatchRelease with another plan, before that is taken up.
func planned(o Observed, plan rollouts.ReleasePlan) *rollouts.BatchRelease {
	next, spec := &rollouts.BatchRelease{}, rollouts.BatchReleaseSpec{WorkloadRef: o.Rollout.Spec.WorkloadRef, Plan: plan}
	if o.Batches.Release != nil {
		next = o.Batches.Release.DeepCopy()
	}
	if !equality.Semantic.DeepEqual(next.Spec, spec) {
		next.Generation++ // as the server will count it
	}
	next.Spec = spec
	return next
}

// sameKnown reports whether both say the same of the workload, but for how far it may go.
func sameKnown(a, b *rollouts.BatchRelease) bool {
	was, is := planner.KnownOf(nil, a), planner.KnownOf(nil, b)
	was.Target, is.Target = nil, nil
	return equality.Semantic.DeepEqual(was, is)
}

// OnBatch is an action of the BatchRelease.
type OnBatch struct{ planner.Action }

func onBatch(actions []planner.Action) []planner.Action {
	var on []planner.Action
	for _, a := range actions {
		on = append(on, OnBatch{a})
	}
	return on
}

// String explains the decision to a person, a line for each fact.
func (d Decision) String() string {
	var out strings.Builder
	for _, a := range d.First {
		fmt.Fprintf(&out, "first    %s\n", a)
	}
	out.WriteString(d.Decision.String())
	for _, a := range d.Beside {
		fmt.Fprintf(&out, "beside   %s\n", a)
	}
	return out.String()
}
