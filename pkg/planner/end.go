// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// How releases end: completed, cancelled or aborted.

// end runs the teardown of a completed or cancelled release.
func (x *pass) end() {
	rows, outcome, ended := teardowns[x.style].succeeded, metav1.ConditionTrue, rollouts.ReleaseSucceeded
	message, reason := "Rollout progressing has been completed", "RolloutSucceeded"
	if x.doing(rollouts.ActivityCancelling) {
		rows, outcome, ended = teardowns[x.style].cancelled, metav1.ConditionFalse, rollouts.ReleaseCancelled
		message, reason = "Rollout progressing has been canceled", ""
		if x.w.StableGone {
			x.keepStable() // its template was set again, and it has no pods yet
		}
	}
	revision := x.revision()
	if !x.w.Held && !x.live() {
		revision = "" // it was given back, and its template changed unheld
	}
	if !x.run(rows, x.lastPlan(rollouts.WaitResume, revision, false)) {
		x.because(closing[x.activity()])
		return
	}
	x.settleAll()
	x.closeRecord(ended)
	x.status.RemoveCondition(rollouts.ConditionBypassed)
	x.become(rollouts.ActivityCompleted, message)
	x.status.SetCondition(rollouts.Condition{Type: rollouts.ConditionSucceeded, Status: outcome}, x.now())
	x.status.Phase = rollouts.PhaseHealthy
	p := x.progress()
	if ended == rollouts.ReleaseCancelled {
		p.PodTemplateHash = x.w.LiveRevision // what serves, of which the next release starts
		p.ObservedRolloutID = x.rolloutID()  // the name that came with the stable template is no wish for another release
	}
	p.ObservedWorkloadGeneration = x.w.Generation
	p.State, p.NextStepIndex = rollouts.StepCompleted, -1
	x.stamp()
	if reason != "" {
		x.announce(reason, fmt.Sprintf("revision %s is released", p.UpdateRevision))
	}
}

// What is said of an end that takes a while.
const aborting = "Rollout is being aborted, and traffic and pods go back to the stable revision"

var closing = map[rollouts.Activity]string{
	rollouts.ActivityFinalising: "Rollout has been completed and some closing work is being done",
	rollouts.ActivityCancelling: "The workload has been rolled back and the rollout process will be canceled",
}

// because says what an end waits for, if the batches know, or without them the workload.
func (x *pass) because(message string) {
	why := ""
	if x.Batch != nil {
		why = x.Batch.Message
	} else if x.w != nil {
		why = cmp.Or(x.w.TakenFor, x.w.RunsOn)
	}
	if x.status.Message = message; why != "" {
		x.status.Message += ": " + why
	}
}

// abort takes an aborted release back to stable. Traffic goes to stable no
// faster than stable has pods for it, one update pod stays as long as a router
// may still send to it, and the workload stays held with its new template.
func (x *pass) abort() {
	if x.doing(rollouts.ActivityAborted) {
		x.progress().FinalisingStep = "" // no other template is taking over any more
		x.keepStable()
		x.restAborted()
		x.setStable()
		return
	}
	x.settle(rollouts.VerbAbort, rollouts.OutcomeApplied)
	x.settle(rollouts.VerbPromote, rollouts.OutcomeSuperseded)
	if !x.hasStable() {
		if x.w.BackByTemplate && x.w.StableReadyReplicas > 0 {
			x.leaveUpdate() // no pod comes back, and requests need not wait for one
		}
		return
	}
	if !x.goBack() {
		return
	}
	p := x.progress()
	p.State, p.FinalisingStep = rollouts.StepPaused, ""
	x.stamp()
	if p.RollingBack {
		x.become(rollouts.ActivityAborted, "Every pod runs the stable revision, and the workload's template is being set to it")
		x.setStable()
		return
	}
	x.warn("RolloutAborted", x.tellAborted())
}

// restAborted says how things stand after an abort: its revision may be lost since.
func (x *pass) restAborted() {
	switch {
	case x.edited():
		x.stallStableEdited()
	case x.w.StableGone:
		x.stallStableGone()
	case x.progress().RollingBack:
	case x.stalledFor(rollouts.StalledAborted, rollouts.StalledStableGone, rollouts.StalledStableEdited):
		x.tellAborted()
	}
}

// tellAborted says where an abort has ended. Of a set that was deleted pods may run on.
func (x *pass) tellAborted() (message string) {
	runs := "every pod runs the stable revision and"
	if x.w.RunsOn != "" {
		runs = "the stable revision has all its pods, and " + x.w.RunsOn + ";"
	}
	message = fmt.Sprintf("Rollout was aborted at step(%d/%d)%s; %s the workload stays held: retry or roll back, or release another template",
		x.progress().CurrentStepIndex, len(x.release.Steps), abortedBy(x.Rollout), runs)
	x.become(rollouts.ActivityAborted, message)
	x.stall(rollouts.StalledAborted, message)
	return message
}

// keepStable puts a Service right that somebody has select another revision, which
// has no pods. One that selects a stable revision without pods selects all again.
func (x *pass) keepStable() {
	switch r, stable := x.Route, x.progress().StableRevision; {
	case r == nil || r.Pinned == "":
	case x.emptied(), x.onlyOthers():
		x.act(Unpin{})
	case r.Barred == "" && stable != "" && r.Pinned != stable:
		x.act(Pin{Revision: stable})
	}
}

// goBack brings traffic and pods back, and tells whether they are.
func (x *pass) goBack() bool {
	routed := !x.leaveUpdate()
	if routed && !x.replaces() && !x.stableShort() {
		return false // nothing is gained by taking pods away before the traffic
	}
	whole := x.stableWhole(routed) && !routed
	if !whole && x.aborted() {
		x.because(aborting)
		if x.status.Message == aborting {
			x.status.Message += x.awaits(routed)
		}
	}
	return whole
}

// awaits says what an abort waits for where the batches say nothing, in words that do not
// change with each pod.
func (x *pass) awaits(routed bool) string {
	switch w := x.w; {
	case len(x.actions) > 0 || x.Batch == nil || !x.Batch.Observed:
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

// stableShort reports whether stable cannot take all requests before it gets pods
// that the update revision has: stopped in this style, the native controller
// spreads what a larger size adds over both.
func (x *pass) stableShort() bool {
	return x.style == rollouts.StyleBlueGreen && x.updateShare() > 0
}

// hasStable reports whether there is a stable revision to go back to.
func (x *pass) hasStable() bool {
	switch {
	case x.edited():
		x.leaveUpdate() // as far as its pods can serve
		x.stallStableEdited()
		return false
	case x.w.StableGone:
		x.keepStable()
		x.stallStableGone()
		return false
	}
	if x.stalledFor(rollouts.StalledStableGone) || x.stalledFor(rollouts.StalledStableEdited) {
		x.status.RemoveCondition(rollouts.ConditionStalled)
	}
	return true
}

// setStable ends a rollback: the workload's template becomes stable's, which
// cancels the release as if its owner had set it.
func (x *pass) setStable() {
	switch {
	case !x.progress().RollingBack || !x.w.Held:
	case x.edited():
		x.stallStableEdited()
	case x.w.AtStable:
	case x.w.StableGone, x.w.StableRevision == "":
		x.stallStableGone()
	default:
		x.act(SetStable{})
	}
}

// stall says that nothing will move without a user.
func (x *pass) stall(reason rollouts.StallReason, message string) {
	x.status.Message = message
	x.status.SetCondition(rollouts.Condition{
		Type: rollouts.ConditionStalled, Status: metav1.ConditionTrue, Reason: string(reason), Message: message,
	}, x.now())
}

// leaveUpdate moves traffic to stable and tells whether none is left on update.
func (x *pass) leaveUpdate() bool {
	r := x.Route
	if r == nil {
		return !x.Routing.names() || x.run(rerouted, rollouts.ReleasePlan{})
	}
	if r.Pinned != "" && (x.onlyUpdate() || x.emptied()) {
		x.act(Unpin{})
	}
	if share := x.updateShare(); r.Routed && r.Weight != nil && share > 0 && x.lower(share) {
		return false
	}
	return x.run(rerouted, rollouts.ReleasePlan{})
}

// lower leaves the update revision a share of the requests at most, and tells whether
// anything can serve it.
func (x *pass) lower(share int32) bool {
	r, to := x.Route, x.carrier()
	if to == "" && !r.Shared {
		return false
	}
	if share < *r.Weight && r.able() || to != r.Canary {
		share = min(share, *r.Weight)
		x.act(RouteTo{Revision: to, Want: Route{Weight: &share, Matches: r.Matches, Headers: r.Headers}})
	}
	return true
}

// carrier is the revision that serves what routers send to the update revision. Its
// Service is made anew where somebody has deleted it; where that cannot be, every
// request is better off with stable, however few pods that has.
func (x *pass) carrier() string {
	r, p := x.Route, x.progress()
	switch {
	case r.Canary != "":
		return r.Canary
	case r.Shared || !r.able() || x.w.UpdatedReadyReplicas == 0:
		return ""
	case x.live():
		return cmp.Or(x.w.PodTemplateHash, p.PodTemplateHash)
	default:
		return p.PodTemplateHash
	}
}

// onlyUpdate reports whether only the update revision has ready pods, so that a
// Service pinned to stable would lose every request.
func (x *pass) onlyUpdate() bool {
	return x.w.StableReadyReplicas == 0 && x.w.UpdatedReadyReplicas > 0
}

// updateShare is the least share of traffic that must stay on the update
// revision, since stable cannot take more yet.
func (x *pass) updateShare() int32 {
	w := x.w
	if w.Replicas <= 0 {
		return 0
	}
	able := 100 * min(w.StableReadyReplicas+w.Unavailable+w.SupersededBehind, w.Replicas) / w.Replicas
	return 100 - able
}

// stableWhole wants the pods back on stable and tells whether they are.
func (x *pass) stableWhole(routed bool) bool {
	if x.Batch == nil && x.untouched() {
		return true
	}
	var keep int32
	if routed && x.w.UpdatedReplicas > 0 {
		keep = 1
	}
	// The batch may not have seen yet what became of its pods since it was ready.
	return x.back(keep, x.abortOf()) && (routed || x.w.UpdatedReplicas == 0 && x.w.StableReadyReplicas >= x.w.Replicas)
}

// abortOf is the revision that an abort is meant for.
func (x *pass) abortOf() string {
	if x.style == rollouts.StyleBlueGreen {
		return "" // a template that was refused meanwhile changes nothing about it
	}
	return x.revision()
}

// back wants all pods of stable, and keep of the update revision, and tells
// whether that is so. With a revision it is meant for that template only.
func (x *pass) back(keep int32, revision string) bool {
	b := x.Batch
	want := rollouts.ReleasePlan{
		Batches: []rollouts.Batch{{CanaryReplicas: intstr.FromInt32(keep)}}, BatchPartition: new(int32), RolloutID: x.progress().ObservedRolloutID,
		RollingStyle: x.style, Abort: true, Revision: revision, StableRevision: x.progress().StableRevision,
	}
	switch {
	case b != nil && b.Terminating:
		return false
	case b == nil || batchPlanHash(b.Plan) != batchPlanHash(want):
		x.act(RunBatch{Plan: want})
		return false
	default:
		return b.Observed && b.State == rollouts.BatchReady
	}
}

// untouched reports whether no pod of another revision was ever asked for, nor comes unasked.
func (x *pass) untouched() bool {
	w := x.w
	return w.Target == nil && w.Native && !w.NewPodsUseTemplate && w.UpdatedReplicas == 0 && w.SupersededReplicas == 0 && w.StableReplicas <= w.Replicas
}

// mirrorBatch shows what is known of the batches where clients look for it.
func (x *pass) mirrorBatch() {
	p := x.status.Active()
	if p == nil {
		return
	}
	if x.cause == "" && x.Batch != nil {
		x.cause = x.Batch.Message
	}
	if p.Message = x.cause; !x.working() {
		p.Message = ""
	}
	if x.Batch == nil || x.status.Phase != rollouts.PhaseProgressing {
		return
	}
	b := x.Batch
	p.UpdateReplicas, p.UpdateReadyReplicas = b.UpdatedReplicas, b.UpdatedReadyReplicas
	if x.w != nil && x.w.UpdateRevision == p.UpdateRevision {
		p.ObservedWorkloadGeneration = x.w.Generation
	}
}
