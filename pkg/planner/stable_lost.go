// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The stable revision may lose its ReplicaSet or ControllerRevision during a release:
// somebody deletes or edits it. Its pods go with a ReplicaSet, and the native controller
// fills the gap within milliseconds, with whatever version it finds. Weir does not
// recreate it: the template is in the RolloutHistory of the release. An abort then
// stalls, and its condition names the way out.

// stableLost names the stable revision of a release whose set does not exist, or has
// another template by now; empty if it does, or if nothing depends on it any more.
func stableLost(r *rollouts.Rollout, w *Workload) string {
	p := r.Status.Active()
	if w == nil || p == nil || !w.Held || p.StableRevision == "" || slices.Contains(w.Revisions, p.StableRevision) && !exchanged(*p, w) {
		return ""
	}
	switch r.Status.Phase {
	case rollouts.PhaseProgressing, rollouts.PhaseTerminating, rollouts.PhaseDisabling, rollouts.PhaseInitial, rollouts.PhaseDisabled:
		return p.StableRevision
	default:
		return ""
	}
}

func (x *pass) stallStableGone() {
	x.stall(rollouts.StalledStableGone, fmt.Sprintf("Rollout cannot go back, since the %s of the stable revision %s was deleted; %s",
		x.w.RevisionKind, x.progress().StableRevision, x.wayOut()))
}

// wayOut says what a user can do where Weir cannot restore the stable template. The
// history of a release that took the place of another may have been written after the
// template was lost.
func (x *pass) wayOut() string {
	const otherwise = "in the workload yourself, or release another template"
	r := x.record()
	if r == nil {
		return "set the earlier template " + otherwise
	}
	if _, exists := x.Histories[r.Number]; !exists && !r.Kept {
		return "no RolloutHistory of this release exists; set the earlier template " + otherwise
	}
	return fmt.Sprintf("look for the earlier template in spec.stable of RolloutHistory %s or of an older one, and set it %s",
		HistoryName(x.Rollout, r.Number), otherwise)
}
