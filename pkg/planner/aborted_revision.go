// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The server accepts an abort or a rollback by the status alone. Another template may be set at this time
// that the status does not show yet. The first pass that observes the abort therefore records the template
// that the abort ends.

// recordAbortedRevision records the revision that an abort or a rollback ends: the revision of the template
// that the workload has when a pass first observes the abort. The user wanted no other template to be
// released, and may not have known this one. A template that was refused before the abort is not ended by
// the abort, because it waits for the end of the release that is aborted.
func recordAbortedRevision(d *draft) {
	p := d.status.Active()
	if p == nil || d.w == nil || !d.isAbortingOrAborted() || p.AbortedRevision != "" {
		return
	}
	p.AbortedRevision, p.AbortedTemplate = d.w.UpdateRevision, d.w.UpdateTemplate
	if d.w.HasStableTemplate || d.hasReleasedTemplate() || d.isStalledFor(rollouts.StalledRefused) {
		p.AbortedRevision, p.AbortedTemplate = p.UpdateRevision, p.UpdateTemplate
	}
}

// LacksAbortedRevision reports whether no pass has recorded yet which revision an abort or a rollback ends.
// The pass that records the revision must read a workload that is not older than the abort.
func LacksAbortedRevision(r *rollouts.Rollout) bool {
	p, a := r.Status.Active(), r.Status.Activity()
	return p != nil && p.AbortedRevision == "" && (a == rollouts.ActivityAborting || a == rollouts.ActivityAborted)
}

// ForgetAbortedRevision clears the revision that an abort or a rollback ends, so that the next pass records
// the revision of the template that the workload then has. Scenario: v2 is aborted, v3 is set, and a second
// abort ends v3. The second abort also ends a template that the blue-green style refused before the first
// abort.
func ForgetAbortedRevision(next *rollouts.RolloutStatus) {
	p := next.Active()
	p.AbortedRevision, p.AbortedTemplate = "", ""
	if c := next.Condition(rollouts.ConditionStalled); c != nil && c.Reason == string(rollouts.StalledRefused) {
		next.RemoveCondition(rollouts.ConditionStalled)
	}
}

// IsRestoringAborted reports whether a Rollout that is disabled or deleted has begun to restore the workload of
// an aborted release. From then on, no verb has an effect on the release.
func IsRestoringAborted(r *rollouts.Rollout) bool {
	return StateOf(r) == StateLeavingAborted && r.Status.Phase != rollouts.PhaseProgressing && !isBefore(disableTeardown, r.Status.Active())
}

// abortTargetsTemplate reports whether an abort or a rollback also ends the template that supersedes the
// aborted release.
func abortTargetsTemplate(f facts) bool {
	p := f.progress()
	return f.isAbortingOrAborted() && superseded(f) && f.w.HasTemplateOf(Revision{p.AbortedRevision, p.AbortedTemplate})
}

// carryAbortOver closes the aborted release and starts an aborted release of the template that supersedes
// it, so that the abort or the rollback also ends that template. No pod of the template was created.
func carryAbortOver(d *draft) {
	aborted := *d.progress()
	closeRecord(d, rollouts.ReleaseAborted)
	initProgress(d)
	p := d.progress()
	p.RollingBack, p.AbortedRevision, p.AbortedTemplate = aborted.RollingBack, aborted.AbortedRevision, aborted.AbortedTemplate
	p.StableRevision = cmp.Or(p.StableRevision, aborted.StableRevision)
	d.setActivity(rollouts.ActivityAborting, AbortingMessage)
}
