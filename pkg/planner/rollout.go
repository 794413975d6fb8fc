// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Rollout decides what one pass over a Rollout does.
func Rollout(o Observed) Plan {
	if Over(o.Rollout) {
		return Plan{Status: *o.Rollout.Status.DeepCopy(), Rule: "over"}
	}
	x := newPass(o)
	for _, rule := range rules {
		if rule.applies(x) {
			x.rule = rule.name
			rule.decide(x)
			break
		}
	}
	x.bind()
	x.yield()
	x.putRight()
	x.keepNetwork()
	x.ensureAdmission()
	x.forgetRoutings()
	x.keepGrace()
	x.recordWriteError()
	x.mirrorBatch()
	x.keepRecord()
	x.keepDeadline()
	x.setKstatusConditions()
	x.status.Clean()
	x.status.Fit()
	return Plan{Status: x.status, Actions: x.actions, Events: x.events, Wake: x.wake, Rule: x.rule}
}

// rule is one case and what it leads to. The order of the table is the order
// of precedence: the first that applies decides.
type rule struct {
	name    string
	applies func(*pass) bool
	decide  func(*pass)
}

var rules = []rule{
	{"deleted", (*pass).deleted, (*pass).terminate},
	{"disabled", (*pass).leaves, (*pass).disable},
	{"workload gone", (*pass).gone, (*pass).reset},
	{"unsupported", (*pass).unsupported, (*pass).setUnsupported},
	{"not named", (*pass).notNamed, (*pass).awaitName},
	{"bypassed", (*pass).bypassed, (*pass).catch},
	{"still aborted", (*pass).stillAborted, (*pass).resumeAbort},
	{"not adopted", (*pass).notAdopted, (*pass).adopt},
	{"healthy", (*pass).healthy, (*pass).watch},
	{"rolled back", (*pass).rolledBack, (*pass).cancel},
	{"superseded when aborted", (*pass).supersededWhenAborted, (*pass).supersede},
	{"aborted", (*pass).aborted, (*pass).abort},
	{"stable edited", (*pass).atEdited, (*pass).stallStableEdited},
	{"batch gone", (*pass).batchGone, (*pass).makeBatch},
	{"refused", (*pass).refused, (*pass).refuse},
	{"superseded when ending", (*pass).supersededWhenEnding, (*pass).supersede},
	{"ending", (*pass).ending, (*pass).end},
	{"paused", (*pass).paused, (*pass).pauseRelease},
	{"rolled back in batches", (*pass).rolledBackInBatches, (*pass).startRollback},
	{"superseded", (*pass).superseded, (*pass).supersede},
	{"waiting to start", (*pass).initializing, (*pass).initialize},
	{"plan changed", (*pass).planChanged, (*pass).applyEditedPlan},
	{"in progress", func(*pass) bool { return true }, (*pass).step},
}

// pass is the working state of one decision: what was observed, and the plan
// as it grows.
type pass struct {
	Observed
	w       *Workload
	release *rollouts.Release
	style   rollouts.Style

	status  rollouts.RolloutStatus
	actions []Action
	events  []Event
	wake    time.Duration
	rule    string
	// network is what was observed of it for every step.
	network *Route
	// undone says who undoes what routers were told.
	undone string
	// cause is what keeps the release from going on, in a few words.
	cause string
}

func newPass(o Observed) *pass {
	x := &pass{Observed: o, network: o.Route, w: o.Workload, status: *o.Rollout.Status.DeepCopy()}
	_, x.release = o.Rollout.Spec.Strategy.Active()
	x.style = rollouts.StyleFor(&o.Rollout.Spec.Strategy, o.Rollout.Spec.WorkloadRef)
	x.status.ObservedGeneration = o.Rollout.Generation
	if x.replaced() || x.w != nil && x.w.Deleted != "" {
		x.w = nil
	}
	x.face(x.was().CurrentStepIndex)
	x.findStable()
	x.recall()
	x.recognise()
	x.bindAbort()
	return x
}

// replaced reports whether the workload in service was deleted, and another one of
// its name was made. A release goes with its workload.
func (x *pass) replaced() bool {
	return x.w != nil && x.status.WorkloadUID != "" && x.w.UID != "" && x.w.UID != x.status.WorkloadUID
}

// bind notes which workload is in service.
func (x *pass) bind() {
	if x.w != nil && (x.status.Phase == rollouts.PhaseHealthy || x.status.Phase == rollouts.PhaseProgressing) {
		x.status.WorkloadUID = x.w.UID
	}
}

// findStable corrects what a workload cannot tell whose stable set has gone: while
// a release is under way the status knows what it was.
func (x *pass) findStable() {
	if x.w == nil || x.status.Active() == nil || stableLost(x.Rollout, x.w) == "" {
		return
	}
	w := *x.w
	switch {
	case exchanged(*x.status.Active(), x.w):
		w.StableGone = true // its pods serve on
	case x.status.Phase == rollouts.PhaseProgressing:
		w.StableGone = true
		w.AtStable = w.AtStable || w.LiveTemplate != "" && w.LiveTemplate == x.was().StableTemplate // its owner has set it again
		if !w.BackByTemplate {
			w.StableReadyReplicas = 0 // its pods went with it
		}
	}
	x.w = &w
}

// recall corrects what a workload cannot tell whose stable set went with its pods
// before the release began, since its history has no room. At rest the status knew.
// Where there are pods, they tell. What goes back by its template has nothing to hold
// without pods.
func (x *pass) recall() {
	p := x.was()
	known := x.w != nil && !x.w.BackByTemplate && x.healthy() && p.State == rollouts.StepCompleted && p.PodTemplateHash != ""
	if !known || !x.w.Held || x.w.hasPods() || x.live() || slices.Contains(x.w.Revisions, p.PodTemplateHash) {
		return
	}
	w := *x.w
	w.StableRevision, w.StableGone, w.AtStable, w.StableReadyReplicas = p.PodTemplateHash, true, false, 0
	x.w = &w
}

// recognise corrects what a workload at size 0 cannot tell: which of its sets
// served before. While a release is under way the status knows.
func (x *pass) recognise() {
	stable := x.was().StableRevision
	if x.w == nil || x.status.Phase != rollouts.PhaseProgressing || stable == "" || x.w.PodTemplateHash != stable {
		return
	}
	w := *x.w
	if w.StableRevision != stable {
		w.StableRevision, w.StableTemplate = stable, "" // that was the other one's
	}
	w.AtStable = true
	x.w = &w
}

// progress is the next progress; never nil.
func (x *pass) progress() *rollouts.Progress {
	p := x.status.Active()
	if p == nil {
		p = &rollouts.Progress{}
		x.status.SetActive(x.style, p)
	}
	return p
}

// was is the progress as stored, or an empty one.
func (x *pass) was() rollouts.Progress {
	if p := x.Rollout.Status.Active(); p != nil {
		return *p
	}
	return rollouts.Progress{}
}

// now is the time as conditions keep it.
func (x *pass) now() metav1.Time { return metav1.NewTime(x.Now.Truncate(time.Second)) }

// stamp starts a wait. It is rounded up to the second that the wire keeps, so
// that no restart shortens a pause or a grace period.
func (x *pass) stamp() {
	at := roundUp(x.Now)
	x.progress().LastUpdateTime = &at
}

// elapsed reports whether d has passed since the last stamp, and if not, wakes
// the next pass when it will have.
func (x *pass) elapsed(d time.Duration) bool {
	since := x.progress().LastUpdateTime
	if since == nil || d <= 0 {
		return true
	}
	if ahead(since, x.Now) {
		x.stamp()
	}
	return x.reached(x.progress().LastUpdateTime.Add(d))
}

// ahead reports whether a stored time is still to come: the clock that it was taken
// from has been set back since, or another one is late. Nobody knows how much of
// a wait from then on has passed, so it begins anew and lasts no longer than it
// was meant to, however wrong the clock was.
func ahead(since *metav1.Time, now time.Time) bool { return since.After(roundUp(now).Time) }

// reached reports whether it is that late, and if not, wakes the next pass then.
func (x *pass) reached(at time.Time) bool {
	left := at.Sub(x.Now)
	if left <= 0 {
		return true
	}
	if x.wake == 0 || left < x.wake {
		x.wake = left
	}
	return false
}

func (x *pass) act(a ...Action) { x.actions = append(x.actions, a...) }

func (x *pass) announce(reason, message string) {
	x.events = append(x.events, Event{Reason: reason, Message: message})
}

func (x *pass) warn(reason, message string) {
	x.events = append(x.events, Event{Warning: true, Reason: reason, Message: message})
}

// become sets what the release is doing and says so.
func (x *pass) become(a rollouts.Activity, message string) {
	x.status.Message = message
	x.status.SetActivity(a, message, x.now())
}

func (x *pass) activity() rollouts.Activity { return x.status.Activity() }

func (x *pass) doing(as ...rollouts.Activity) bool { return slices.Contains(as, x.activity()) }

// The predicates of the rules.

func (x *pass) deleted() bool { return x.Rollout.DeletionTimestamp != nil }
func (x *pass) gone() bool    { return x.w == nil }

// leaves reports whether the Rollout is disabled, or was. A give-back that has begun comes
// to its end first: the workload is half given back, and no release could go on from there.
func (x *pass) leaves() bool {
	return x.Rollout.Spec.Disabled || x.status.Phase == rollouts.PhaseDisabling
}

func (x *pass) unsupported() bool {
	return x.unsuited() != "" && x.status.Phase != rollouts.PhaseProgressing && !x.unfitInService()
}

// unsuited says why the workload cannot be released; empty if it can.
func (x *pass) unsuited() string {
	if x.Unsupported == "" && x.w != nil {
		return x.w.UnsupportedReason
	}
	return x.Unsupported
}

// unfitInService reports whether a workload in service was made unfit. It stays in
// service, so that admission goes on refusing templates that could not be held.
func (x *pass) unfitInService() bool {
	return x.Unsupported == "" && x.healthy() && x.w != nil && x.w.UnsupportedReason != ""
}

func (x *pass) notAdopted() bool {
	return x.status.Phase != rollouts.PhaseHealthy && x.status.Phase != rollouts.PhaseProgressing
}

func (x *pass) stillAborted() bool {
	return x.notAdopted() && x.w.Held && x.w.Labelled && x.aborted() && x.live()
}

func (x *pass) healthy() bool { return x.status.Phase == rollouts.PhaseHealthy }

func (x *pass) rolledBack() bool {
	over := x.doing(rollouts.ActivityCancelling, rollouts.ActivityCompleted)
	return x.w.Held && x.w.AtStable && !over && !x.returning() && !x.edited()
}

// returning reports whether the way back to the stable template is a release too, or
// is going to be one.
func (x *pass) returning() bool {
	started := x.live() || x.doing(rollouts.ActivityInRolling, rollouts.ActivityPaused)
	return (x.backInBatches() && started || x.repeats()) && !x.aborted()
}

// repeats reports whether the release under way is of the revision that serves already,
// under a name of its own: no pod comes or goes for it.
func (x *pass) repeats() bool {
	p := x.was()
	same := p.StableRevision != "" && (p.StableRevision == p.UpdateRevision || p.StableRevision == p.PodTemplateHash)
	return same && x.live() && x.named() != "" && x.w.StableReplicas == 0
}

// backInBatches reports whether its user wants that. Where traffic is routed, bad pods
// would go on getting requests meanwhile.
func (x *pass) backInBatches() bool {
	asked := x.Rollout.Annotations[rollouts.AnnotationRollbackInBatch] == "true"
	return asked && x.replaces() && len(x.release.TrafficRoutings) == 0
}

func (x *pass) rolledBackInBatches() bool {
	return x.w.Held && x.w.AtStable && x.returning() && !x.live()
}

func (x *pass) aborted() bool {
	return x.doing(rollouts.ActivityAborting, rollouts.ActivityAborted)
}

func (x *pass) ending() bool {
	return x.doing(rollouts.ActivityFinalising, rollouts.ActivityCancelling)
}

func (x *pass) paused() bool { return x.Rollout.Spec.Strategy.Paused || x.was().Paused }

func (x *pass) initializing() bool {
	return x.doing(rollouts.ActivityInitializing) || x.doing(rollouts.ActivityPaused) && x.halfBack()
}

// supersededWhenAborted waits for the end of the abort where two revisions may
// not make room for a third. One that cannot go back does not come to its end.
func (x *pass) supersededWhenAborted() bool {
	over := x.doing(rollouts.ActivityAborted) || x.style != rollouts.StyleBlueGreen || x.w.StableGone
	return x.aborted() && over && x.superseded()
}

// refused reports whether another template was set while a blue-green release has
// pods: there is no room for those of a third revision. Where the old ones are
// on their way out, it waits for that.
func (x *pass) refused() bool {
	return x.style == rollouts.StyleBlueGreen && x.Batch != nil && x.superseded() && !x.ending() &&
		!x.doing(rollouts.ActivityAborted, rollouts.ActivityAborting)
}

// supersededWhenEnding covers a template that changes between the last step
// and the give-back: giving back would release it unasked. A release being
// cancelled is superseded by every template but the stable one.
func (x *pass) supersededWhenEnding() bool {
	switch x.activity() {
	case rollouts.ActivityFinalising:
		return x.superseded()
	case rollouts.ActivityCancelling:
		return x.w.Held && !x.w.AtStable
	default:
		return false
	}
}

// superseded reports whether the held template is neither that of this release nor
// the stable one. The hash label recognises the template when the way of
// hashing has changed since the release began.
func (x *pass) superseded() bool {
	return x.w.Held && !x.w.AtStable && !x.live()
}

// revision names the revision of this release to its batches: by content, or
// by the label of its set when the way of computing has changed. The set may be
// deleted and made anew under another label.
func (x *pass) revision() string {
	p := x.progress()
	if x.w != nil && p.PodTemplateHash != "" && !x.w.Is(p.UpdateRevision) {
		return p.PodTemplateHash
	}
	return p.UpdateRevision
}

// live reports whether the template is still the one of this release.
func (x *pass) live() bool {
	p := x.was()
	return x.w.Is(p.UpdateRevision) || x.w.Is(p.PodTemplateHash)
}

func (x *pass) planChanged() bool {
	return x.was().RolloutHash != x.planHash()
}

func (x *pass) planHash() string { return planHash(x.Rollout, x.release) }

// planHash is the server's where it has written one, so that server and
// controller of different releases agree.
func planHash(r *rollouts.Rollout, release *rollouts.Release) string {
	if h := r.Annotations[rollouts.AnnotationHash]; h != "" {
		return h
	}
	return PlanHash(release)
}

// settle marks the decisions of a verb that nothing has been done about yet.
func (x *pass) settle(verb rollouts.Verb, outcome rollouts.Outcome) {
	for i := range x.status.Decisions {
		if d := &x.status.Decisions[i]; d.Verb == verb && d.Outcome == "" {
			d.Outcome = outcome
		}
	}
}

// settleAll marks every open decision as overtaken.
func (x *pass) settleAll() {
	for i := range x.status.Decisions {
		if d := &x.status.Decisions[i]; d.Outcome == "" {
			d.Outcome = rollouts.OutcomeSuperseded
		}
	}
}
