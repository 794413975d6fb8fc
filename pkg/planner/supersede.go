// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// How a release takes the place of another one.

// startRollback begins the release of the stable template: from the first step, the
// pods that have it already left out of account.
func (x *pass) startRollback() {
	x.settleAll()
	x.announce("RolloutRollingBack", "the stable template was set, and is released in batches")
	x.start("Rollout is in Progressing")
}

// convergeRevisions brings every pod to the revision whose release was complete, or to the
// stable one of a release that was cancelled, where the native controller was
// stopped in the middle of rolling to it: the next release begins from there.
// Where update pods replace others this is not needed, since they are sized from
// here all the time.
func (x *pass) convergeRevisions() bool {
	into := x.convergedRevision()
	switch {
	case x.replaces() || x.w.Rolled == "":
		return true
	case x.Routing.holds():
		return x.run(replaced, rollouts.ReleasePlan{}) // what it selects goes to pods that are about to go
	case x.Route != nil && x.Route.Pinned != "" && x.Route.Pinned != into:
		x.act(Unpin{}) // the pods that it selects are about to go
		return false
	case !x.told():
		return false
	case x.progress().StableRevision != into:
		x.progress().StableRevision, x.progress().StableTemplate = into, ""
		return false
	default:
		return x.back(0, "")
	}
}

// convergedRevision is that revision.
func (x *pass) convergedRevision() string {
	if stable := x.progress().StableRevision; x.doing(rollouts.ActivityCancelling) && slices.Contains(x.w.Revisions, stable) {
		return stable
	}
	return x.w.Rolled
}

// supersede starts again with a newer template, traffic on stable first.
func (x *pass) supersede() {
	if x.ending() && !x.convergeRevisions() {
		x.status.Message = "Workload is continuous release, and the pods that it begins from are brought up"
		return
	}
	if !x.run(replaced, rollouts.ReleasePlan{}) {
		x.status.Message = "Workload is continuous release"
		return
	}
	if x.condemned() {
		x.passOn()
		return
	}
	x.settleAll()
	x.announce("RolloutSuperseded", "workload continuous publishing canaryRevision, then restart publishing")
	stable, template := x.progress().StableRevision, x.progress().StableTemplate
	x.start("Workload is continuous release")
	if x.w.StableRevision == "" {
		x.progress().StableRevision, x.progress().StableTemplate = stable, template
	}
}
