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
	tag := e.earlierImage()
	d := e.workload()
	if p := e.rollout(); tag != "" && e.hasNoSet(p.Status.Active().StableRevision) && p.Status.Active().StableTemplate == "" {
		return // lost before the release began, so that nobody knows its template
	}
	if tag == "" || d == nil || !workload.HasReleaseMark(d) {
		return
	}
	if e.aside(d) && (!e.settle() || e.workload() == nil || e.aside(e.workload())) {
		return // nothing would change on the workload, so that nobody could see the wish
	}
	e.updateWorkload(app0, func(o object.Object) {
		setImage(tag)(o)
		o.SetLabels(withoutKey(o.GetLabels(), rollouts.LabelRolloutID)) // a name would be a wish of its own
	})
	if !e.settle() {
		return
	}
	if hasBrokenImage(*templateOf(e.workload())) {
		return // it never served, and never will
	}
	e.checkAllPodsRun("reversible", tag)
	e.healthy("reversible")
	e.checkNoTraces()
}

// abort brings everything back to stable and keeps the workload held.
func (e *releaseEnd) abort() {
	tag, d := e.stableImage(), e.workload()
	if tag == "" || d == nil || e.waitsForBlueGreenAbort() {
		return
	}
	said := e.applyVerb(app0, verb.Command{Verb: rollouts.VerbAbort, User: "end"})
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
			e.checkAllPodsRun("reversible", tag)
		}
		if o := e.workload(); !nativeOf(o).rested(o, e.check.owner) {
			e.check.violate("reversible", "aborted: the workload is %s", nativeOf(o).governed(o))
		}
	case rollouts.ActivityCompleted: // the template was put back
	default:
		e.check.violate("reversible", "aborted: the release is %s, %s", a, e.rollout().Status.Message)
		return
	}
	e.checkCommandOutcomes()
	e.revert()
}

// waitsForBlueGreenAbort reports whether another template waits for the abort of a blue-green release.
func (e *releaseEnd) waitsForBlueGreenAbort() bool {
	c := e.rollout().Status.Condition(rollouts.ConditionStalled)
	return c != nil && c.Reason == string(rollouts.StalledRefused)
}

// rollback has everything back as it was before the release.
func (e *releaseEnd) rollback() {
	tag, d := e.stableImage(), e.workload()
	if tag == "" || d == nil {
		return
	}
	stable := e.rollout().Status.Active().StableRevision
	said := e.applyVerb(app0, verb.Command{Verb: rollouts.VerbRollback, User: "end"})
	if !e.settle() || said != "accepted" || e.workload() == nil || tag == "failed" || e.hasNoSet(stable) {
		return // where the native controller kept no history, nothing is left to set
	}
	e.checkAllPodsRun("reversible", tag)
	e.healthy("reversible")
	e.checkNoTraces()
}

// retry releases what was aborted after all.
func (e *releaseEnd) retry() {
	d := e.workload()
	if e.stableImage() == "" || d == nil || e.wantedImage(d) == "failed" || e.check.isStableBroken() || e.isAbortingToBrokenVersion() || e.rollout().Status.Active().RollingBack ||
		e.rollout().Status.Active().UpdateRevision != e.wantedRevision(d) {
		return
	}
	tag := e.wantedImage(d)
	e.applyVerb(app0, verb.Command{Verb: rollouts.VerbAbort, User: "end"})
	e.round()
	said := e.applyVerb(app0, verb.Command{Verb: rollouts.VerbRetry, User: "end"})
	e.unblockRelease()
	if !e.settle() || said != "accepted" {
		return
	}
	e.applyVerb(app0, verb.Command{Verb: rollouts.VerbPromote, User: "end", Full: true, Override: true})
	if !e.settle() {
		return
	}
	e.checkAllPodsRun("reversible", tag)
	e.healthy("reversible")
	e.checkNoTraces()
}

// release takes the newest template to the end.
func (e *releaseEnd) release() {
	r, d := e.rollout(), e.workload()
	if r == nil || r.DeletionTimestamp != nil || d == nil || e.isAbortingToBrokenVersion() {
		return
	}
	e.unblockRelease()
	if hasBrokenImage(*templateOf(d)) {
		e.updateWorkload(app0, setImage("v8"))
	}
	if !e.settle() || e.check.excusesLostStable && e.check.sumSetSizes() == 0 {
		return // no set is left to begin from
	}
	e.resume()
	if !e.settle() {
		return
	}
	s := e.rollout().Status
	resumed := s.Activity() == rollouts.ActivityCancelling && e.hasNoSet(s.Active().StableRevision)
	if resumed || s.Phase == rollouts.PhaseInitial || s.Phase == rollouts.PhaseHealthy && s.Active().UpdateRevision == "" {
		// The native controller wedges itself when a rolling update is scaled
		// down to where one set has just that size; another size wakes it.
		e.scaleWorkload(app0, replicasOf(d)+1)
		if !e.settle() {
			return
		}
	}
	if a := e.rollout().Status.Activity(); a == rollouts.ActivityAborted || a == rollouts.ActivityAborting {
		e.updateWorkload(app0, setImage("v9"))
		if !e.settle() {
			return
		}
	}
	if e.waitsForBlueGreenAbort() {
		stable := e.rollout().Status.Active().StableRevision
		e.applyVerb(app0, verb.Command{Verb: rollouts.VerbAbort, User: "end"}) // which makes room for it
		if !e.settle() || e.hasNoSet(stable) || e.check.isStableBroken() {
			return // where the native controller kept no history, nothing is left to go back to
		}
	}
	if e.check.isStableBroken() && e.rollout().Spec.Strategy.BlueGreen != nil {
		return // it waits for a whole stable revision, lest requests are lost
	}
	promote := verb.Command{Verb: rollouts.VerbPromote, User: "end", Full: true}
	if e.applyVerb(app0, promote) != "accepted" {
		promote.Override = true // a check has failed, which holds the release until somebody decides
		e.applyVerb(app0, promote)
	}
	if !e.settle() {
		return
	}
	e.checkAllPodsRun("quiet", tagOf(templateOf(e.workload())))
	e.healthy("quiet")
	e.checkNoTraces()
}

// isAbortingToBrokenVersion reports whether a release is being aborted to a version that cannot run.
func (e *releaseEnd) isAbortingToBrokenVersion() bool {
	r := e.rollout()
	if e.onlyExtraServes() {
		return true // pods of the template that is given back never serve in their place
	}
	if r == nil || r.Status.Active() == nil || r.Status.Activity() != rollouts.ActivityAborting {
		return false
	}
	return e.check.images[r.Status.Active().StableRevision] == "failed"
}

// hasOnlyExtraPods reports whether an aborted release has nothing but pods beside the workload: with
// the stable set gone they alone serve, and stay until the workload is resumed.
func (e *releaseEnd) hasOnlyExtraPods() bool {
	r := e.rollout()
	if r == nil || r.Status.Active() == nil || r.Spec.Strategy.Canary == nil || !r.Spec.Strategy.Canary.ExtraWorkload {
		return false
	}
	a := r.Status.Activity()
	return (a == rollouts.ActivityAborting || a == rollouts.ActivityAborted) && e.hasNoSet(r.Status.Active().StableRevision)
}

// resumeStranded resumes it, and reports whether its pods can serve.
func (e *releaseEnd) resumeStranded() bool {
	if o := e.workload(); o == nil || hasBrokenImage(*templateOf(o)) {
		return false
	}
	e.resume()
	return e.settle()
}

// delete and disable give everything back.
func (e *releaseEnd) delete() {
	if e.isAbortingToBrokenVersion() {
		return
	}
	stranded := e.hasOnlyExtraPods()
	if !e.deleteObject(kindRollout, app0) || !e.settle() || stranded && !e.resumeStranded() {
		return
	}
	if e.rollout() != nil {
		e.check.violate("quiet", "deleted: the rollout is still there, %s", e.rollout().Status.Message)
		return
	}
	e.checkNoTraces()
}

func (e *releaseEnd) disable() {
	if e.isAbortingToBrokenVersion() {
		return
	}
	stranded, off := e.hasOnlyExtraPods(), func(s *rollouts.RolloutSpec) { s.Disabled = true }
	if !e.editRollout(app0, off) {
		return
	}
	if e.world.refused != "" { // checks have not passed
		e.editRollout(app0, func(s *rollouts.RolloutSpec) { s.Strategy.Paused = false })
		e.applyVerb(app0, verb.Command{Verb: rollouts.VerbResume, User: "end"})
		if said := e.applyVerb(app0, verb.Command{Verb: rollouts.VerbPromote, User: "end", Full: true, Override: true}); said != "accepted" {
			return // blue-green refuses another template
		}
		if e.editRollout(app0, off); e.world.refused != "" {
			e.check.violate("quiet", "disabled: %s", e.world.refused)
		}
	}
	if !e.settle() || stranded && !e.resumeStranded() {
		return
	}
	if e.workload() == nil {
		return
	}
	if phase := e.rollout().Status.Phase; phase != rollouts.PhaseDisabled {
		e.check.violate("quiet", "disabled: the rollout is %s", phase)
		return
	}
	e.checkCommandOutcomes()
	e.checkNoTraces()
}
