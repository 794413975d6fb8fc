// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// gates observes the pauses of a release.
type gates struct {
	// since is the time at which a step was first observed waiting.
	since map[gate]time.Time
	// full are the releases that a user promoted in full.
	full map[string]bool
	// ready are the batches that were observed ready.
	ready map[batchKey]bool
}

// batchKey is one batch of one plan.
type batchKey struct {
	release types.UID
	plan    string
	index   int32
}

func batchOf(b *rollouts.BatchRelease, index int32) batchKey {
	plan, partition := b.Spec.Plan, int32(-1)
	if plan.BatchPartition != nil {
		partition = *plan.BatchPartition
	}
	return batchKey{b.UID, fmt.Sprint(plan.Batches, partition, plan.Revision, plan.RolloutID, plan.Abort), index}
}

type gate struct {
	revision string
	step     int32
}

func newGates() gates {
	return gates{since: map[gate]time.Time{}, full: map[string]bool{}, ready: map[batchKey]bool{}}
}

func (g gates) fork() gates {
	return gates{since: maps.Clone(g.since), full: maps.Clone(g.full), ready: maps.Clone(g.ready)}
}

// noteReadyBatches notes batches that become ready.
func (g gates) noteReadyBatches(old, next *rollouts.BatchRelease) {
	was, is := old.Status, next.Status
	if is.BatchState == rollouts.BatchReady && (was.BatchState != is.BatchState || was.CurrentBatch != is.CurrentBatch ||
		was.ObservedReleasePlanHash != is.ObservedReleasePlanHash) {
		g.ready[batchOf(next, is.CurrentBatch)] = true
	}
}

// order lists the states of a step in their order.
var order = []rollouts.StepState{
	rollouts.BeforeStepUpgrade, rollouts.StepUpgrade, rollouts.StepTrafficRouting, rollouts.StepMetricsAnalysis,
	rollouts.StepPaused, rollouts.StepReady, rollouts.StepCompleted,
}

// isPastPause reports whether the progress is past the pause of the step.
func isPastPause(p *rollouts.Progress, step int32) bool {
	return p.CurrentStepIndex > step ||
		p.CurrentStepIndex == step && slices.Index(order, p.State) > slices.Index(order, rollouts.StepPaused)
}

// checkPauses checks the invariant "no skipped gate": a pause ends by an approval, by a promotion
// in full, by its duration, or because the last step has all pods. Another revision or another plan
// is another release.
func (g gates) checkPauses(c *invariants, actor string, old, next *rollouts.Rollout) {
	was, is := old.Status.Active(), next.Status.Active()
	if is == nil || next.Status.Phase != rollouts.PhaseProgressing {
		return
	}
	if actor == "user" {
		g.full[is.UpdateRevision] = is.FullyPromoted
	}
	if sameRelease(old, next) && !isMovedByUser(old, next) {
		for i := was.CurrentStepIndex; i <= is.CurrentStepIndex; i++ {
			g.checkStepLeft(c, actor, i, old, next)
		}
	}
	if actor != "user" && isPausedWhileReleasing(old) && isTakingSteps(next) && (was.State != is.State || was.CurrentStepIndex != is.CurrentStepIndex) {
		c.violate("no skipped gate", "%s moves a paused release from step %d %s to step %d %s",
			actor, was.CurrentStepIndex, was.State, is.CurrentStepIndex, is.State)
	}
	at := gate{is.UpdateRevision, is.CurrentStepIndex}
	if is.State != rollouts.StepPaused || !isTakingSteps(next) {
		delete(g.since, at)
	} else if _, known := g.since[at]; !known {
		g.since[at] = c.w.now
	}
}

// isPausedWhileReleasing reports whether a user paused the release while it took steps.
func isPausedWhileReleasing(r *rollouts.Rollout) bool {
	p := r.Status.Active()
	return p != nil && r.Status.Phase == rollouts.PhaseProgressing && isTakingSteps(r) && r.Status.Activity() != rollouts.ActivityFinalising &&
		(p.Paused || r.Spec.Strategy.Paused)
}

// isMovedByUser reports whether a user moved the release to another step with the verb jump or
// retry.
func isMovedByUser(old, next *rollouts.Rollout) bool {
	n := len(old.Status.Decisions)
	if len(next.Status.Decisions) <= n {
		return false
	}
	verb := next.Status.Decisions[n].Verb
	return verb == rollouts.VerbJump || verb == rollouts.VerbRetry
}

// sameRelease reports whether both Rollouts release the same revision with the same plan.
func sameRelease(old, next *rollouts.Rollout) bool {
	was, is := old.Status.Active(), next.Status.Active()
	return was != nil && old.Status.Phase == rollouts.PhaseProgressing && (isTakingSteps(old) || isTakingSteps(next)) &&
		was.UpdateRevision == is.UpdateRevision && was.RolloutHash == is.RolloutHash
}

// checkStepLeft checks that the pods of a step were ready, and that its pause has ended, when the
// release continues.
func (g gates) checkStepLeft(c *invariants, actor string, step int32, old, next *rollouts.Rollout) {
	was, is := old.Status.Active(), next.Status.Active()
	if !isPastPods(was, step) && isPastPods(is, step) && isTakingSteps(next) && !g.wasBatchReady(c, next.Name, step-1) {
		c.violate("no skipped gate", "%s takes step %d for upgraded before its batch was ready", actor, step)
	}
	if !isPastPause(was, step) && isPastPause(is, step) && !g.isGateOpen(c, old, next, step) {
		c.violate("no skipped gate", "%s leaves step %d, whose pause has not ended", actor, step)
	}
}

// isPastPods reports whether the progress is past the pods of the step.
func isPastPods(p *rollouts.Progress, step int32) bool {
	return p.CurrentStepIndex > step ||
		p.CurrentStepIndex == step && slices.Index(order, p.State) > slices.Index(order, rollouts.StepUpgrade)
}

// wasBatchReady reports whether the batch, or a later one, was ready once, according to the cached
// plan.
func (g gates) wasBatchReady(c *invariants, name string, index int32) bool {
	b := find[*rollouts.BatchRelease](c.w.store.at(c.w.seen[kindBatch]), kindBatch, name)
	if b == nil {
		return false
	}
	for ; int(index) < len(b.Spec.Plan.Batches); index++ {
		if g.ready[batchOf(b, index)] {
			return true
		}
	}
	return false
}

// isTakingSteps reports whether the release takes steps. A release that ends takes none.
func isTakingSteps(r *rollouts.Rollout) bool {
	a := r.Status.Activity()
	return a == rollouts.ActivityInRolling || a == rollouts.ActivityPaused || a == rollouts.ActivityInitializing ||
		a == rollouts.ActivityFinalising
}

func (g gates) isGateOpen(c *invariants, old, next *rollouts.Rollout, step int32) bool {
	at := gate{next.Status.Active().UpdateRevision, step}
	_, release := next.Spec.Strategy.Active()
	s := release.Step(step)
	switch {
	case s == nil, g.full[at.revision]:
		return true
	case int(step) == len(release.Steps) && *s.Replicas == intstr.FromString("100%"):
		return true
	case s.Pause.Duration != nil && g.isPauseOver(c, at, time.Duration(*s.Pause.Duration)*time.Second):
		return true
	}
	return slices.ContainsFunc(next.Status.Decisions, func(d rollouts.Decision) bool {
		used := slices.ContainsFunc(old.Status.Decisions, func(o rollouts.Decision) bool { return o.ID == d.ID && o.Outcome != "" })
		return d.Verb == rollouts.VerbPromote && d.Step == step && d.Revision == at.revision && !used
	})
}

// isPauseOver reports whether a timed pause has ended.
func (g gates) isPauseOver(c *invariants, at gate, pause time.Duration) bool {
	since, known := g.since[at]
	return pause == 0 || known && !c.w.now.Before(since.Add(pause))
}

// checkDecisions checks the invariant "no lost command": the controller keeps every decision, gives
// each exactly one outcome, and marks an approval as applied only when the release leaves the step.
func (c *invariants) checkDecisions(actor string, old, next *rollouts.Rollout) {
	a := next.Status.Activity()
	c.aborted = c.aborted || a == rollouts.ActivityAborting || a == rollouts.ActivityAborted
	was, is := old.Status.Decisions, next.Status.Decisions
	if actor == "user" {
		return
	}
	kept := slices.Clone(is)
	if n := len(was); len(kept) == n+1 && kept[n].Via == rollouts.ViaAnalysis {
		kept = kept[:n] // the server has recorded the verdict of the checks
	}
	if len(was) != len(kept) {
		c.violate("no lost command", "%s keeps %d of %d decisions", actor, len(is), len(was))
		return
	}
	for i := range was {
		c.decision(actor, was[i], is[i], next)
	}
}

func (c *invariants) decision(actor string, was, is rollouts.Decision, next *rollouts.Rollout) {
	same := is
	same.Outcome = was.Outcome
	if !equal.DeepEqual(same, was) || was.Outcome != "" && was.Outcome != is.Outcome {
		c.violate("no lost command", "%s changes decision %+v to %+v", actor, was, is)
	}
	if p := next.Status.Active(); was.Verb == rollouts.VerbPromote && was.Outcome == "" && p != nil {
		c.approval(actor, was, is, next)
	}
}

func (c *invariants) approval(actor string, was, is rollouts.Decision, next *rollouts.Rollout) {
	p := next.Status.Active()
	switch {
	case is.Outcome == rollouts.OutcomeApplied && !isPastPause(p, was.Step) && !p.FullyPromoted:
		c.violate("no lost command", "%s calls decision %d applied at step %d", actor, was.ID, p.CurrentStepIndex)
	case is.Outcome == "" && next.Status.Activity() == rollouts.ActivityInRolling && wentOnWithout(p, was):
		c.violate("no lost command", "%s leaves decision %d about step %d open at step %d", actor, was.ID, was.Step, p.CurrentStepIndex)
	}
}

// wentOnWithout reports whether the release continued without the decision.
func wentOnWithout(p *rollouts.Progress, d rollouts.Decision) bool {
	return p.UpdateRevision == d.Revision && p.CurrentStepIndex != d.Step && !p.FullyPromoted
}
