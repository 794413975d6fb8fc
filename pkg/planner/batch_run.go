// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// evaluatedBatch is what a pass over a Rollout finds out about its BatchRelease.
type evaluatedBatch struct {
	BatchDecision
	// facts are those of the BatchRelease with the next status.
	facts *Batch
	// statusChanged reports whether the next status differs from the stored one.
	statusChanged bool
}

// evaluateBatch evaluates the BatchRelease of a Rollout, before anything is decided about the Rollout.
// It returns nil if there is no BatchRelease, or its workload cannot be read.
func evaluateBatch(in Input) *evaluatedBatch {
	if in.BatchInput == nil || in.BatchInput.Release == nil {
		return nil
	}
	input := *in.BatchInput
	stored := input.Release
	if isLateBatchRelease(in.Rollout.Status.Phase) {
		input.RolloutExists = false // its deletion does not hold the workload
	}
	decision := DecideBatch(input)
	next := *stored
	next.Status = decision.Status
	e := &evaluatedBatch{BatchDecision: decision, facts: BatchFacts(&next)}
	e.statusChanged = !equality.Semantic.DeepEqual(stored.Status, decision.Status)
	e.facts.WritesPending = e.statusChanged || len(decision.Effects) > 0
	e.facts.Rescaled = stored.Status.ObservedWorkloadReplicas != decision.Status.ObservedWorkloadReplicas
	return e
}

// runBatchRelease adds the actions on the BatchRelease to the decision about its Rollout: either the
// Rollout requests another batch, which starts in the same pass, or the current batch continues.
func runBatchRelease(in Input, d Decision, batch *evaluatedBatch) Decision {
	requested := slices.IndexFunc(d.Actions, func(a Action) bool { return isRunBatch(a.Effect) })
	if batch == nil {
		if requested >= 0 && in.BatchInput != nil {
			return startRequestedBatch(in, d, requested)
		}
		return d
	}
	stored := in.BatchInput.Release.Status
	becameReady := batch.Status.BatchState != stored.BatchState && batch.Status.BatchState == rollouts.BatchReady
	completed := batch.Status.Phase != stored.Phase && batch.Status.Phase == rollouts.PhaseCompleted
	if requested >= 0 && (d.Actions[requested].Effect.(RunBatch).Plan.Abort || !becameReady && !completed) {
		return startRequestedBatch(in, d, requested)
	}
	if HasEffect(d.Actions, func(e Effect) bool { return replacesBatchEffects(e, batch) }) {
		return d
	}
	// Store the result of this batch before the next one starts, so that everybody who reads the
	// BatchRelease sees each batch become ready. The next pass starts the requested batch.
	d.Actions = slices.DeleteFunc(d.Actions, func(a Action) bool { return isRunBatch(a.Effect) })
	if batch.statusChanged && !in.Batch.Terminating {
		store := NewActions(BeforeStatus, batch.Rule, StoreBatchStatus{Status: batch.Status})
		d.Actions = slices.Insert(d.Actions, 0, store...)
	}
	for _, effect := range batch.Effects {
		when := Independent
		switch effect.(type) {
		case UpdateExtraStatus, LabelPods:
			when = FromStored
		}
		d.Actions = append(d.Actions, NewActions(when, batch.Rule, OnBatch{effect})...)
	}
	for _, e := range batch.Events {
		e.When = BeforeStatus
		d.Events = append(d.Events, e)
	}
	return d
}

// isLateBatchRelease reports whether a BatchRelease of a Rollout in this phase belongs to no release. Scenario: a
// leader was frozen before it created the BatchRelease of a release, another leader ended the release, and the
// former leader woke up (ADR 31).
func isLateBatchRelease(phase rollouts.Phase) bool {
	return phase == rollouts.PhaseHealthy || phase == rollouts.PhaseDisabled
}

// deleteLateBatchRelease deletes a BatchRelease that belongs to no release, before it changes the workload.
func deleteLateBatchRelease(d *draft) {
	if d.Batch == nil || !isLateBatchRelease(d.status.Phase) {
		return
	}
	if left := remainingBatchRelease(d.facts, rollouts.ReleasePlan{}); left.action != nil && !d.hasAction(left.action) {
		d.act(left.action)
	}
}

func isRunBatch(e Effect) bool {
	_, is := e.(RunBatch)
	return is
}

// replacesBatchEffects reports whether an effect that the Rollout wants makes those of its BatchRelease
// obsolete: the BatchRelease is deleted, or the workload itself changes.
func replacesBatchEffects(effect Effect, batch *evaluatedBatch) bool {
	switch effect.(type) {
	case DeleteBatchRelease:
		return true
	case LabelWorkload, UnlabelWorkload, HoldWorkload, ApplyPendingEdit, RequeueWorkload, RepairRecords, RestoreWorkload, SetStableTemplate:
		return len(batch.Effects) > 0
	default:
		return false
	}
}

// startRequestedBatch adds the status and the effects with which the BatchRelease starts the plan that
// the Rollout requests, so that the batch starts in the same pass.
func startRequestedBatch(in Input, d Decision, requested int) Decision {
	run := &d.Actions[requested]
	plan, exists := run.Effect.(RunBatch).Plan, in.BatchInput.Release != nil
	next := batchReleaseWith(in, plan)
	if exists && !hasSameHold(in, next) {
		return d // the next pass reads the workload with the new plan first
	}
	input := *in.BatchInput
	input.Release = next
	started := DecideBatch(input)
	run.Effect = RunBatch{Plan: plan, Status: &started.Status}
	if exists {
		// A BatchRelease that is created has no UID yet, so nothing can be written for it in this pass.
		var effects []Effect
		for _, e := range started.Effects {
			effects = append(effects, OnBatch{e})
		}
		d.Actions = slices.Insert(d.Actions, requested+1, NewActions(run.When, run.Reason, effects...)...)
	}
	d.Events = append(d.Events, started.Events...)
	return d
}

// batchReleaseWith returns the BatchRelease of the Rollout with another plan, as the server will store
// it.
func batchReleaseWith(in Input, plan rollouts.ReleasePlan) *rollouts.BatchRelease {
	next := &rollouts.BatchRelease{}
	if in.BatchInput.Release != nil {
		next = in.BatchInput.Release.DeepCopy()
	}
	spec := rollouts.BatchReleaseSpec{WorkloadRef: in.Rollout.Spec.WorkloadRef, Plan: plan}
	if !equality.Semantic.DeepEqual(next.Spec, spec) {
		next.Generation++
	}
	next.Spec = spec
	return next
}

// hasSameHold reports whether the workload was read with the same state in the store that another plan
// leads to. The adapters read a workload by that state.
func hasSameHold(in Input, next *rollouts.BatchRelease) bool {
	stored, planned := HoldStateOf(nil, in.BatchInput.Release), HoldStateOf(nil, next)
	stored.Target, planned.Target = nil, nil
	if w := in.BatchInput.Workload; w != nil && w.Target != nil && len(w.TamperedKeys) == 0 {
		stored.Restoring, stored.Holder = planned.Restoring, planned.Holder
	}
	return equality.Semantic.DeepEqual(stored, planned)
}

// OnBatch is an effect that the BatchRelease of a Rollout wants.
type OnBatch struct{ Effect }
