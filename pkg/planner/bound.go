// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// What an abort, or a rollback, is about. The server decides by the status alone, and
// another template may be set by then which that does not show.

// bindAbort notes which revision an abort, or a rollback, ends: that of the template
// that is set when it is first seen. Its author wanted no other to be released, and
// may not have known of this one. One that was refused before waits for the abort.
func bindAbort(d *draft) {
	p := d.status.Active()
	if p == nil || d.w == nil || !d.aborted() || p.AbortedRevision != "" {
		return
	}
	if p.AbortedRevision, p.AbortedTemplate = d.w.UpdateRevision, d.w.UpdateTemplate; d.w.AtStable || d.live() || d.stalledFor(rollouts.StalledRefused) {
		p.AbortedRevision, p.AbortedTemplate = p.UpdateRevision, p.UpdateTemplate
	}
}

// Unbound reports whether an abort, or a rollback, is not bound to a template yet. The
// workload that it is bound by must be no older than the verb.
func Unbound(r *rollouts.Rollout) bool {
	p := r.Status.Active()
	return p != nil && p.AbortedRevision == "" && r.Status.Activity() == rollouts.ActivityAborting
}

// condemned reports whether an abort, or a rollback, ends the template that takes over.
func condemned(f *facts) bool {
	p := f.progress()
	return f.aborted() && superseded(f) && f.w.Is(Revision{p.AbortedRevision, p.AbortedTemplate})
}

// passOn has the abort, or the rollback, of a release end the template that has
// taken over, too: none of its pods was made.
func passOn(d *draft) {
	was := *d.progress()
	closeRecord(d, rollouts.ReleaseAborted)
	begin(d)
	p := d.progress()
	p.RollingBack, p.AbortedRevision, p.AbortedTemplate = was.RollingBack, was.AbortedRevision, was.AbortedTemplate
	p.StableRevision = cmp.Or(p.StableRevision, was.StableRevision)
	d.become(rollouts.ActivityAborting, AbortingMessage)
}
