// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package release answers what one pass over a Rollout does, about its BatchRelease too:
// batch.Decide judges the batch, planner.Decide goes on from there, and a batch that it
// wants is begun in the same decision. It is pure.
package release

import (
	"slices"

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
	// Sizing returns the facts by which the sizes are decided under a state in the store, and
	// reports whether Weir decides the sizes.
	Sizing(planner.Known) (sizes.Scaling, bool)
}

// Decide decides what one pass over a Rollout does.
func Decide(o Observed) planner.Decision { return size(o, decide(o)) }

func decide(o Observed) planner.Decision {
	if planner.Over(o.Rollout) || o.Batches == nil || o.Batches.Release == nil {
		return begin(o, planner.Decide(o.Observed))
	}
	judged, was := batch.Decide(*o.Batches), o.Batches.Release.Status
	news := !equality.Semantic.DeepEqual(was, judged.Status)
	now := *o.Batches.Release
	now.Status = judged.Status
	o.Batch = planner.BatchFacts(&now)
	o.Batch.Acts = news || len(judged.Actions) > 0
	o.Batch.Rescaled = was.ObservedWorkloadReplicas != judged.Status.ObservedWorkloadReplicas
	d := planner.Decide(o.Observed)
	switch {
	case beginsNow(d.Actions, was, judged.Status):
		return begin(o, d)
	case overtaken(d.Actions, judged):
		return d
	}
	// The result of this batch is stored before the next one begins, so that everybody who reads the
	// BatchRelease sees each batch become ready. The next pass begins the next batch.
	d.Actions = slices.DeleteFunc(d.Actions, func(a planner.Action) bool { return runsBatch(a.Effect) })
	if news && !o.Batch.Terminating {
		store := planner.Actions(planner.BeforeStatus, judged.Rule, planner.JudgeBatch{Status: judged.Status})
		d.Actions = slices.Insert(d.Actions, 0, store...)
	}
	d.Actions = append(d.Actions, actionsOfBatch(judged)...)
	for _, e := range judged.Events {
		e.When = planner.BeforeStatus
		d.Events = append(d.Events, e)
	}
	return d
}

// actionsOfBatch returns the actions of a batch under way. Actions that only copy what is stored
// already to other objects do not cause a write of the status.
func actionsOfBatch(judged batch.Plan) []planner.Action {
	var actions []planner.Action
	for _, effect := range judged.Actions {
		when := planner.Independent
		switch effect.(type) {
		case planner.Tell, planner.MarkPods:
			when = planner.FromStored
		}
		actions = append(actions, planner.Actions(when, judged.Rule, OnBatch{effect})...)
	}
	return actions
}

// beginsNow reports whether the next batch begins in this pass: not where this one has just
// become ready or come to its end, unless the release goes back.
func beginsNow(actions []planner.Action, was, is rollouts.BatchReleaseStatus) bool {
	i := begins(actions)
	if i < 0 {
		return false
	}
	ready := is.BatchState != was.BatchState && is.BatchState == rollouts.BatchReady
	ended := is.Phase != was.Phase && is.Phase == rollouts.PhaseCompleted
	return actions[i].Effect.(planner.RunBatch).Plan.Abort || !ready && !ended
}

// overtaken reports whether a batch is not to be stored as it was judged: it is about to go,
// or its workload is about to change and is judged again as it will be then.
func overtaken(actions []planner.Action, judged batch.Plan) bool {
	return planner.HasEffect(actions, func(e planner.Effect) bool {
		_, goes := e.(planner.ReleaseBatch)
		return goes || len(judged.Actions) > 0 && onWorkload(e)
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

// begins returns the index of the action that gives the BatchRelease another plan, or -1.
func begins(actions []planner.Action) int {
	return slices.IndexFunc(actions, func(a planner.Action) bool { return runsBatch(a.Effect) })
}

func runsBatch(e planner.Effect) bool {
	_, runs := e.(planner.RunBatch)
	return runs
}

// begin takes up the plan that a decision wants the BatchRelease to have: its next status
// is written with the plan, and its actions follow. Where the plan changes what the store
// says of the workload, the next pass takes it up, which sees the workload so. What is made
// beside a workload, and what that is told, name the BatchRelease by its uid, so that
// nothing follows where it does not exist yet.
func begin(o Observed, d planner.Decision) planner.Decision {
	i := begins(d.Actions)
	if i < 0 || o.Batches == nil {
		return d
	}
	run := &d.Actions[i]
	plan, exists := run.Effect.(planner.RunBatch).Plan, o.Batches.Release != nil
	next := planned(o, plan)
	if exists && !seenSame(o.Batches, next) {
		return d
	}
	facts := *o.Batches
	facts.Release = next
	begun := batch.Decide(facts)
	run.Effect = planner.RunBatch{Plan: plan, Status: &begun.Status}
	if exists {
		d.Actions = slices.Insert(d.Actions, i+1, planner.Actions(run.When, run.Reason, onBatch(begun.Actions)...)...)
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

// OnBatch is an effect that the BatchRelease wants.
type OnBatch struct{ planner.Effect }

func onBatch(effects []planner.Effect) []planner.Effect {
	var on []planner.Effect
	for _, e := range effects {
		on = append(on, OnBatch{e})
	}
	return on
}
