// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
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
