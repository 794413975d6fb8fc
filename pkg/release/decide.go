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
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// Observed is all that one pass over a Rollout knows.
type Observed struct {
	planner.Observed
	// Batches are the facts of the BatchRelease of the Rollout, whose Release is nil where
	// there is none yet; nil where the workload cannot be read.
	Batches *batch.Observed
	// Sets are the ReplicaSets that this Rollout sizes; nil where it sizes none.
	Sets Sets
}

// Sets are the ReplicaSets of a workload.
type Sets interface {
	// Sizing is what their sizes are decided by, with the workload as it is seen by what is
	// known, and whether they are decided here.
	Sizing(planner.Known) (sizes.Scaling, bool)
}

// Decision is everything one pass over a Rollout decided.
type Decision struct {
	planner.Decision
	// First is what was found out of the batch, to be stored before the status of the Rollout.
	// FirstEvents are announced only if First is stored.
	First       []planner.Effect
	FirstEvents []planner.Event
	// Beside are actions of a batch that goes on. They do not wait for the other actions,
	// nor these for them.
	Beside []planner.Effect
	// Follow are actions by what is stored already: nothing is stored for them.
	Follow []planner.Effect
}

// Decide decides what one pass over a Rollout does.
func Decide(o Observed) Decision { return size(o, decide(o)) }

func decide(o Observed) Decision {
	if planner.Over(o.Rollout) || o.Batches == nil || o.Batches.Release == nil {
		return begin(o, Decision{Decision: planner.Decide(o.Observed)})
	}
	judged, was := batch.Decide(*o.Batches), o.Batches.Release.Status
	news := !equality.Semantic.DeepEqual(was, judged.Status)
	now := *o.Batches.Release
	now.Status = judged.Status
	o.Batch = planner.BatchFacts(&now)
	o.Batch.Acts = news || len(judged.Actions) > 0
	o.Batch.Rescaled = was.ObservedWorkloadReplicas != judged.Status.ObservedWorkloadReplicas
	d := Decision{Decision: planner.Decide(o.Observed)}
	switch {
	case beginsNow(d.Actions, was, judged.Status):
		return begin(o, d)
	case overtaken(d.Actions, judged):
		return d
	}
	// What was found out is stored first, so that whoever reads a BatchRelease sees each
	// batch become ready. The next pass begins what follows.
	d.Actions, d.Reasons = without(d.Actions, d.Reasons, begins(d.Actions))
	if news && !o.Batch.Terminating {
		d.First = []planner.Effect{planner.JudgeBatch{Status: judged.Status}}
	}
	d.goesOn(judged)
	return d
}

// goesOn has the batch go on.
func (d *Decision) goesOn(judged batch.Plan) {
	for _, a := range onBatch(judged.Actions) {
		if follows(a) {
			d.Follow = append(d.Follow, a)
		} else {
			d.Beside = append(d.Beside, a)
		}
	}
	d.FirstEvents = judged.Events
}

// follows reports whether an action only writes down, on objects of others, what is known.
func follows(a planner.Effect) bool {
	switch a.(OnBatch).Effect.(type) {
	case planner.Tell, planner.MarkPods:
		return true
	default:
		return false
	}
}

// beginsNow reports whether the next batch begins in this pass: not where this one has just
// become ready or come to its end, unless the release goes back.
func beginsNow(actions []planner.Effect, was, is rollouts.BatchReleaseStatus) bool {
	i := begins(actions)
	if i < 0 {
		return false
	}
	ready := is.BatchState != was.BatchState && is.BatchState == rollouts.BatchReady
	ended := is.Phase != was.Phase && is.Phase == rollouts.PhaseCompleted
	return actions[i].(planner.RunBatch).Plan.Abort || !ready && !ended
}

// overtaken reports whether a batch is not to be stored as it was judged: it is about to go,
// or its workload is about to change and is judged again as it will be then.
func overtaken(actions []planner.Effect, judged batch.Plan) bool {
	return slices.ContainsFunc(actions, func(a planner.Effect) bool {
		_, goes := a.(planner.ReleaseBatch)
		return goes || len(judged.Actions) > 0 && onWorkload(a)
	})
}

// onWorkload reports whether an action of the Rollout changes the workload.
func onWorkload(a planner.Effect) bool {
	switch a.(type) {
	case planner.Label, planner.Unlabel, planner.Hold, planner.ApplyPendingEdit, planner.AskAgain, planner.PutRight, planner.RestoreWorkload, planner.SetStable:
		return true
	default:
		return false
	}
}

// begins is the index of the action that gives the BatchRelease another plan; -1 if none does.
func begins(actions []planner.Effect) int {
	return slices.IndexFunc(actions, func(a planner.Effect) bool { _, runs := a.(planner.RunBatch); return runs })
}

func without(actions []planner.Effect, reasons []string, i int) ([]planner.Effect, []string) {
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
	if exists && !seenSame(o.Batches, next) {
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

// seenSame reports whether the workload looks the same with the next plan, but for how far
// it may go. That it is given back changes nothing while our keys are on it as they should be.
func seenSame(o *batch.Observed, next *rollouts.BatchRelease) bool {
	was, is := planner.KnownOf(nil, o.Release), planner.KnownOf(nil, next)
	was.Target, is.Target = nil, nil
	if w := o.Workload; w != nil && w.Target != nil && len(w.TamperedKeys) == 0 {
		was.Leaves, was.Holder = is.Leaves, is.Holder
	}
	return equality.Semantic.DeepEqual(was, is)
}

// OnBatch is an action of the BatchRelease.
type OnBatch struct{ planner.Effect }

func onBatch(actions []planner.Effect) []planner.Effect {
	var on []planner.Effect
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
	for _, a := range d.Follow {
		fmt.Fprintf(&out, "follow   %s\n", a)
	}
	return out.String()
}
