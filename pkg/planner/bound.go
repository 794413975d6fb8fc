// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// What an abort, or a rollback, is about. The server decides by the status alone, and
// another template may be set by then which that does not show.

// recordAbortedRevision notes which revision an abort, or a rollback, ends: that of the template
// that is set when it is first seen. Its author wanted no other to be released, and
// may not have known of this one. One that was refused before waits for the abort.
func recordAbortedRevision(d *draft) {
	p := d.status.Active()
	if p == nil || d.w == nil || !d.isAborted() || p.AbortedRevision != "" {
		return
	}
	if p.AbortedRevision, p.AbortedTemplate = d.w.UpdateRevision, d.w.UpdateTemplate; d.w.HasStableTemplate || d.hasReleasedTemplate() || d.isStalledFor(rollouts.StalledRefused) {
		p.AbortedRevision, p.AbortedTemplate = p.UpdateRevision, p.UpdateTemplate
	}
}

// LacksAbortedRevision reports whether an abort, or a rollback, is not bound to a template yet. The
// workload that it is bound by must be no older than the verb.
func LacksAbortedRevision(r *rollouts.Rollout) bool {
	p, a := r.Status.Active(), r.Status.Activity()
	return p != nil && p.AbortedRevision == "" && (a == rollouts.ActivityAborting || a == rollouts.ActivityAborted)
}

// ForgetAbortedRevision has the next pass bind an abort, or a rollback, to the template that is set
// then: v2 is aborted, v3 is set, and a second abort means v3. A template that blue-green
// refused before the first abort is no exception for the second one.
func ForgetAbortedRevision(next *rollouts.RolloutStatus) {
	p := next.Active()
	p.AbortedRevision, p.AbortedTemplate = "", ""
	if c := next.Condition(rollouts.ConditionStalled); c != nil && c.Reason == string(rollouts.StalledRefused) {
		next.RemoveCondition(rollouts.ConditionStalled)
	}
}

// IsRestoringAborted reports whether a Rollout that leaves has begun to give the workload of
// an aborted release back, so that a verb changes nothing about it any more.
func IsRestoringAborted(r *rollouts.Rollout) bool {
	return StateOf(r) == StateLeavingAborted && r.Status.Phase != rollouts.PhaseProgressing && !isBefore(disableTeardown, r.Status.Active())
}

// abortTargetsTemplate reports whether an abort, or a rollback, ends the template that takes over.
func abortTargetsTemplate(f *facts) bool {
	p := f.progress()
	return f.isAborted() && superseded(f) && f.w.HasTemplateOf(Revision{p.AbortedRevision, p.AbortedTemplate})
}

// carryAbortOver has the abort, or the rollback, of a release end the template that has
// taken over, too: none of its pods was made.
func carryAbortOver(d *draft) {
	was := *d.progress()
	closeRecord(d, rollouts.ReleaseAborted)
	initProgress(d)
	p := d.progress()
	p.RollingBack, p.AbortedRevision, p.AbortedTemplate = was.RollingBack, was.AbortedRevision, was.AbortedTemplate
	p.StableRevision = cmp.Or(p.StableRevision, was.StableRevision)
	d.setActivity(rollouts.ActivityAborting, AbortingMessage)
}
