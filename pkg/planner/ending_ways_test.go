// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/verb"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// revert puts the stable template back, and takes the name off: the invariant "reversible".
// That is the way out, too, where nobody can go back.
func (e *releaseEnd) revert() {
	tag := e.earlier()
	d := e.workload()
	if p := e.rollout(); tag != "" && e.lost(p.Status.Active().StableRevision) && p.Status.Active().StableTemplate == "" {
		return // lost before the release began, so that nobody knows its template
	}
	if tag == "" || d == nil || !workload.HasReleaseMark(d) {
		return
	}
	if e.aside(d) && (!e.settle() || e.workload() == nil || e.aside(e.workload())) {
		return // nothing would change on the workload, so that nobody could see the wish
	}
	e.change(app0, func(o object.Object) {
		setImage(tag)(o)
		o.SetLabels(without(o.GetLabels(), rollouts.LabelRolloutID)) // a name would be a wish of its own
	})
	if !e.settle() {
		return
	}
	if bad(*templateOf(e.workload())) {
		return // it never served, and never will
	}
	e.runs("reversible", tag)
	e.healthy("reversible")
	e.traceless()
}

// abort brings everything back to stable and keeps the workload held.
func (e *releaseEnd) abort() {
	tag, d := e.stable(), e.workload()
	if tag == "" || d == nil || e.refused() {
		return
	}
	said := e.decide(app0, verb.Command{Verb: rollouts.VerbAbort, User: "end"})
	if !e.settle() || said != "accepted" || e.workload() == nil {
		return
	}
	switch a := e.rollout().Status.Activity(); a {
	case rollouts.ActivityAborting:
		if tag != "failed" {
			e.check.violate("reversible", "aborted: the release is still %s, %s", a, e.rollout().Status.Message)
		}
		return
	case rollouts.ActivityAborted:
		if tag != "failed" { // else it never served, and never will
			e.runs("reversible", tag)
		}
		if o := e.workload(); !nativeOf(o).rested(o, e.check.owner) {
			e.check.violate("reversible", "aborted: the workload is %s", nativeOf(o).governed(o))
		}
	case rollouts.ActivityCompleted: // the template was put back
	default:
		e.check.violate("reversible", "aborted: the release is %s, %s", a, e.rollout().Status.Message)
		return
	}
	e.commands()
	e.revert()
}

// refused reports whether another template waits for the abort of a blue-green release.
func (e *releaseEnd) refused() bool {
	c := e.rollout().Status.Condition(rollouts.ConditionStalled)
	return c != nil && c.Reason == string(rollouts.StalledRefused)
}

// rollback has everything back as it was before the release.
func (e *releaseEnd) rollback() {
	tag, d := e.stable(), e.workload()
	if tag == "" || d == nil {
		return
	}
	stable := e.rollout().Status.Active().StableRevision
	said := e.decide(app0, verb.Command{Verb: rollouts.VerbRollback, User: "end"})
	if !e.settle() || said != "accepted" || e.workload() == nil || tag == "failed" || e.lost(stable) {
		return // where the native controller kept no history, nothing is left to set
	}
	e.runs("reversible", tag)
	e.healthy("reversible")
	e.traceless()
}

// retry releases what was aborted after all.
func (e *releaseEnd) retry() {
	d := e.workload()
	if e.stable() == "" || d == nil || e.wanted(d) == "failed" || e.check.stableFails() || e.hopeless() || e.rollout().Status.Active().RollingBack ||
		e.rollout().Status.Active().UpdateRevision != e.asked(d) {
		return
	}
	tag := e.wanted(d)
	e.decide(app0, verb.Command{Verb: rollouts.VerbAbort, User: "end"})
	e.round()
	said := e.decide(app0, verb.Command{Verb: rollouts.VerbRetry, User: "end"})
	e.serve()
	if !e.settle() || said != "accepted" {
		return
	}
	e.decide(app0, verb.Command{Verb: rollouts.VerbPromote, User: "end", Full: true, Override: true})
	if !e.settle() {
		return
	}
	e.runs("reversible", tag)
	e.healthy("reversible")
	e.traceless()
}

// release takes the newest template to the end.
func (e *releaseEnd) release() {
	r, d := e.rollout(), e.workload()
	if r == nil || r.DeletionTimestamp != nil || d == nil || e.hopeless() {
		return
	}
	e.serve()
	if bad(*templateOf(d)) {
		e.change(app0, setImage("v8"))
	}
	if !e.settle() || e.check.lost && e.check.allSizes() == 0 {
		return // no set is left to begin from
	}
	e.resume()
	if !e.settle() {
		return
	}
	s := e.rollout().Status
	resumed := s.Activity() == rollouts.ActivityCancelling && e.lost(s.Active().StableRevision)
	if resumed || s.Phase == rollouts.PhaseInitial || s.Phase == rollouts.PhaseHealthy && s.Active().UpdateRevision == "" {
		// The native controller wedges itself when a rolling update is scaled
		// down to where one set has just that size; another size wakes it.
		e.resize(app0, replicasOf(d)+1)
		if !e.settle() {
			return
		}
	}
	if a := e.rollout().Status.Activity(); a == rollouts.ActivityAborted || a == rollouts.ActivityAborting {
		e.change(app0, setImage("v9"))
		if !e.settle() {
			return
		}
	}
	if e.refused() {
		stable := e.rollout().Status.Active().StableRevision
		e.decide(app0, verb.Command{Verb: rollouts.VerbAbort, User: "end"}) // which makes room for it
		if !e.settle() || e.lost(stable) || e.check.stableFails() {
			return // where the native controller kept no history, nothing is left to go back to
		}
	}
	if e.check.stableFails() && e.rollout().Spec.Strategy.BlueGreen != nil {
		return // it waits for a whole stable revision, lest requests are lost
	}
	promote := verb.Command{Verb: rollouts.VerbPromote, User: "end", Full: true}
	if e.decide(app0, promote) != "accepted" {
		promote.Override = true // a check has failed, which holds the release until somebody decides
		e.decide(app0, promote)
	}
	if !e.settle() {
		return
	}
	e.runs("quiet", tagOf(templateOf(e.workload())))
	e.healthy("quiet")
	e.traceless()
}

// hopeless reports whether a release is being aborted to a version that cannot run.
func (e *releaseEnd) hopeless() bool {
	r := e.rollout()
	if e.onlyExtraServes() {
		return true // pods of the template that is given back never serve in their place
	}
	if r == nil || r.Status.Active() == nil || r.Status.Activity() != rollouts.ActivityAborting {
		return false
	}
	return e.check.images[r.Status.Active().StableRevision] == "failed"
}

// stranded reports whether an aborted release has nothing but pods beside the workload: with
// the stable set gone they alone serve, and stay until the workload is resumed.
func (e *releaseEnd) stranded() bool {
	r := e.rollout()
	if r == nil || r.Status.Active() == nil || r.Spec.Strategy.Canary == nil || !r.Spec.Strategy.Canary.ExtraWorkload {
		return false
	}
	a := r.Status.Activity()
	return (a == rollouts.ActivityAborting || a == rollouts.ActivityAborted) && e.lost(r.Status.Active().StableRevision)
}

// rescue resumes it, and reports whether its pods can serve.
func (e *releaseEnd) rescue() bool {
	if o := e.workload(); o == nil || bad(*templateOf(o)) {
		return false
	}
	e.resume()
	return e.settle()
}

// delete and disable give everything back.
func (e *releaseEnd) delete() {
	if e.hopeless() {
		return
	}
	stranded := e.stranded()
	if !e.remove(kindRollout, app0) || !e.settle() || stranded && !e.rescue() {
		return
	}
	if e.rollout() != nil {
		e.check.violate("quiet", "deleted: the rollout is still there, %s", e.rollout().Status.Message)
		return
	}
	e.traceless()
}

func (e *releaseEnd) disable() {
	if e.hopeless() {
		return
	}
	stranded, off := e.stranded(), func(s *rollouts.RolloutSpec) { s.Disabled = true }
	if !e.edit(app0, off) {
		return
	}
	if e.world.refused != "" { // checks have not passed
		e.edit(app0, func(s *rollouts.RolloutSpec) { s.Strategy.Paused = false })
		e.decide(app0, verb.Command{Verb: rollouts.VerbResume, User: "end"})
		if said := e.decide(app0, verb.Command{Verb: rollouts.VerbPromote, User: "end", Full: true, Override: true}); said != "accepted" {
			return // blue-green refuses another template
		}
		if e.edit(app0, off); e.world.refused != "" {
			e.check.violate("quiet", "disabled: %s", e.world.refused)
		}
	}
	if !e.settle() || stranded && !e.rescue() {
		return
	}
	if e.workload() == nil {
		return
	}
	if phase := e.rollout().Status.Phase; phase != rollouts.PhaseDisabled {
		e.check.violate("quiet", "disabled: the rollout is %s", phase)
		return
	}
	e.commands()
	e.traceless()
}
