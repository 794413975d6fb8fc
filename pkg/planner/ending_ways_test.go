// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/verb"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// revert restores the stable template and removes the release name, and checks the invariant
// "reversible". It also ends releases that cannot be aborted.
func (e *releaseEnd) revert() {
	tag := e.earlierImage()
	d := e.workload()
	if p := e.rollout(); tag != "" && e.hasNoSet(p.Status.Active().StableRevision) && p.Status.Active().StableTemplate == "" {
		return // the set was deleted before the release began, so the template is unknown
	}
	if tag == "" || d == nil || !workload.HasReleaseMark(d) {
		return
	}
	if e.isSetAside(d) && (!e.settle() || e.workload() == nil || e.isSetAside(e.workload())) {
		return // the workload would not change, so the controller could not observe the request
	}
	e.updateWorkload(app0, func(o object.Object) {
		setImage(tag)(o)
		o.SetLabels(withoutKey(o.GetLabels(), rollouts.LabelRolloutID)) // a new name would request another release
	})
	if !e.settle() {
		return
	}
	if hasBrokenImage(*templateOf(e.workload())) {
		return // pods of this image never become ready
	}
	e.checkAllPodsRun("reversible", tag)
	e.checkHealthy("reversible")
	e.checkNoTraces()
}

// abort returns all pods and requests to stable. The workload stays held.
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
		if tag != "failed" { // pods of the image "failed" never become ready
			e.checkAllPodsRun("reversible", tag)
		}
		if o := e.workload(); !nativeOf(o).hasOwnerStrategy(o, e.check.owner) {
			e.check.violate("reversible", "aborted: the workload is %s", nativeOf(o).describeStrategy(o))
		}
	case rollouts.ActivityCompleted: // the template was reverted
	default:
		e.check.violate("reversible", "aborted: the release is %s, %s", a, e.rollout().Status.Message)
		return
	}
	e.checkCommandOutcomes()
	e.revert()
}

// waitsForBlueGreenAbort reports whether another template waits for the abort of a blue-green
// release.
func (e *releaseEnd) waitsForBlueGreenAbort() bool {
	c := e.rollout().Status.Condition(rollouts.ConditionStalled)
	return c != nil && c.Reason == string(rollouts.StalledRefused)
}

// rollback restores the state before the release.
func (e *releaseEnd) rollback() {
	tag, d := e.stableImage(), e.workload()
	if tag == "" || d == nil {
		return
	}
	stable := e.rollout().Status.Active().StableRevision
	said := e.applyVerb(app0, verb.Command{Verb: rollouts.VerbRollback, User: "end"})
	if !e.settle() || said != "accepted" || e.workload() == nil || tag == "failed" || e.hasNoSet(stable) {
		return // the native controller kept no history, so no template can be restored
	}
	e.checkAllPodsRun("reversible", tag)
	e.checkHealthy("reversible")
	e.checkNoTraces()
}

// retry releases an aborted version again.
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
	e.checkHealthy("reversible")
	e.checkNoTraces()
}

// release releases the newest template completely.
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
		return // no set is left to start from
	}
	e.resume()
	if !e.settle() {
		return
	}
	s := e.rollout().Status
	resumed := s.Activity() == rollouts.ActivityCancelling && e.hasNoSet(s.Active().StableRevision)
	if resumed || s.Phase == rollouts.PhaseInitial || s.Phase == rollouts.PhaseHealthy && s.Active().UpdateRevision == "" {
		// The native controller gets stuck if a rolling update is scaled down to the size of one
		// set. Another size unblocks the controller.
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
		e.applyVerb(app0, verb.Command{Verb: rollouts.VerbAbort, User: "end"}) // the abort lets the next release begin
		if !e.settle() || e.hasNoSet(stable) || e.check.isStableBroken() {
			return // the native controller kept no history, so nothing can be restored
		}
	}
	if e.check.isStableBroken() && e.rollout().Spec.Strategy.BlueGreen != nil {
		return // a blue-green release waits for a complete stable revision, so that no requests are lost
	}
	promote := verb.Command{Verb: rollouts.VerbPromote, User: "end", Full: true}
	if e.applyVerb(app0, promote) != "accepted" {
		promote.Override = true // a failed check holds the release until a user overrides it
		e.applyVerb(app0, promote)
	}
	if !e.settle() {
		return
	}
	e.checkAllPodsRun("quiet", tagOf(templateOf(e.workload())))
	e.checkHealthy("quiet")
	e.checkNoTraces()
}

// isAbortingToBrokenVersion reports whether a release is being aborted to a version whose pods
// cannot become ready.
func (e *releaseEnd) isAbortingToBrokenVersion() bool {
	r := e.rollout()
	if e.onlyExtraServes() {
		return true // pods of the workload's template cannot replace the canary pods
	}
	if r == nil || r.Status.Active() == nil || r.Status.Activity() != rollouts.ActivityAborting {
		return false
	}
	return e.check.images[r.Status.Active().StableRevision] == "failed"
}

// hasOnlyExtraPods reports whether an aborted release without a stable set has only pods of the
// canary Deployment. These pods serve alone until the workload is resumed.
func (e *releaseEnd) hasOnlyExtraPods() bool {
	r := e.rollout()
	if r == nil || r.Status.Active() == nil || r.Spec.Strategy.Canary == nil || !r.Spec.Strategy.Canary.ExtraWorkload {
		return false
	}
	a := r.Status.Activity()
	return (a == rollouts.ActivityAborting || a == rollouts.ActivityAborted) && e.hasNoSet(r.Status.Active().StableRevision)
}

// resumeStranded resumes the workload, and reports whether its pods can become ready.
func (e *releaseEnd) resumeStranded() bool {
	if o := e.workload(); o == nil || hasBrokenImage(*templateOf(o)) {
		return false
	}
	e.resume()
	return e.settle()
}

// delete deletes the Rollout, and disable disables it. Both release the workload.
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
	if e.world.refused != "" { // the server refuses because checks have not passed
		e.editRollout(app0, func(s *rollouts.RolloutSpec) { s.Strategy.Paused = false })
		e.applyVerb(app0, verb.Command{Verb: rollouts.VerbResume, User: "end"})
		if said := e.applyVerb(app0, verb.Command{Verb: rollouts.VerbPromote, User: "end", Full: true, Override: true}); said != "accepted" {
			return // a blue-green release refuses another template
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
