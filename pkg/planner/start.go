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

// start begins a release at its first step.
func start(d *draft, message string) {
	d.status.Phase = rollouts.PhaseProgressing
	begin(d)
	d.become(rollouts.ActivityInitializing, message)
	d.announce("RolloutStarted", fmt.Sprintf("release of revision %s has started", d.progress().UpdateRevision))
	d.goOn(CaseInitializing)
}

// begin is the progress and the record of a release at its first step.
func begin(d *draft) {
	d.status.RemoveCondition(rollouts.ConditionSucceeded)
	d.status.RemoveCondition(rollouts.ConditionStalled)
	d.status.SetActive(d.style, &rollouts.Progress{
		ObservedWorkloadGeneration: d.w.Generation, ObservedRolloutID: releaseID(d.facts), RolloutHash: d.planHash(),
		StableRevision: d.w.StableRevision, StableTemplate: stableTemplate(d.facts),
		UpdateRevision: newName(d.facts), UpdateTemplate: d.w.UpdateTemplate, PodTemplateHash: d.w.PodTemplateHash,
		CurrentStepIndex: 1, NextStepIndex: d.release.Next(1), State: rollouts.BeforeStepUpgrade,
		Paused: d.Rollout.Status.Phase == rollouts.PhaseInitial && d.was().Paused,
	})
	d.stamp()
	openRecord(d)
}

// initialize waits for what the release needs, then lets it run. A release that
// is tried again leaves what its abort had not finished.
func initialize(d *draft) {
	if r := d.route(); d.Batch != nil || r != nil && r.Routed || d.Routing.holds() {
		left := remaining(d.facts, replacedTeardown, rollouts.ReleasePlan{})
		if d.pursue(left); !left.done() {
			return
		}
	}
	d.settle(rollouts.VerbRetry, rollouts.OutcomeApplied)
	switch missing := lacks(d.facts); {
	case missing != "":
		d.cause = missing + " does not exist"
		d.become(rollouts.ActivityInitializing, "Rollout waits for "+missing+", which does not exist; the workload is held until then")
	case paused(d.facts):
		d.goOn(CasePaused)
	default:
		d.become(rollouts.ActivityInRolling, "Rollout is in Progressing")
		d.goOn(CaseInProgress)
	}
}

// rolloutID names the release.
func rolloutID(f *facts) string { return cmp.Or(named(f), f.w.UpdateRevision) }

// named is the name that the workload gives to its release, or empty. What no label
// could say is not taken for a name.
func named(f *facts) string {
	if len(validation.IsValidLabelValue(f.w.RolloutID)) > 0 {
		return ""
	}
	return f.w.RolloutID
}

// renamed reports whether a workload at rest names another release than its last.
// That is the wish for a release, though every pod runs its template already.
func renamed(f *facts) bool {
	name, last := named(f), f.progress().ObservedRolloutID
	return name != "" && last != "" && name != last && f.live() && f.replaces() && f.w.Replicas > 0
}

// releaseID names a release that starts. One of the stable revision is not the
// earlier one that brought it, which has its name where nobody gives another.
func releaseID(f *facts) string {
	if id := "rollback-" + f.w.UpdateRevision; f.w.AtStable && named(f) == "" && len(validation.IsValidLabelValue(id)) == 0 {
		return id
	}
	return rolloutID(f)
}

// rename takes up another name that the workload gives to the release under
// way. Its batches are counted again, for the labels; its step and its pods stay.
func rename(d *draft) {
	p, b := d.progress(), d.Batch
	if name := named(d.facts); name != "" && p.ObservedRolloutID != name {
		p.ObservedRolloutID = name
		if r := record(&d.status); r != nil {
			r.RolloutID = name
		}
	}
	if b == nil || b.Terminating || beforeUpgraded(p) || Planned(b.Plan) != d.revision() || b.Plan.RolloutID == p.ObservedRolloutID {
		return
	}
	plan := b.Plan
	plan.RolloutID = p.ObservedRolloutID
	d.act(RunBatch{Plan: plan})
}

// startRollback begins the release of the stable template: from the first step, the
// pods that have it already left out of account.
func startRollback(d *draft) {
	d.settleAll()
	d.announce("RolloutRollingBack", "the stable template was set, and is released in batches")
	start(d, "Rollout is in Progressing")
}

// supersede starts again with a newer template, traffic on stable first.
func supersede(d *draft) {
	if d.ending() {
		if converge(d); d.waits {
			d.status.Message = "Workload is continuous release, and the pods that it begins from are brought up"
			return
		}
	}
	unpinUnready(d)
	left := remaining(d.facts, replacedTeardown, rollouts.ReleasePlan{})
	if d.pursue(left); !left.done() {
		d.status.Message = "Workload is continuous release"
		return
	}
	if condemned(d.facts) {
		passOn(d)
		return
	}
	d.settleAll()
	d.announce("RolloutSuperseded", "workload continuous publishing canaryRevision, then restart publishing")
	stable, template := d.progress().StableRevision, d.progress().StableTemplate
	start(d, "Workload is continuous release")
	if d.w.StableRevision == "" {
		d.progress().StableRevision, d.progress().StableTemplate = stable, template
	}
}

// converge brings every pod to the revision whose release was complete, or to the
// stable one of a release that was cancelled, where the native controller was
// stopped in the middle of rolling to it: the next release begins from there.
// Where update pods replace others this is not needed, since they are sized from
// here all the time.
func converge(d *draft) {
	into := convergedRevision(d.facts)
	if d.replaces() || d.w.Rolled == "" {
		return
	}
	if ended := d.progress().UpdateTemplate; ended != "" && d.w.RolledTemplate != "" && d.w.RolledTemplate != ended {
		return // somebody wrote that ReplicaSet: the release that ends did not release its template
	}
	r, p := d.route(), d.progress()
	var left remains
	switch {
	case d.Routing.holds():
		left = remaining(d.facts, replacedTeardown, rollouts.ReleasePlan{}) // what it selects goes to pods that are about to go
	case r != nil && r.Pinned != "" && r.Pinned != into:
		left = remains{action: Unpin{}} // the pods that it selects are about to go
	case owed(d.facts) > 0:
		left = remains{settles: owed(d.facts)}
	case p.StableRevision != into:
		if p.StableRevision, p.StableTemplate = into, ""; into == d.w.Rolled {
			p.StableTemplate = d.w.RolledTemplate
		}
		left = remains{waits: true}
	default:
		left = batchBack(d.facts, planBack(d.facts, 0, Revision{}))
	}
	d.pursue(left)
	d.waits = !left.done()
}

// convergedRevision is that revision.
func convergedRevision(f *facts) string {
	if stable := f.progress().StableRevision; f.doing(rollouts.ActivityCancelling) && slices.Contains(f.w.Revisions, stable) {
		return stable
	}
	return f.w.Rolled
}
