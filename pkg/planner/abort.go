// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// AbortingMessage is the message of a Rollout while an abort is in progress.
const AbortingMessage = "Rollout is being aborted, and traffic and pods go back to the stable revision"

// AbortRelease changes the next status so that the release goes back to the stable revision. It clears
// everything that the plan and earlier decisions had set.
func AbortRelease(next *rollouts.RolloutStatus, now metav1.Time) {
	p := next.Active()
	p.FinalisingStep, p.FullyPromoted, p.Paused, p.RollingBack, p.AbortedRevision, p.AbortedTemplate = "", false, false, false, "", ""
	p.LastUpdateTime = &now
	RestartDeadline(next)
	next.Message = AbortingMessage
	next.SetActivity(rollouts.ActivityAborting, AbortingMessage, now)
}

// RestartDeadline restarts the progress deadline, because a user has just changed the goal of the release.
func RestartDeadline(next *rollouts.RolloutStatus) {
	p := next.Active()
	p.LastProgressTime, p.ProgressMark = nil, 0
	if c := next.Condition(rollouts.ConditionStalled); c != nil && c.Reason == string(rollouts.StalledDeadline) {
		next.RemoveCondition(rollouts.ConditionStalled)
	}
}

// abort moves an aborted release back to the stable revision. The share of traffic to the update revision
// shrinks only as fast as stable pods become ready. One update pod stays while a router may still send
// requests to the update revision. The workload stays held with its new template; a rollback then sets the
// stable template.
func abort(d *draft) {
	if d.isDoing(rollouts.ActivityAborted) {
		// The user may have set another template and then reverted it.
		d.progress().FinalisingStep = ""
		// A second abort has nothing to end if no other template was set.
		d.setOutcome(rollouts.VerbAbort, rollouts.OutcomeApplied)
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
	// A template that was refused before the abort waits for its end. recordAbortedRevision has recorded that the
	// abort does not end this template, so the condition is not needed any more, and the deadline runs.
	d.unstall(rollouts.StalledStableGone, rollouts.StalledStableEdited, rollouts.StalledRefused)
	if done := moveBackToStable(d); !done {
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

// updateAbortedMessage updates the Stalled condition after an abort has completed. The stable revision
// may have been deleted or edited since then, or restored.
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

// stallAborted sets the Stalled condition of a completed abort, which names the next actions of the user.
// Pods of a deleted ReplicaSet may still run.
func stallAborted(d *draft) {
	podState := "every pod runs the stable revision and"
	if d.w.DeletedPodsRun != "" {
		podState = "the stable revision has all its pods, and " + d.w.DeletedPodsRun + ";"
	}
	message := fmt.Sprintf("Rollout was aborted at step(%d/%d)%s; %s the workload stays held: retry or roll back, or release another template",
		d.progress().CurrentStepIndex, len(d.plan.Steps), AbortedBy(d.Rollout), podState)
	d.setActivity(rollouts.ActivityAborted, message)
	d.stall(rollouts.StalledAborted, message)
}

// repairStableService corrects the selector of the stable Service. If somebody has edited the selector so
// that the Service selects another revision, repairStableService selects the stable revision again. If the
// stable revision has no ready pods but other revisions have, or the workload is scaled to zero, it removes
// the revision from the selector.
func repairStableService(d *draft) {
	switch r, stable := d.route(), d.progress().StableRevision; {
	case r == nil || r.Pinned == "":
	case scaledToZero(d.facts), onlyOtherReady(d.facts):
		d.act(UnpinService{})
	case r.OwnershipConflict == "" && stable != "" && r.Pinned != stable:
		d.act(PinService{Revision: stable})
	}
}

// unpinWithoutReadyStablePods removes the stable revision from the Service's selector if other pods are
// ready and no stable pod is. A release that ends removes the routes to the other pods. Without this
// change, requests would reach no ready pod.
func unpinWithoutReadyStablePods(d *draft) {
	if r := d.route(); r != nil && r.Pinned != "" && onlyOtherReady(d.facts) {
		d.act(UnpinService{})
	}
}

// moveBackToStable moves traffic and then pods back to the stable revision, as far as one pass can. It
// reports whether both are back.
func moveBackToStable(d *draft) (done bool) {
	traffic := remainingTrafficToStable(d.facts)
	applyRemainingTraffic(d, traffic)
	trafficRemains := !traffic.isDone()
	// In the canary and blue-green style, stable has its own pods and would gain nothing from the removal of update
	// pods. So the traffic moves first, unless stable pods of a blue-green release are missing that can only be
	// created as update pods are removed. In the partition style both move together.
	trafficFirst := !d.replacesPods() && !stableWaitsForUpdatePods(d.facts)
	if trafficRemains && trafficFirst {
		if d.isAbortingOrAborted() && traffic.waits && traffic.action == nil && updateShare(d.facts) > 0 {
			d.status.Message = AbortingMessage + ": pods of the stable revision are not ready yet, and requests go to the update revision until they are"
		}
		return false
	}
	pods := remainingPodsToStable(d.facts, trafficRemains)
	d.applyRemaining(pods)
	done = !trafficRemains && pods.isDone()
	if !done && d.isAbortingOrAborted() {
		if setTeardownMessage(d, AbortingMessage); d.status.Message == AbortingMessage {
			d.status.Message += abortWaitReason(d.facts, len(d.actions) > 0, trafficRemains)
		}
	}
	return done
}

// abortWaitReason returns what an abort waits for if the BatchRelease has no message. The text has no
// counts, so that the status is not written for each pod. The text is empty if the abort has just begun.
func abortWaitReason(f facts, hasActions, trafficRemains bool) string {
	switch w := f.w; {
	case hasActions || f.Batch == nil || !f.Batch.Observed:
		return ""
	case trafficRemains:
		return ": requests still go to the update revision"
	case !w.Settled:
		return ": the native controller has not acted on the latest change of the workload yet"
	case w.UpdatedReplicas+w.SupersededReplicas > 0:
		return ": pods of another revision are still there"
	case w.StableReadyReplicas < w.Replicas:
		return ": pods of the stable revision are not ready yet"
	default:
		return ""
	}
}

// stableWaitsForUpdatePods reports whether the stable revision gets all its pods back only when the update
// revision loses pods. In blue-green style, the native controller may be stopped while the user increases
// the size of the workload. It then distributes the additional pods over both revisions.
func stableWaitsForUpdatePods(f facts) bool {
	return f.style == rollouts.StyleBlueGreen && updateShare(f) > 0
}

// stableCannotBeRestored reports whether the stable revision was deleted or edited.
func stableCannotBeRestored(f facts) bool { return stableEdited(f) || f.w.StableRevisionGone }

// stallWithoutStable sets the Stalled condition of an abort whose stable revision was deleted or edited.
// Traffic leaves the update revision as far as the existing stable pods can serve it. No further stable pod
// will come, so the traffic does not wait for one.
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

// setStableTemplate completes a rollback: it sets the stable template in the workload, which cancels the
// release as if the owner of the workload had set the template. It does not overwrite a template that the
// owner has set since the rollback (v2 is rolled back, and v3 is set while pods of v2 are removed). Such a
// template supersedes the release.
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

// remainingTraffic is the work that remains until no request goes to the update revision.
type remainingTraffic struct {
	remainingWork
	// unpinsService reports whether the stable Service selects no ready pod, so that the revision must be
	// removed from its selector.
	unpinsService bool
}

// applyRemainingTraffic adds the actions of the remaining work to the decision.
func applyRemainingTraffic(d *draft, left remainingTraffic) {
	if left.unpinsService {
		d.act(UnpinService{})
	}
	d.applyRemaining(left.remainingWork)
}

// remainingTrafficToStable returns the work that remains until all requests go to the stable revision. While
// too few stable pods are ready, routers send a smaller share of the requests to the update revision.
// After that, the routes are removed.
func remainingTrafficToStable(f facts) remainingTraffic {
	r := f.route()
	if r == nil && !f.Routing.isReferenced() {
		return remainingTraffic{}
	}
	var left remainingTraffic
	if r != nil {
		left.unpinsService = r.Pinned != "" && (onlyUpdateReady(f) || scaledToZero(f))
		revision, share := canaryServiceRevision(f), updateShare(f)
		// A smaller share needs a revision that serves the rest of the requests.
		canReduceShare := r.Routed && r.Weight != nil && (revision != "" || r.Shared)
		if share > 0 && canReduceShare {
			left.remainingWork = remainingShareReduction(r, revision, share)
			return left
		}
	}
	left.remainingWork = remainingTeardown(f, rerouted, rollouts.ReleasePlan{})
	return left
}

// remainingShareReduction returns the work that remains until routers send at most the share of the
// requests to the update revision. It always waits, because the last share is removed by a later pass.
func remainingShareReduction(r *Route, revision string, share int32) remainingWork {
	left := remainingWork{waits: true}
	if share < *r.Weight && r.canChange() || revision != r.Canary {
		share = min(share, *r.Weight)
		left.action = RouteTraffic{Revision: revision, Want: Route{Weight: &share, Matches: r.Matches, Headers: r.Headers}}
	}
	return left
}

// canaryServiceRevision returns the revision that serves the requests which routers send to the update
// revision. If somebody has deleted the canary Service, the result is the revision for which the Service is
// created again. The result is empty if the Service cannot be created again. All requests then go to stable
// pods at once, even if there are too few.
func canaryServiceRevision(f facts) string {
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

// remainingPodsToStable returns the work that remains until all pods run the stable revision. One update pod
// stays while requests may still go to the update revision.
func remainingPodsToStable(f facts, trafficRemains bool) remainingWork {
	if f.Batch == nil && hasOnlyStablePods(f) {
		return remainingWork{}
	}
	var keptUpdatePods int32
	if trafficRemains && (f.w.UpdatedReplicas > 0 || !f.hasReleasedTemplate() && f.w.SupersededReplicas > 0) {
		keptUpdatePods = 1
	}
	revision := f.revision()
	if f.style == rollouts.StyleBlueGreen {
		revision = Revision{} // another template waits until the abort has ended, and does not change its target
	}
	left := remainingBatchAbort(f, abortPlan(f, keptUpdatePods, revision))
	if left.isDone() {
		// The BatchRelease may not have observed changes of its pods since it became ready.
		left.waits = !trafficRemains && (f.w.UpdatedReplicas != 0 || f.w.StableReadyReplicas < f.w.Replicas)
	}
	return left
}

// hasOnlyStablePods reports whether the release never requested a pod of another revision, and the native
// controller creates none either.
func hasOnlyStablePods(f facts) bool {
	w := f.w
	return w.Target == nil && w.OwnerStrategyActive && !w.NewPodsUseTemplate && w.UpdatedReplicas == 0 && w.SupersededReplicas == 0 && w.StableReplicas <= w.Replicas
}
