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
	if w == nil || p == nil || !w.Held || p.StableRevision == "" || slices.Contains(w.Revisions, p.StableRevision) && !stableReplaced(*p, w) {
		return ""
	}
	switch r.Status.Phase {
	case rollouts.PhaseProgressing, rollouts.PhaseTerminating, rollouts.PhaseDisabling, rollouts.PhaseInitial, rollouts.PhaseDisabled:
		return p.StableRevision
	default:
		return ""
	}
}

// The template of the stable revision is kept by an object that others may write: a
// ReplicaSet or a ControllerRevision. What it was when the release began is in the
// store, as a digest. One that is another now is not the stable template: nothing
// copies it, and a workload that has it was not taken back.

// stableEdited reports whether somebody has changed the template of the stable revision.
func stableEdited(f *facts) bool { return stableDigestDiffers(f.progress(), f.w) }

func stableDigestDiffers(p rollouts.Progress, w *Workload) bool {
	return p.StableTemplate != "" && w.StableTemplate != "" && w.StableRevision == p.StableRevision && w.StableTemplate != p.StableTemplate
}

// stableReplaced reports whether the set that would get the pods of the stable revision
// back has another template. To the release it is lost.
func stableReplaced(p rollouts.Progress, w *Workload) bool {
	return !w.AbortSetsTemplate && stableDigestDiffers(p, w)
}

// stableTemplate is the digest for a release that starts. Where it takes the place of
// another, what was known there of the same revision goes on to count.
func stableTemplate(f *facts) string {
	p := f.stored()
	if f.Rollout.Status.Phase == rollouts.PhaseProgressing && p.StableRevision == f.w.StableRevision && p.StableTemplate != "" {
		return p.StableTemplate
	}
	return f.w.StableTemplate
}

// hasEditedStable reports whether the live template is the one that somebody has written there.
func hasEditedStable(f *facts) bool { return f.w.Held && f.w.HasStableTemplate && stableEdited(f) }

func stallStableEdited(d *draft) {
	d.stall(rollouts.StalledStableEdited, fmt.Sprintf(
		"the template in the %s of the stable revision %s is not the one that it had when the release began, so that it is not restored; %s",
		d.w.RevisionKind, d.progress().StableRevision, stableGoneHelp(d.facts)))
}

func stallStableGone(d *draft) {
	d.stall(rollouts.StalledStableGone, fmt.Sprintf("Rollout cannot go back, since the %s of the stable revision %s was deleted; %s",
		d.w.RevisionKind, d.progress().StableRevision, stableGoneHelp(d.facts)))
}

// noPodsServe reports whether the stable ReplicaSet was deleted while the workload had no
// pods, as at size 0. Then nothing could serve beside the pods of a new version.
func noPodsServe(f *facts) bool {
	return f.w.StableRevisionGone && !f.w.AbortSetsTemplate && f.style != rollouts.StyleCanary && !f.w.hasPods()
}

// stableGoneHelp says what a user can do where Weir cannot restore the stable template. The
// history of a release that took the place of another may have been written after the
// template was lost.
func stableGoneHelp(f *facts) string {
	otherwise := "in the workload yourself, or release another template"
	if noPodsServe(f) {
		otherwise += ". No pod is left that could serve beside a new version: it gets its pods only when it is promoted with full: true"
	}
	r := currentRecord(&f.status)
	if r == nil {
		return "set the earlier template " + otherwise
	}
	if _, exists := f.Histories[r.Number]; !exists && !r.Kept {
		return "no RolloutHistory of this release exists; set the earlier template " + otherwise
	}
	return fmt.Sprintf("look for the earlier template in spec.stable of RolloutHistory %s or of an older one, and set it %s",
		HistoryName(f.Rollout, r.Number), otherwise)
}
