// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// How a release starts, and takes the place of another one.

// startRelease begins a release at its first step.
func startRelease(d *draft, message string) {
	d.status.Phase = rollouts.PhaseProgressing
	initProgress(d)
	d.setActivity(rollouts.ActivityInitializing, message)
	d.announce("RolloutStarted", fmt.Sprintf("release of revision %s has started", d.progress().UpdateRevision))
	d.continueWith(CaseInitializing)
}

// initProgress is the progress and the record of a release at its first step.
func initProgress(d *draft) {
	d.status.RemoveCondition(rollouts.ConditionSucceeded)
	d.status.RemoveCondition(rollouts.ConditionStalled)
	d.status.SetActive(d.style, &rollouts.Progress{
		ObservedWorkloadGeneration: d.w.Generation, ObservedRolloutID: newRolloutID(d.facts), RolloutHash: d.planHash(),
		StableRevision: d.w.StableRevision, StableTemplate: stableTemplate(d.facts),
		UpdateRevision: newName(d.facts), UpdateTemplate: d.w.UpdateTemplate, PodTemplateHash: d.w.PodTemplateHash,
		CurrentStepIndex: 1, NextStepIndex: d.release.Next(1), State: rollouts.BeforeStepUpgrade,
		Paused: d.Rollout.Status.Phase == rollouts.PhaseInitial && d.stored().Paused,
	})
	d.startWait()
	openRecord(d)
}

// initialize waits for what the release needs, then lets it run. A release that
// is tried again leaves what its abort had not finished.
func initialize(d *draft) {
	if r := d.route(); d.Batch != nil || r != nil && r.Routed || d.Routing.isInUse() {
		left := remainingTeardown(d.facts, replacedTeardown, rollouts.ReleasePlan{})
		if d.applyRemaining(left); !left.isDone() {
			return
		}
	}
	d.setOutcome(rollouts.VerbRetry, rollouts.OutcomeApplied)
	switch missing := missingReference(d.facts); {
	case missing != "":
		d.cause = missing + " does not exist"
		d.setActivity(rollouts.ActivityInitializing, "Rollout waits for "+missing+", which does not exist; the workload is held until then")
	case paused(d.facts):
		d.continueWith(CasePaused)
	default:
		d.setActivity(rollouts.ActivityInRolling, "Rollout is in Progressing")
		d.continueWith(CaseInProgress)
	}
}

// rolloutID names the release.
func rolloutID(f *facts) string { return cmp.Or(userRolloutID(f), f.w.UpdateRevision) }

// userRolloutID is the name that the workload gives to its release, or empty. What no label
// could say is not taken for a name.
func userRolloutID(f *facts) string {
	if len(validation.IsValidLabelValue(f.w.RolloutID)) > 0 {
		return ""
	}
	return f.w.RolloutID
}

// rolloutIDChanged reports whether a workload at rest names another release than its last.
// That is the wish for a release, though every pod runs its template already.
func rolloutIDChanged(f *facts) bool {
	name, last := userRolloutID(f), f.progress().ObservedRolloutID
	return name != "" && last != "" && name != last && f.hasReleasedTemplate() && f.replacesPods() && f.w.Replicas > 0
}

// newRolloutID names a release that starts. One of the stable revision is not the
// earlier one that brought it, which has its name where nobody gives another.
func newRolloutID(f *facts) string {
	if id := "rollback-" + f.w.UpdateRevision; f.w.HasStableTemplate && userRolloutID(f) == "" && len(validation.IsValidLabelValue(id)) == 0 {
		return id
	}
	return rolloutID(f)
}

// applyRolloutID takes up another name that the workload gives to the release under
// way. Its batches are counted again, for the labels; its step and its pods stay.
func applyRolloutID(d *draft) {
	p, b := d.progress(), d.Batch
	if name := userRolloutID(d.facts); name != "" && p.ObservedRolloutID != name {
		p.ObservedRolloutID = name
		if r := currentRecord(&d.status); r != nil {
			r.RolloutID = name
		}
	}
	if b == nil || b.Terminating || podsPending(p) || RevisionOfPlan(b.Plan) != d.revision() || b.Plan.RolloutID == p.ObservedRolloutID {
		return
	}
	plan := b.Plan
	plan.RolloutID = p.ObservedRolloutID
	d.act(RunBatch{Plan: plan})
}

// startRollback begins the release of the stable template: from the first step, the
// pods that have it already left out of account.
func startRollback(d *draft) {
	d.supersedeDecisions()
	d.announce("RolloutRollingBack", "the stable template was set, and is released in batches")
	startRelease(d, "Rollout is in Progressing")
}

// supersede starts again with a newer template, traffic on stable first.
func supersede(d *draft) {
	if d.isEnding() {
		if convergePods(d); d.waits {
			d.status.Message = "Workload is continuous release, and the pods that it begins from are brought up"
			return
		}
	}
	unpinWithoutReadyStablePods(d)
	left := remainingTeardown(d.facts, replacedTeardown, rollouts.ReleasePlan{})
	if d.applyRemaining(left); !left.isDone() {
		d.status.Message = "Workload is continuous release"
		return
	}
	if abortTargetsTemplate(d.facts) {
		carryAbortOver(d)
		return
	}
	d.supersedeDecisions()
	d.announce("RolloutSuperseded", "workload continuous publishing canaryRevision, then restart publishing")
	stable, template := d.progress().StableRevision, d.progress().StableTemplate
	startRelease(d, "Workload is continuous release")
	if d.w.StableRevision == "" {
		d.progress().StableRevision, d.progress().StableTemplate = stable, template
	}
}

// convergePods brings every pod to the revision whose release was complete, or to the
// stable one of a release that was cancelled, where the native controller was
// stopped in the middle of rolling to it: the next release begins from there.
// Where update pods replace others this is not needed, since they are sized from
// here all the time.
func convergePods(d *draft) {
	into := convergedRevision(d.facts)
	if d.replacesPods() || d.w.NewestReadyRevision == "" {
		return
	}
	if ended := d.progress().UpdateTemplate; ended != "" && d.w.NewestReadyTemplate != "" && d.w.NewestReadyTemplate != ended {
		return // somebody wrote that ReplicaSet: the release that ends did not release its template
	}
	r, p := d.route(), d.progress()
	var left remainingWork
	switch {
	case d.Routing.isInUse():
		left = remainingTeardown(d.facts, replacedTeardown, rollouts.ReleasePlan{}) // what it selects goes to pods that are about to go
	case r != nil && r.Pinned != "" && r.Pinned != into:
		left = remainingWork{action: UnpinService{}} // the pods that it selects are about to go
	case graceRemaining(d.facts) > 0:
		left = remainingWork{settles: graceRemaining(d.facts)}
	case p.StableRevision != into:
		if p.StableRevision, p.StableTemplate = into, ""; into == d.w.NewestReadyRevision {
			p.StableTemplate = d.w.NewestReadyTemplate
		}
		left = remainingWork{waits: true}
	default:
		left = remainingBatchAbort(d.facts, abortPlan(d.facts, 0, Revision{}))
	}
	d.applyRemaining(left)
	d.waits = !left.isDone()
}

// convergedRevision is that revision.
func convergedRevision(f *facts) string {
	if stable := f.progress().StableRevision; f.isDoing(rollouts.ActivityCancelling) && slices.Contains(f.w.Revisions, stable) {
		return stable
	}
	return f.w.NewestReadyRevision
}
