// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// A user may delete or edit the ReplicaSet or ControllerRevision of the stable revision during a
// release. The pods of a deleted ReplicaSet are deleted with it, and within milliseconds the native
// controller replaces them by pods of another revision. Weir does not recreate the ReplicaSet, but the
// RolloutHistory of the release has its template. An abort then stalls, and the condition Stalled says
// what the user can do.

// lostStableRevision returns the stable revision of a release if its ReplicaSet or ControllerRevision does not
// exist, or has another template now. It returns the empty string if the revision exists, or if the
// release no longer needs it.
func lostStableRevision(r *rollouts.Rollout, w *Workload) string {
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

// Users may write the ReplicaSet or ControllerRevision that has the stable template. Therefore, the status
// stores the digest of the template at the start of the release. A template with another digest is not
// the stable template: Weir never copies it, and a workload with this template is not rolled back.

// stableEdited reports whether somebody has changed the template of the stable revision.
func stableEdited(f facts) bool { return stableDigestDiffers(f.progress(), f.w) }

// stableDigestDiffers reports whether the template of the stable revision has another digest than the
// stored one. An unknown digest counts as equal.
func stableDigestDiffers(p rollouts.Progress, w *Workload) bool {
	return p.StableTemplate != "" && w.StableTemplate != "" && w.StableRevision == p.StableRevision && w.StableTemplate != p.StableTemplate
}

// stableReplaced reports whether an abort would create pods from a ReplicaSet whose template was edited.
// The release treats this ReplicaSet as deleted.
func stableReplaced(p rollouts.Progress, w *Workload) bool {
	return !w.AbortSetsTemplate && stableDigestDiffers(p, w)
}

// stableTemplate returns the digest of the stable template for a release that starts. If the release
// replaces another release with the same stable revision, the stored digest of that release stays valid.
func stableTemplate(f facts) string {
	p := f.stored()
	if f.Rollout.Status.Phase == rollouts.PhaseProgressing && p.StableRevision == f.w.StableRevision && p.StableTemplate != "" {
		return p.StableTemplate
	}
	return f.w.StableTemplate
}

// hasEditedStable reports whether the held workload has the edited template of the stable revision.
func hasEditedStable(f facts) bool { return f.w.Held && f.w.HasStableTemplate && stableEdited(f) }

// stallStableEdited sets the condition Stalled: the stable revision was edited.
func stallStableEdited(d *draft) {
	d.stall(rollouts.StalledStableEdited, fmt.Sprintf(
		"the %s of the stable revision %s was edited during the release, so Weir does not restore its template; %s",
		d.w.RevisionKind, d.progress().StableRevision, stableGoneHelp(d.facts)))
}

// stallStableGone sets the condition Stalled: the stable revision was deleted.
func stallStableGone(d *draft) {
	d.stall(rollouts.StalledStableGone, fmt.Sprintf("Rollout cannot go back, since the %s of the stable revision %s was deleted; %s",
		d.w.RevisionKind, d.progress().StableRevision, stableGoneHelp(d.facts)))
}

// noPodsServe reports whether the stable ReplicaSet was deleted while the workload had no pods, as at
// size 0. Then no stable pods can serve next to pods of a new version.
func noPodsServe(f facts) bool {
	return f.w.StableRevisionGone && !f.w.AbortSetsTemplate && f.style != rollouts.StyleCanary && !f.w.hasPods()
}

// stableGoneHelp returns what a user can do if Weir cannot restore the stable template. The history of
// this release may lack the template: if the release replaced another one, its history may have been
// written after the template was lost.
func stableGoneHelp(f facts) string {
	remedy := "to the workload yourself, or release another version"
	if noPodsServe(f) {
		remedy += ". No stable pod is left: a new version gets pods only after kubectl weir promote " + f.Rollout.Name + " --full"
	}
	r := currentRecord(&f.status)
	if r == nil {
		return "apply the stable template " + remedy
	}
	if _, exists := f.Histories[r.Number]; !exists && !r.Kept {
		return "no RolloutHistory of this release exists; apply the stable template " + remedy
	}
	return fmt.Sprintf("look for the stable template in spec.stable of RolloutHistory %s or of an older one, and apply it %s",
		HistoryName(f.Rollout, r.Number), remedy)
}
