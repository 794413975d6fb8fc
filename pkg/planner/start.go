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

// This file starts releases. A release can also replace a release that is in progress.

// startRelease begins a release at its first step.
func startRelease(d *draft, message string) {
	d.status.Phase = rollouts.PhaseProgressing
	initProgress(d)
	d.setActivity(rollouts.ActivityInitializing, message)
	d.announce("RolloutStarted", fmt.Sprintf("release of revision %s has started", d.progress().UpdateRevision))
	d.continueWith(CaseInitializing)
}

// initProgress sets the progress to the first step and opens the record of the release.
func initProgress(d *draft) {
	d.status.RemoveCondition(rollouts.ConditionSucceeded)
	d.status.RemoveCondition(rollouts.ConditionStalled)
	d.status.SetActive(d.style, &rollouts.Progress{
		ObservedWorkloadGeneration: d.w.Generation, ObservedRolloutID: newRolloutID(d.facts), RolloutHash: d.planHash(),
		StableRevision: d.w.StableRevision, StableTemplate: stableTemplate(d.facts),
		UpdateRevision: newName(d.facts), UpdateTemplate: d.w.UpdateTemplate, PodTemplateHash: d.w.PodTemplateHash,
		CurrentStepIndex: 1, NextStepIndex: d.plan.Next(1), State: rollouts.BeforeStepUpgrade,
		Paused: d.Rollout.Status.Phase == rollouts.PhaseInitial && d.stored().Paused,
	})
	d.startWait()
	openRecord(d)
}

// initialize waits until the Services and routers of the plan exist, then starts the first step. When an
// aborted release is retried, initialize first completes the teardown that the abort had begun.
func initialize(d *draft) {
	if r := d.route(); d.Batch != nil || r != nil && r.Routed || d.Routing.isInUse() {
		remaining := remainingTeardown(d.facts, replacedTeardown, rollouts.ReleasePlan{})
		if d.applyRemaining(remaining); !remaining.isDone() {
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

// rolloutID returns the ID of the release: the user's ID or, without one, the update revision.
func rolloutID(f facts) string { return cmp.Or(userRolloutID(f), f.w.UpdateRevision) }

// userRolloutID returns the rollout ID that the user set on the workload; empty if there is none. It
// ignores an ID that is not a valid label value, because Weir writes the ID to a label of the pods.
func userRolloutID(f facts) string {
	if len(validation.IsValidLabelValue(f.w.RolloutID)) > 0 {
		return ""
	}
	return f.w.RolloutID
}

// rolloutIDChanged reports whether the user set a new rollout ID on a workload at rest. A new ID
// requests a release, even though every pod runs the template already.
func rolloutIDChanged(f facts) bool {
	name, last := userRolloutID(f), f.progress().ObservedRolloutID
	return name != "" && last != "" && name != last && f.hasReleasedTemplate() && f.replacesPods() && f.w.Replicas > 0
}

// newRolloutID returns the ID of a release that starts. A rollback to the stable revision without a user's
// ID gets the prefix "rollback-", because the release that introduced this revision has the revision
// as its ID.
func newRolloutID(f facts) string {
	if id := "rollback-" + f.w.UpdateRevision; f.w.HasStableTemplate && userRolloutID(f) == "" && len(validation.IsValidLabelValue(id)) == 0 {
		return id
	}
	return rolloutID(f)
}

// applyRolloutID applies a new rollout ID that the user set during the release. The BatchRelease gets the
// new ID for the labels of its pods. The step and the pods stay.
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

// startRollback starts the release of the stable template in batches. It starts at the first step,
// regardless of the pods that already run the template.
func startRollback(d *draft) {
	d.supersedeDecisions()
	d.announce("RolloutRollingBack", "the stable template was set, and is released in batches")
	startRelease(d, "Rollout is in Progressing")
}

// supersede replaces the current release by the release of a newer template. It first returns all traffic
// to the stable revision. Unlike an abort, it removes the route at once, as OpenKruise does, and not as stable
// pods become ready: the newer template usually repairs what the users of the current version suffer from.
func supersede(d *draft) {
	if d.isEnding() {
		if converged := convergePods(d); !converged {
			d.status.Message = "Workload is continuous release, and the pods that it starts from are being created"
			return
		}
	}
	unpinWithoutReadyStablePods(d)
	remaining := remainingTeardown(d.facts, replacedTeardown, rollouts.ReleasePlan{})
	if d.applyRemaining(remaining); !remaining.isDone() {
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

// convergePods brings all pods to one revision before the next release starts, if the native
// controller was stopped in the middle of its final rolling update. This revision is the update revision of a
// completed release, or the stable revision of a cancelled release. The partition style does not need
// this: its pods follow the target of the batch at all times. convergePods reports whether all pods have
// reached the revision.
func convergePods(d *draft) (converged bool) {
	if d.replacesPods() || d.w.NewestReadyRevision == "" {
		return true
	}
	if ended := d.progress().UpdateTemplate; ended != "" && d.w.NewestReadyTemplate != "" && d.w.NewestReadyTemplate != ended {
		return true // somebody changed this ReplicaSet: its template is not the template that was released
	}
	r, p := d.route(), d.progress()
	revision := d.w.NewestReadyRevision
	if d.isDoing(rollouts.ActivityCancelling) && slices.Contains(d.w.Revisions, p.StableRevision) {
		revision = p.StableRevision
	}
	var remaining remainingWork
	switch {
	case d.Routing.isInUse():
		remaining = remainingTeardown(d.facts, replacedTeardown, rollouts.ReleasePlan{}) // it routes requests to pods that will be deleted
	case r != nil && r.Pinned != "" && r.Pinned != revision:
		remaining = remainingWork{action: UnpinService{}} // the pods that the Service selects will be deleted
	case graceRemaining(d.facts) > 0:
		remaining = remainingWork{settles: graceRemaining(d.facts)}
	case p.StableRevision != revision:
		if p.StableRevision, p.StableTemplate = revision, ""; revision == d.w.NewestReadyRevision {
			p.StableTemplate = d.w.NewestReadyTemplate
		}
		remaining = remainingWork{waits: true}
	default:
		remaining = remainingBatchAbort(d.facts, abortPlan(d.facts, 0, Revision{}))
	}
	d.applyRemaining(remaining)
	return remaining.isDone()
}
