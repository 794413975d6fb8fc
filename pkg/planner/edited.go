// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The template of the stable revision is kept by an object that others may write: a
// ReplicaSet or a ControllerRevision. What it was when the release began is in the
// store, as a digest. One that is another now is not the stable template: nothing
// copies it, and a workload that has it was not taken back.

// edited reports whether somebody has changed the template of the stable revision.
func (x *pass) edited() bool { return edited(*x.progress(), x.w) }

func edited(p rollouts.Progress, w *Workload) bool {
	return p.StableTemplate != "" && w.StableTemplate != "" && w.StableRevision == p.StableRevision && w.StableTemplate != p.StableTemplate
}

// exchanged reports whether the set that would get the pods of the stable revision
// back has another template. To the release it is lost.
func exchanged(p rollouts.Progress, w *Workload) bool { return !w.BackByTemplate && edited(p, w) }

// stableTemplate is the digest for a release that starts. Where it takes the place of
// another, what was known there of the same revision goes on to count.
func (x *pass) stableTemplate() string {
	p := x.was()
	if x.Rollout.Status.Phase == rollouts.PhaseProgressing && p.StableRevision == x.w.StableRevision && p.StableTemplate != "" {
		return p.StableTemplate
	}
	return x.w.StableTemplate
}

// atEdited reports whether the live template is the one that somebody has written there.
func (x *pass) atEdited() bool { return x.w.Held && x.w.AtStable && x.edited() }

func (x *pass) stallStableEdited() {
	x.stall(rollouts.StalledStableEdited, fmt.Sprintf(
		"the template in the %s of the stable revision %s is not the one that it had when the release began, so that it is not restored; %s",
		x.w.RevisionKind, x.progress().StableRevision, x.wayOut()))
}
