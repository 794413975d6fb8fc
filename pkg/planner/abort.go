// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// AbortingMessage says that an abort is under way.
const AbortingMessage = "Rollout is being aborted, and traffic and pods go back to the stable revision"

// AbortRelease has the next status go back to stable: nothing of the plan is in force any
// more.
func AbortRelease(next *rollouts.RolloutStatus, now metav1.Time) {
	p := next.Active()
	p.FinalisingStep, p.FullyPromoted, p.Paused, p.RollingBack, p.AbortedRevision, p.AbortedTemplate = "", false, false, false, "", ""
	p.LastUpdateTime = &now
	RestartDeadline(next)
	next.Message = AbortingMessage
	next.SetActivity(rollouts.ActivityAborting, AbortingMessage, now)
}

// RestartDeadline gives what was just asked for all the time there is.
func RestartDeadline(next *rollouts.RolloutStatus) {
	p := next.Active()
	p.LastProgressTime, p.ProgressMark = nil, 0
	if c := next.Condition(rollouts.ConditionStalled); c != nil && c.Reason == string(rollouts.StalledDeadline) {
		next.RemoveCondition(rollouts.ConditionStalled)
	}
}

// abort takes an aborted release back to stable. Traffic goes to stable no
// faster than stable has pods for it, one update pod stays as long as a router
// may still send to it, and the workload stays held with its new template.
func abort(d *draft) {
	if d.isDoing(rollouts.ActivityAborted) {
		d.progress().FinalisingStep = ""                          // no other template is taking over any more
		d.setOutcome(rollouts.VerbAbort, rollouts.OutcomeApplied) // a second abort found no other template
		repairStableService(d)
		updateAbortedMessage(d)
		setStableTemplate(d)
		return
	}
	d.setOutcome(rollouts.VerbAbort, rollouts.OutcomeApplied)
	d.setOutcome(rollouts.VerbPromote, rollouts.OutcomeSuperseded)
	if stableCannotBeRestored(d.facts) {
		stallWithoutStable(d)
		return
	}
	d.unstall(rollouts.StalledStableGone, rollouts.StalledStableEdited)
	if moveBackToStable(d); d.waits {
		return
	}
	p := d.progress()
	p.State, p.FinalisingStep = rollouts.StepPaused, ""
	d.startWait()
	if p.RollingBack {
		d.setActivity(rollouts.ActivityAborted, "Every pod runs the stable revision, and the workload's template is being set to it")
		setStableTemplate(d)
		return
	}
	stallAborted(d)
	d.warn("RolloutAborted", d.status.Message)
}

// updateAbortedMessage says how things stand after an abort: its revision may be lost since.
func updateAbortedMessage(d *draft) {
	switch {
	case stableEdited(d.facts):
		stallStableEdited(d)
	case d.w.StableRevisionGone:
		stallStableGone(d)
	case d.progress().RollingBack:
	case d.isStalledFor(rollouts.StalledAborted, rollouts.StalledStableGone, rollouts.StalledStableEdited):
		stallAborted(d)
	}
}

// stallAborted says where an abort has ended. Of a set that was deleted pods may run on.
func stallAborted(d *draft) {
	runs := "every pod runs the stable revision and"
	if d.w.DeletedPodsRun != "" {
		runs = "the stable revision has all its pods, and " + d.w.DeletedPodsRun + ";"
	}
	message := fmt.Sprintf("Rollout was aborted at step(%d/%d)%s; %s the workload stays held: retry or roll back, or release another template",
		d.progress().CurrentStepIndex, len(d.release.Steps), AbortedBy(d.Rollout), runs)
	d.setActivity(rollouts.ActivityAborted, message)
	d.stall(rollouts.StalledAborted, message)
}

// repairStableService puts a Service right that somebody has select another revision, which
// has no pods. One that selects a stable revision without pods selects all again.
func repairStableService(d *draft) {
	switch r, stable := d.route(), d.progress().StableRevision; {
	case r == nil || r.Pinned == "":
	case scaledToZero(d.facts), onlyOtherReady(d.facts):
		d.act(UnpinService{})
	case r.Barred == "" && stable != "" && r.Pinned != stable:
		d.act(PinService{Revision: stable})
	}
}

// unpinWithoutReadyStablePods removes the Service's selector for stable pods if no stable pod is ready and
// other pods are. A release that ends removes the routes to the other pods, so without this
// requests would reach no ready pod.
func unpinWithoutReadyStablePods(d *draft) {
	if r := d.route(); r != nil && r.Pinned != "" && onlyOtherReady(d.facts) {
		d.act(UnpinService{})
	}
}

// moveBackToStable brings traffic and pods back, and waits until they are.
func moveBackToStable(d *draft) {
	leaving := remainingTrafficToStable(d.facts)
	applyRemainingTraffic(d, leaving)
	routed := !leaving.isDone()
	if d.waits = routed; routed && !d.replacesPods() && !stableWaitsForUpdatePods(d.facts) {
		if d.isAborted() && leaving.waits && leaving.action == nil && updateShare(d.facts) > 0 {
			d.status.Message = AbortingMessage + ": pods of the stable revision are not ready yet, and requests go to the update revision until they are"
		}
		return // nothing is gained by taking pods away before the traffic
	}
	pods := remainingPodsToStable(d.facts, routed)
	d.applyRemaining(pods)
	if d.waits = routed || !pods.isDone(); d.waits && d.isAborted() {
		if setTeardownMessage(d, AbortingMessage); d.status.Message == AbortingMessage {
			d.status.Message += abortWaitReason(d.facts, len(d.actions) > 0, routed)
		}
	}
}

// abortWaitReason says what an abort waits for where the batches say nothing, in words that do not
// change with each pod.
func abortWaitReason(f *facts, acts, routed bool) string {
	switch w := f.w; {
	case acts || f.Batch == nil || !f.Batch.Observed:
		return "" // it has just begun
	case routed:
		return ": requests still go to the update revision"
	case !w.Settled:
		return ": the native controller has not done yet what it was told"
	case w.UpdatedReplicas+w.SupersededReplicas > 0:
		return ": pods of another revision are still there"
	case w.StableReadyReplicas < w.Replicas:
		return ": pods of the stable revision are not ready yet"
	default:
		return ""
	}
}

// stableWaitsForUpdatePods reports whether stable cannot take all requests before it gets pods
// that the update revision has: stopped in this style, the native controller
// spreads what a larger size adds over both.
func stableWaitsForUpdatePods(f *facts) bool {
	return f.style == rollouts.StyleBlueGreen && updateShare(f) > 0
}

// stableCannotBeRestored reports whether there is no stable revision to go back to.
func stableCannotBeRestored(f *facts) bool { return stableEdited(f) || f.w.StableRevisionGone }

// stallWithoutStable says so. Requests leave the update revision as far as stable pods
// can serve them: no pod comes back, and they need not wait for one.
func stallWithoutStable(d *draft) {
	if stableEdited(d.facts) || d.w.AbortSetsTemplate && d.w.StableReadyReplicas > 0 {
		applyRemainingTraffic(d, remainingTrafficToStable(d.facts))
	}
	if stableEdited(d.facts) {
		stallStableEdited(d)
		return
	}
	repairStableService(d)
	restoreCanaryService(d)
	stallStableGone(d)
}

// setStableTemplate ends a rollback: the workload's template becomes stable's, which
// cancels the release as if its owner had set it. A template that the owner has set since
// the rollback (v2 is rolled back, v3 is set while its pods go) is not overwritten: it
// supersedes the release.
func setStableTemplate(d *draft) {
	p := d.progress()
	switch {
	case !p.RollingBack || !d.w.Held:
	case superseded(d.facts) && !d.w.HasTemplateOf(Revision{p.AbortedRevision, p.AbortedTemplate}):
	case stableEdited(d.facts):
		stallStableEdited(d)
	case d.w.HasStableTemplate:
	case d.w.StableRevisionGone, d.w.StableRevision == "":
		stallStableGone(d)
	default:
		d.act(SetStableTemplate{})
	}
}

// remainingTraffic is what is left to do until no request goes to the update revision.
type remainingTraffic struct {
	remainingWork
	// unpinsService reports whether the Service would select no pod.
	unpinsService bool
}

// applyRemainingTraffic does that.
func applyRemainingTraffic(d *draft, l remainingTraffic) {
	if l.unpinsService {
		d.act(UnpinService{})
	}
	d.applyRemaining(l.remainingWork)
}

// remainingTrafficToStable moves traffic to stable.
func remainingTrafficToStable(f *facts) remainingTraffic {
	r := f.route()
	if r == nil && !f.Routing.isReferenced() {
		return remainingTraffic{}
	}
	if r == nil {
		return remainingTraffic{remainingWork: remainingTeardown(f, rerouted, rollouts.ReleasePlan{})}
	}
	l := remainingTraffic{unpinsService: r.Pinned != "" && (onlyUpdateReady(f) || scaledToZero(f))}
	if to, share := canaryServiceRevision(f), updateShare(f); share > 0 && r.canLowerShare(to) {
		l.remainingWork = remainingShareReduction(r, to, share)
	} else {
		l.remainingWork = remainingTeardown(f, rerouted, rollouts.ReleasePlan{})
	}
	return l
}

// canLowerShare reports whether routers send a share of the requests that can be made smaller:
// a revision serves what is left of it.
func (r *Route) canLowerShare(to string) bool {
	return r.Routed && r.Weight != nil && (to != "" || r.Shared)
}

// remainingShareReduction leaves the update revision a share of the requests at most.
func remainingShareReduction(r *Route, to string, share int32) remainingWork {
	left := remainingWork{waits: true}
	if share < *r.Weight && r.canChange() || to != r.Canary {
		share = min(share, *r.Weight)
		left.action = RouteTraffic{Revision: to, Want: Route{Weight: &share, Matches: r.Matches, Headers: r.Headers}}
	}
	return left
}

// canaryServiceRevision is the revision that serves what routers send to the update revision. Its
// Service is made again where somebody has deleted it; where that cannot be, every
// request is better off with stable, however few pods that has.
func canaryServiceRevision(f *facts) string {
	r, p := f.route(), f.progress()
	switch {
	case r.Canary != "":
		return r.Canary
	case r.Shared || !r.canChange() || f.w.UpdatedReadyReplicas == 0:
		return ""
	case f.hasReleasedTemplate():
		return cmp.Or(f.w.PodTemplateHash, p.PodTemplateHash)
	default:
		return p.PodTemplateHash
	}
}

// remainingPodsToStable wants the pods back on stable, but for one while requests may still go to it.
// The batch may not have seen yet what became of its pods since it was ready.
func remainingPodsToStable(f *facts, routed bool) remainingWork {
	if f.Batch == nil && hasOnlyStablePods(f) {
		return remainingWork{}
	}
	var keep int32
	if routed && (f.w.UpdatedReplicas > 0 || !f.hasReleasedTemplate() && f.w.SupersededReplicas > 0) {
		keep = 1
	}
	left := remainingBatchAbort(f, abortPlan(f, keep, abortedRevision(f)))
	if left.isDone() {
		left.waits = !routed && (f.w.UpdatedReplicas != 0 || f.w.StableReadyReplicas < f.w.Replicas)
	}
	return left
}

// abortedRevision is the revision that an abort is meant for.
func abortedRevision(f *facts) Revision {
	if f.style == rollouts.StyleBlueGreen {
		return Revision{} // a template that was refused during the abort does not change the target of the abort
	}
	return f.revision()
}

// hasOnlyStablePods reports whether no pod of another revision was ever asked for, nor comes unasked.
func hasOnlyStablePods(f *facts) bool {
	w := f.w
	return w.Target == nil && w.OwnerStrategyActive && !w.NewPodsUseTemplate && w.UpdatedReplicas == 0 && w.SupersededReplicas == 0 && w.StableReplicas <= w.Replicas
}
