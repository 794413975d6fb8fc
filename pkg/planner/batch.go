// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// BatchObserved is all that one pass over a BatchRelease knows.
type BatchObserved struct {
	Now     time.Time
	Release *rollouts.BatchRelease
	// Owned reports whether its controller is, or was, a Rollout, and Wanted that it is the
	// one of its name, which exists.
	Owned, Wanted bool
	// Taken is the Rollout that releases the workload of a BatchRelease that is not
	// its own; empty if none does.
	Taken string
	// Workload is nil when the object does not exist.
	Workload *Workload
	// Trouble names pods that will not become ready, and why.
	Trouble string
	// Labels says which releases' pods are labelled.
	Labels PodLabels
	// Pods are those of the update revision, where Marks asks for them.
	Pods []Pod
}

// BatchPlan is everything one pass over a BatchRelease decided.
type BatchPlan struct {
	Status  rollouts.BatchReleaseStatus
	Actions []Action
	Events  []Event
	Rule    string
}

// The actions of a BatchRelease, beside Hold, RestoreWorkload, MarkPods and DropFinalizer.
type (
	// SetTarget tells the workload how far it may go. Metadata is for the pods of
	// an extra workload.
	SetTarget struct {
		Target
		Metadata *rollouts.PodTemplateMetadata
	}
	// Discard removes what was made beside the workload.
	Discard struct{}
	// RestoreStrategy gives an aborted workload its owner's strategy back, still paused.
	RestoreStrategy struct{}
	// Tell writes to the workload how many pods are new and ready.
	Tell struct{}
)

func (SetTarget) action()       {}
func (Discard) action()         {}
func (RestoreStrategy) action() {}
func (Tell) action()            {}

func (Discard) String() string         { return "discard extra workload" }
func (RestoreStrategy) String() string { return "rest workload" }
func (Tell) String() string            { return "tell of pods on workload" }
func (d SetTarget) String() string {
	if d.Abort {
		return "drive workload back, keeping " + d.Partition.String()
	}
	return "drive workload to " + d.Partition.String()
}

// BatchFacts is what a Rollout reads of a BatchRelease.
func BatchFacts(b *rollouts.BatchRelease) *Batch {
	s := b.Status
	return &Batch{
		Plan:     b.Spec.Plan,
		Observed: s.ObservedGeneration >= b.Generation && s.ObservedReleasePlanHash == batchPlanHash(b.Spec.Plan),
		Phase:    s.Phase, State: s.BatchState, Index: s.CurrentBatch,
		UpdatedReplicas: s.UpdatedReplicas, UpdatedReadyReplicas: s.UpdatedReadyReplicas,
		Message: s.Message, WriteError: writeErrorIn(s.Conditions),
		Terminating: b.DeletionTimestamp != nil && guarded(b), Kept: b.DeletionTimestamp != nil && !guarded(b),
	}
}

func guarded(b *rollouts.BatchRelease) bool {
	return slices.Contains(b.Finalizers, rollouts.FinalizerBatchRelease)
}

// Awaits names the revision whose pods a BatchRelease waits for, by its label
// value, and what they are; empty when it waits for none.
func Awaits(b *rollouts.BatchRelease, w *Workload) (revision, whose string) {
	const newPods, stablePods = "new", "stable"
	switch plan := b.Spec.Plan; {
	case plan.BatchPartition == nil && (plan.FinalizingPolicy != rollouts.WaitResume || w.LiveReadyReplicas >= w.Replicas):
		return "", ""
	case plan.BatchPartition == nil && w.AtStable:
		return w.LiveRevision, stablePods
	case plan.BatchPartition == nil:
		return w.LiveRevision, newPods
	case b.Status.BatchState == rollouts.BatchReady:
		return "", ""
	case !plan.Abort:
		return w.PodTemplateHash, newPods
	case w.StableReadyReplicas < w.Replicas:
		return w.StableRevision, stablePods
	default:
		return "", ""
	}
}

// BatchRelease decides what one pass over a BatchRelease does.
func BatchRelease(o BatchObserved) BatchPlan {
	x := &batchPass{BatchObserved: o, w: o.Workload, plan: o.Release.Spec.Plan, status: *o.Release.Status.DeepCopy()}
	if x.w != nil && (x.w.Deleted != "" || x.status.WorkloadUID != "" && x.w.UID != x.status.WorkloadUID) {
		x.w = nil // or another workload of that name
	}
	x.status.ObservedGeneration = o.Release.Generation
	if x.w != nil && x.w.ExtraUID != "" {
		x.status.ExtraUID = x.w.ExtraUID // stored before anything is done to it
	}
	for _, rule := range batchRules {
		if rule.applies(x) {
			x.rule = rule.name
			rule.decide(x)
			break
		}
	}
	x.status.Conditions, _ = clearWriteError(x.status.Conditions, len(x.actions) > 0)
	return BatchPlan{Status: x.status, Actions: x.actions, Events: x.events, Rule: x.rule}
}

type batchRule struct {
	name    string
	applies func(*batchPass) bool
	decide  func(*batchPass)
}

var batchRules = []batchRule{
	{"deleted", (*batchPass).deleted, (*batchPass).letGo},
	{"completed", (*batchPass).completed, func(*batchPass) {}},
	{"taken", func(x *batchPass) bool { return x.Taken != "" }, (*batchPass).standBack},
	{"workload gone", func(x *batchPass) bool { return x.w == nil }, (*batchPass).complete},
	{"other revision", (*batchPass).otherRevision, (*batchPass).observe},
	{"giving back", func(x *batchPass) bool { return x.plan.BatchPartition == nil }, (*batchPass).giveBack},
	{"new plan", (*batchPass).planChanged, (*batchPass).begin},
	{"scaled", (*batchPass).scaled, (*batchPass).again},
	{"in progress", func(*batchPass) bool { return true }, (*batchPass).drive},
}

type batchPass struct {
	BatchObserved
	w       *Workload
	plan    rollouts.ReleasePlan
	status  rollouts.BatchReleaseStatus
	actions []Action
	events  []Event
	rule    string
	// begins reports whether a plan is taken up, and another that it is at another batch.
	begins, another bool
}

// deleted reports whether nobody is to be driven any more. One that was let go of already,
// and that finalizers of others keep, is driven on for its Rollout: an abort needs it.
func (x *batchPass) deleted() bool {
	return x.Release.DeletionTimestamp != nil && (guarded(x.Release) || !x.Wanted)
}

func (x *batchPass) completed() bool {
	return x.status.Phase == rollouts.PhaseCompleted && !x.planChanged()
}

// otherRevision reports whether the template is not the one that the plan is meant
// for; whoever wrote the plan must decide what happens then.
func (x *batchPass) otherRevision() bool {
	return x.plan.Revision != "" && !x.w.Is(x.plan.Revision)
}

func (x *batchPass) planChanged() bool {
	return x.status.ObservedReleasePlanHash != batchPlanHash(x.plan)
}

func (x *batchPass) scaled() bool { return x.status.ObservedWorkloadReplicas != x.w.Replicas }

// letGo drops the finalizer once nothing depends on it: a Rollout that owns
// this BatchRelease gives the workload back itself or makes a new one.
func (x *batchPass) letGo() {
	if x.status.Phase != rollouts.PhaseCompleted && !x.Owned && x.Taken == "" && x.w != nil {
		x.giveBack()
		if x.status.Phase != rollouts.PhaseCompleted {
			return
		}
	}
	if x.loose() {
		x.actions = append(x.actions, Hold{Again: true})
		return
	}
	if x.w != nil && x.w.Extra {
		// The garbage collector would do it as well, and later.
		x.actions = append(x.actions, Discard{})
	}
	if guarded(x.Release) {
		x.actions = append(x.actions, DropFinalizer{})
	}
}

// loose reports whether the native controller could go on by what the workload was last
// told, though it stays held when nobody tells it any more. Its Rollout could not tell
// that from a hold that somebody took off.
func (x *batchPass) loose() bool {
	w := x.w
	return w != nil && x.Wanted && x.plan.BatchPartition != nil && w.Held && !w.Paused && !w.Surges &&
		!w.AtStable && w.LiveRevision != w.StableRevision
}

// standBack leaves a workload alone that a Rollout releases.
func (x *batchPass) standBack() {
	x.status.Drive = nil
	x.status.Message = fmt.Sprintf("Rollout %s releases this workload, so that nothing is done here; delete one of the two", x.Taken)
}

// observe records nothing but that the plan was seen. Where the native controller
// spreads what a larger size adds over both versions, stable is made whole all the same.
func (x *batchPass) observe() {
	if d := x.w.Target; d != nil && !d.Abort && x.w.Surges && !x.w.AtStable && x.w.Settled && !x.w.TargetApplied {
		x.actions = append(x.actions, SetTarget{Target: *d, Metadata: x.plan.PodTemplateMetadata})
	}
}

func (x *batchPass) accept() {
	x.status.ObservedReleasePlanHash = batchPlanHash(x.plan)
	x.status.ObservedRolloutID = x.plan.RolloutID
	if x.w != nil {
		x.status.WorkloadUID = x.w.UID
	}
}

func (x *batchPass) complete() {
	x.accept()
	x.status.Phase, x.status.Drive = rollouts.PhaseCompleted, nil
	x.status.Message = ""
}

// giveBack restores the workload, in as many passes as it takes.
func (x *batchPass) giveBack() {
	x.accept()
	if !x.w.HasManagedFields && x.w.Settled {
		x.complete()
		return
	}
	x.status.Phase = rollouts.PhaseFinalizing
	x.status.Message = ""
	wait := x.plan.FinalizingPolicy == rollouts.WaitResume
	switch {
	case wait && x.returning():
		x.comeBack()
		return
	case x.atWork(wait):
		x.status.Message = cmp.Or(x.w.Leans, x.w.Lingers, x.Trouble)
		return
	}
	if x.status.Message = x.w.keptFrom(wait, x.plan.Abort); x.status.Message != "" {
		return
	}
	x.actions = append(x.actions, RestoreWorkload{KeepPaused: x.plan.Abort, Wait: wait && !x.w.AtStable})
}

// atWork reports whether the native controller of a workload that was given back is.
func (x *batchPass) atWork(wait bool) bool {
	return x.w.Target == nil && (wait && x.w.Rolling || x.w.Leans != "")
}

// returning reports whether the template is stable's again and pods of another
// revision are still to go. They go while the workload is held, so that a
// template which comes meanwhile starts from the same stable revision.
func (x *batchPass) returning() bool {
	return x.replaces() && x.w.Held && x.w.AtStable && x.w.Target != nil && !x.w.Native && x.w.StableReplicas > 0
}

// comeBack tells a workload whose sizes are frozen, since its template changed,
// that they are now meant for the stable one.
func (x *batchPass) comeBack() {
	want := Target{Partition: intstr.FromString("100%"), Owner: x.Release.UID, Revision: x.plan.Revision}
	if !x.told(want) {
		x.tell(want)
	}
}

// tell stores how far the workload may go before it is written there.
func (x *batchPass) tell(want Target) {
	x.status.Drive = &rollouts.Drive{Partition: want.Partition, KeepOne: want.KeepOne, Least: want.Least, Abort: want.Abort, Revision: want.Revision}
	x.actions = append(x.actions, SetTarget{Target: want, Metadata: x.plan.PodTemplateMetadata})
}

// begin takes up a plan: the batch asked for, or the first one when the same
// batches are to be run for another rollout id.
func (x *batchPass) begin() {
	last, was := int32(len(x.plan.Batches))-1, x.status.CurrentBatch
	x.status.CurrentBatch = max(min(*x.plan.BatchPartition, last), 0)
	if x.status.ObservedRolloutID != "" && x.status.ObservedRolloutID != x.plan.RolloutID {
		x.status.CurrentBatch = 0
	}
	x.begins, x.another = true, x.status.CurrentBatch != was
	x.accept()
	x.status.Phase = rollouts.PhaseProgressing
	x.status.StableRevision = x.w.StableRevision
	x.status.UpdateRevision = x.w.UpdateRevision
	switch {
	case !x.w.AtStable:
		x.status.NoNeedUpdateReplicas = nil
	case x.status.NoNeedUpdateReplicas == nil:
		// Back in batches: what is back already does not count.
		back := x.w.UpdatedReplicas
		x.status.NoNeedUpdateReplicas = &back
	}
	x.again()
}

// again runs the current batch anew.
func (x *batchPass) again() {
	x.status.BatchState = rollouts.BatchUpgrading
	x.status.BatchReadyTime = nil
	x.status.ObservedWorkloadReplicas = x.w.Replicas
	x.status.Message = ""
	x.drive()
}

// drive tells the workload how far it may go and judges whether it is there.
func (x *batchPass) drive() {
	if int(x.status.CurrentBatch) >= len(x.plan.Batches) {
		return
	}
	want := x.want()
	switch {
	case x.asleep():
	case !x.told(want), x.stopped():
		x.putRight(want)
		x.pending()
		if !x.barred(want) {
			x.tell(want)
		}
		x.status.Message = cmp.Or(x.w.Lingers, x.w.Rival)
	case !x.w.Settled:
	case x.plan.Abort && x.back() && !x.w.Native:
		x.actions = append(x.actions, RestoreStrategy{})
	default:
		x.judge()
	}
}

// asleep reports whether the batch was stopped before there was a pod of it, in a style in
// which new pods come beside the old ones: it is told nothing until it goes on.
func (x *batchPass) asleep() bool {
	return x.plan.Paused && !x.replaces() && !x.plan.Abort && x.w.Replicas > 0 && x.w.UpdatedReplicas == 0
}

// barred reports whether nothing is left to be told but what somebody else's object stands
// in the way of. It goes on when that is gone.
func (x *batchPass) barred(want Target) bool {
	return x.w.Rival != "" && x.w.Target != nil && *x.w.Target == want && !want.Abort && x.w.Paused && len(x.w.Astray) == 0
}

// putRight announces that somebody else has written what the workload was told, of
// a batch that was ready and is wanted as it was.
func (x *batchPass) putRight(want Target) {
	ready := x.status.BatchState == rollouts.BatchReady && x.w.Target != nil && *x.w.Target == want
	if ready && len(x.w.Astray) > 0 {
		x.events = append(x.events, astrayEvent(x.w.Astray))
	}
	if ready && x.w.ExtraAstray {
		x.events = append(x.events, Event{Warning: true, Reason: EventExtraPutRight, Message: "the Deployment beside the workload was not as it is to be; only Weir writes it, and it was put right"})
	}
}

// told reports whether the workload has been told so.
func (x *batchPass) told(want Target) bool {
	return x.w.Target != nil && *x.w.Target == want && x.w.TargetApplied
}

// stopped reports whether pods are missing which the native controller is to bring,
// and that it is still stopped since another template was refused. A batch that
// is complete needs nothing of it, and where stable is gone it would bring all.
func (x *batchPass) stopped() bool {
	return x.plan.RollingStyle == rollouts.StyleBlueGreen && !x.plan.Abort && x.w.Paused && !x.reached() &&
		(!x.w.StableGone || x.w.UpdatedReplicas > 0)
}

func (x *batchPass) judge() {
	if marks := x.marks(); len(marks) > 0 {
		x.actions = append(x.actions, MarkPods{Marks: marks})
	}
	ready := x.status.BatchState == rollouts.BatchReady
	if !x.reached() || !ready && !x.marked() {
		if !ready {
			x.complain()
		}
		return
	}
	if x.w.ExtraStatusStale {
		x.actions = append(x.actions, Tell{})
		if !ready {
			return // who sees the batch ready may read it there at once
		}
	}
	x.count()
	if !ready {
		x.becomeReady()
	}
	x.nextBatch()
}

func (x *batchPass) becomeReady() {
	x.status.BatchState = rollouts.BatchReady
	now := metav1.NewTime(x.Now.Truncate(time.Second))
	x.status.BatchReadyTime = &now
	x.status.Message = ""
}

// nextBatch goes on at once where more than one may run.
func (x *batchPass) nextBatch() {
	if *x.plan.BatchPartition > x.status.CurrentBatch && int(x.status.CurrentBatch)+1 < len(x.plan.Batches) {
		x.status.CurrentBatch++
		x.another = true
		x.again()
	}
}

// complain says what keeps pods from being ready, if that is known.
func (x *batchPass) complain() {
	if why := cmp.Or(x.Trouble, x.w.Lingers); why != "" {
		x.status.BatchState, x.status.Message = rollouts.BatchVerifying, why
		x.count()
	}
}

// count tells of the pods. While they come it would only cost writes; when they
// do not, it is what people look for.
func (x *batchPass) count() {
	x.status.UpdatedReplicas, x.status.UpdatedReadyReplicas = x.w.UpdatedReplicas, x.w.UpdatedReadyReplicas
}

// pending makes sure that no one reads an old Ready as this one.
func (x *batchPass) pending() {
	if x.status.BatchState == rollouts.BatchReady {
		x.status.BatchState = rollouts.BatchUpgrading
		x.status.BatchReadyTime = nil
	}
}
