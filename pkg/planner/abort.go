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
	if d.doing(rollouts.ActivityAborted) {
		d.progress().FinalisingStep = ""                      // no other template is taking over any more
		d.settle(rollouts.VerbAbort, rollouts.OutcomeApplied) // a second abort found no other template
		keepStable(d)
		restAborted(d)
		setStable(d)
		return
	}
	d.settle(rollouts.VerbAbort, rollouts.OutcomeApplied)
	d.settle(rollouts.VerbPromote, rollouts.OutcomeSuperseded)
	if noStable(d.facts) {
		stallWithoutStable(d)
		return
	}
	d.unstall(rollouts.StalledStableGone, rollouts.StalledStableEdited)
	if goBack(d); d.waits {
		return
	}
	p := d.progress()
	p.State, p.FinalisingStep = rollouts.StepPaused, ""
	d.stamp()
	if p.RollingBack {
		d.become(rollouts.ActivityAborted, "Every pod runs the stable revision, and the workload's template is being set to it")
		setStable(d)
		return
	}
	stallAborted(d)
	d.warn("RolloutAborted", d.status.Message)
}

// restAborted says how things stand after an abort: its revision may be lost since.
func restAborted(d *draft) {
	switch {
	case edited(d.facts):
		stallStableEdited(d)
	case d.w.StableGone:
		stallStableGone(d)
	case d.progress().RollingBack:
	case d.stalledFor(rollouts.StalledAborted, rollouts.StalledStableGone, rollouts.StalledStableEdited):
		stallAborted(d)
	}
}

// stallAborted says where an abort has ended. Of a set that was deleted pods may run on.
func stallAborted(d *draft) {
	runs := "every pod runs the stable revision and"
	if d.w.StillRuns != "" {
		runs = "the stable revision has all its pods, and " + d.w.StillRuns + ";"
	}
	message := fmt.Sprintf("Rollout was aborted at step(%d/%d)%s; %s the workload stays held: retry or roll back, or release another template",
		d.progress().CurrentStepIndex, len(d.release.Steps), AbortedBy(d.Rollout), runs)
	d.become(rollouts.ActivityAborted, message)
	d.stall(rollouts.StalledAborted, message)
}

// keepStable puts a Service right that somebody has select another revision, which
// has no pods. One that selects a stable revision without pods selects all again.
func keepStable(d *draft) {
	switch r, stable := d.route(), d.progress().StableRevision; {
	case r == nil || r.Pinned == "":
	case emptied(d.facts), onlyOthers(d.facts):
		d.act(Unpin{})
	case r.Barred == "" && stable != "" && r.Pinned != stable:
		d.act(Pin{Revision: stable})
	}
}

// unpinUnready removes the Service's selector for stable pods if no stable pod is ready and
// other pods are. A release that ends removes the routes to the other pods, so without this
// requests would reach no ready pod.
func unpinUnready(d *draft) {
	if r := d.route(); r != nil && r.Pinned != "" && onlyOthers(d.facts) {
		d.act(Unpin{})
	}
}

// goBack brings traffic and pods back, and waits until they are.
func goBack(d *draft) {
	leaving := leaveUpdate(d.facts)
	leave(d, leaving)
	routed := !leaving.done()
	if d.waits = routed; routed && !d.replaces() && !stableShort(d.facts) {
		if d.aborted() && leaving.waits && leaving.action == nil && updateShare(d.facts) > 0 {
			d.status.Message = AbortingMessage + ": pods of the stable revision are not ready yet, and requests go to the update revision until they are"
		}
		return // nothing is gained by taking pods away before the traffic
	}
	pods := podsBack(d.facts, routed)
	d.pursue(pods)
	if d.waits = routed || !pods.done(); d.waits && d.aborted() {
		if because(d, AbortingMessage); d.status.Message == AbortingMessage {
			d.status.Message += awaits(d.facts, len(d.actions) > 0, routed)
		}
	}
}

// awaits says what an abort waits for where the batches say nothing, in words that do not
// change with each pod.
func awaits(f *facts, acts, routed bool) string {
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

// stableShort reports whether stable cannot take all requests before it gets pods
// that the update revision has: stopped in this style, the native controller
// spreads what a larger size adds over both.
func stableShort(f *facts) bool { return f.style == rollouts.StyleBlueGreen && updateShare(f) > 0 }

// noStable reports whether there is no stable revision to go back to.
func noStable(f *facts) bool { return edited(f) || f.w.StableGone }

// stallWithoutStable says so. Requests leave the update revision as far as stable pods
// can serve them: no pod comes back, and they need not wait for one.
func stallWithoutStable(d *draft) {
	if edited(d.facts) || d.w.BackByTemplate && d.w.StableReadyReplicas > 0 {
		leave(d, leaveUpdate(d.facts))
	}
	if edited(d.facts) {
		stallStableEdited(d)
		return
	}
	keepStable(d)
	serveAgain(d)
	stallStableGone(d)
}

// setStable ends a rollback: the workload's template becomes stable's, which
// cancels the release as if its owner had set it. A template that the owner has set since
// the rollback (v2 is rolled back, v3 is set while its pods go) is not overwritten: it
// supersedes the release.
func setStable(d *draft) {
	p := d.progress()
	switch {
	case !p.RollingBack || !d.w.Held:
	case superseded(d.facts) && !d.w.Is(Revision{p.AbortedRevision, p.AbortedTemplate}):
	case edited(d.facts):
		stallStableEdited(d)
	case d.w.AtStable:
	case d.w.StableGone, d.w.StableRevision == "":
		stallStableGone(d)
	default:
		d.act(SetStable{})
	}
}

// leaving is what is left to do until no request goes to the update revision.
type leaving struct {
	remains
	// unpins reports whether the Service would select no pod.
	unpins bool
}

// leave does that.
func leave(d *draft, l leaving) {
	if l.unpins {
		d.act(Unpin{})
	}
	d.pursue(l.remains)
}

// leaveUpdate moves traffic to stable.
func leaveUpdate(f *facts) leaving {
	r := f.route()
	if r == nil && !f.Routing.names() {
		return leaving{}
	}
	if r == nil {
		return leaving{remains: remaining(f, rerouted, rollouts.ReleasePlan{})}
	}
	l := leaving{unpins: r.Pinned != "" && (onlyUpdate(f) || emptied(f))}
	if to, share := carrier(f), updateShare(f); share > 0 && r.canLower(to) {
		l.remains = lowering(r, to, share)
	} else {
		l.remains = remaining(f, rerouted, rollouts.ReleasePlan{})
	}
	return l
}

// canLower reports whether routers send a share of the requests that can be made smaller:
// a revision serves what is left of it.
func (r *Route) canLower(to string) bool {
	return r.Routed && r.Weight != nil && (to != "" || r.Shared)
}

// lowering leaves the update revision a share of the requests at most.
func lowering(r *Route, to string, share int32) remains {
	left := remains{waits: true}
	if share < *r.Weight && r.able() || to != r.Canary {
		share = min(share, *r.Weight)
		left.action = RouteTo{Revision: to, Want: Route{Weight: &share, Matches: r.Matches, Headers: r.Headers}}
	}
	return left
}

// carrier is the revision that serves what routers send to the update revision. Its
// Service is made again where somebody has deleted it; where that cannot be, every
// request is better off with stable, however few pods that has.
func carrier(f *facts) string {
	r, p := f.route(), f.progress()
	switch {
	case r.Canary != "":
		return r.Canary
	case r.Shared || !r.able() || f.w.UpdatedReadyReplicas == 0:
		return ""
	case f.live():
		return cmp.Or(f.w.PodTemplateHash, p.PodTemplateHash)
	default:
		return p.PodTemplateHash
	}
}

// podsBack wants the pods back on stable, but for one while requests may still go to it.
// The batch may not have seen yet what became of its pods since it was ready.
func podsBack(f *facts, routed bool) remains {
	if f.Batch == nil && untouched(f) {
		return remains{}
	}
	var keep int32
	if routed && (f.w.UpdatedReplicas > 0 || !f.live() && f.w.SupersededReplicas > 0) {
		keep = 1
	}
	left := batchBack(f, planBack(f, keep, abortOf(f)))
	if left.done() {
		left.waits = !routed && (f.w.UpdatedReplicas != 0 || f.w.StableReadyReplicas < f.w.Replicas)
	}
	return left
}

// abortOf is the revision that an abort is meant for.
func abortOf(f *facts) Revision {
	if f.style == rollouts.StyleBlueGreen {
		return Revision{} // a template that was refused during the abort does not change the target of the abort
	}
	return f.revision()
}

// untouched reports whether no pod of another revision was ever asked for, nor comes unasked.
func untouched(f *facts) bool {
	w := f.w
	return w.Target == nil && w.Native && !w.NewPodsUseTemplate && w.UpdatedReplicas == 0 && w.SupersededReplicas == 0 && w.StableReplicas <= w.Replicas
}
