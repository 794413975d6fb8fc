// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Decide decides what one pass over a BatchRelease does.
func Decide(o Observed) Plan {
	d := &draft{facts: factsOf(o)}
	i := slices.IndexFunc(cases, func(c caseRow) bool { return c.applies(d.facts) })
	cases[i].decide(d)
	d.status.Conditions, _ = planner.ClearWriteError(d.status.Conditions, len(d.actions) > 0)
	return Plan{Status: d.status, Actions: d.actions, Events: d.events, Rule: cases[i].name}
}

// caseRow is one case and what it leads to.
type caseRow struct {
	name    string
	applies func(*facts) bool
	decide  func(*draft)
}

// cases in the order of precedence: the first that applies decides.
var cases = []caseRow{
	{"deleted", deleted, letGo},
	{"completed", completed, func(*draft) {}},
	{"taken", func(f *facts) bool { return f.Taken != "" }, standBack},
	{"workload gone", func(f *facts) bool { return f.w == nil }, completeWithout},
	{"other revision", otherRevision, observe},
	{"giving back", func(f *facts) bool { return f.plan.BatchPartition == nil }, giveBack},
	{"new plan", planChanged, begin},
	{"scaled", func(f *facts) bool { return f.status.ObservedWorkloadReplicas != f.w.Replicas }, again},
	{"in progress", func(*facts) bool { return true }, drive},
}

// deleted reports whether nobody is to be driven any more. One that was let go of already,
// and that finalizers of others keep, is driven on for its Rollout: an abort needs it.
func deleted(f *facts) bool {
	return f.Release.DeletionTimestamp != nil && (planner.BatchGuarded(f.Release) || !f.Wanted)
}

func completed(f *facts) bool {
	return f.status.Phase == rollouts.PhaseCompleted && !planChanged(f)
}

// otherRevision reports whether the template is not the one that the plan is meant
// for; the author of the plan decides what happens then.
func otherRevision(f *facts) bool { return !planner.Wanted(f.plan, f.w) }

func planChanged(f *facts) bool {
	return f.status.ObservedReleasePlanHash != planner.BatchPlanHash(f.plan)
}

// letGo drops the finalizer once nothing depends on it: a Rollout that owns
// this BatchRelease gives the workload back itself or makes a new one.
func letGo(d *draft) {
	if d.status.Phase != rollouts.PhaseCompleted && !d.Owned && d.Taken == "" && d.w != nil {
		if giveBack(d); d.status.Phase != rollouts.PhaseCompleted {
			return
		}
	}
	if loose(d.facts) {
		d.act(planner.Hold{Again: true})
		return
	}
	enableScalers(d)
	if d.w != nil && d.w.Extra {
		d.act(planner.Discard{}) // the garbage collector would do it as well, and later
	}
	if planner.BatchGuarded(d.Release) {
		d.act(planner.DropFinalizer{})
	}
}

// loose reports whether the native controller could go on by what the workload was last
// told, though it stays held when nobody tells it any more. Its Rollout could not tell
// that from a hold that somebody took off.
func loose(f *facts) bool {
	w := f.w
	return w != nil && f.Wanted && f.plan.BatchPartition != nil && w.Held && !w.Paused && !w.Surges &&
		!w.AtStable && w.LiveRevision != w.StableRevision
}

// standBack leaves a workload alone that a Rollout releases.
func standBack(d *draft) {
	d.status.Drive = nil
	d.status.Message = fmt.Sprintf("Rollout %s releases this workload, so that nothing is done here; delete one of the two", d.Taken)
}

// observe records nothing but that the plan was seen. Where the native controller
// spreads what a larger size adds over both versions, stable is made whole all the same.
func observe(d *draft) {
	if to := d.w.Target; to != nil && !to.Abort && d.w.Surges && !d.w.AtStable && d.w.Settled && !d.w.TargetApplied {
		d.act(planner.SetTarget{Target: *to, Metadata: d.plan.PodTemplateMetadata})
	}
}

func accept(d *draft) {
	d.status.ObservedReleasePlanHash = planner.BatchPlanHash(d.plan)
	d.status.ObservedRolloutID = d.plan.RolloutID
	if d.w != nil {
		d.status.WorkloadUID = d.w.UID
	}
}

func complete(d *draft) {
	accept(d)
	d.status.Phase, d.status.Drive = rollouts.PhaseCompleted, nil
	d.status.Message = ""
}

// completeWithout ends a batch whose workload does not exist.
func completeWithout(d *draft) {
	complete(d)
	enableScalers(d)
}

// enableScalers enables the autoscalers of a workload that does not exist: one of the same name that
// is created later could not be scaled.
func enableScalers(d *draft) {
	if d.w == nil && d.Taken == "" && d.DisabledScalers {
		d.act(planner.EnableScalers{})
	}
}

// giveBack restores the workload, in as many passes as it takes.
func giveBack(d *draft) {
	accept(d)
	if !d.w.HasManagedFields && d.w.Settled {
		complete(d)
		return
	}
	d.status.Phase = rollouts.PhaseFinalizing
	d.status.Message = ""
	wait := d.plan.FinalizingPolicy == rollouts.WaitResume
	switch kept := d.w.KeptFrom(wait, d.plan.Abort); {
	case wait && returning(d.facts):
		comeBack(d)
	case atWork(d.facts, wait):
		d.status.Message = cmp.Or(d.w.ExtraNeeded, d.w.DeletionBlocked, d.Trouble)
	case kept != "":
		d.status.Message = kept
	default:
		d.act(planner.RestoreWorkload{KeepPaused: d.plan.Abort, Wait: wait && !d.w.AtStable})
	}
}

// atWork reports whether the native controller of a workload that was given back is.
func atWork(f *facts, wait bool) bool {
	return f.w.Target == nil && (wait && f.w.Rolling || f.w.ExtraNeeded != "")
}

// returning reports whether the template is stable's again and pods of another
// revision are still to go. They go while the workload is held, so that a
// template which comes meanwhile starts from the same stable revision.
func returning(f *facts) bool {
	sized := replaces(f) || f.plan.RollingStyle == rollouts.StyleBlueGreen
	return sized && f.w.Held && f.w.AtStable && f.w.Target != nil && !f.w.Native && f.w.StableReplicas > 0
}

// comeBack tells a workload whose sizes are frozen, since its template changed,
// that they are now meant for the stable one. Pods that came beside stable's go as those
// of an abort do: given back with them, and held again by the next template, the native
// controller would spread what goes over both versions.
func comeBack(d *draft) {
	to := planner.Target{Owner: d.Release.UID, Abort: true}
	if replaces(d.facts) {
		to = planner.Target{Partition: intstr.FromString("100%"), Owner: d.Release.UID, Revision: planner.Planned(d.plan)}
	}
	if !told(d.facts, to) {
		setTarget(d, to)
	}
}

// setTarget stores how far the workload may go before it is written there. Where the store
// is what sizes go by, it is written there when the batch is there.
func setTarget(d *draft, to planner.Target) {
	d.status.Drive = &rollouts.Drive{Partition: to.Partition, KeepOne: to.KeepOne, Least: to.Least, Abort: to.Abort, Revision: to.Revision.Name, UpdateTemplate: to.Revision.Template}
	if was := d.w.Target; d.w.SizedByStore && d.w.TargetApplied && was != nil && was.Owner == to.Owner && !was.Abort && !to.Abort {
		return
	}
	d.act(planner.SetTarget{Target: to, Metadata: d.plan.PodTemplateMetadata})
}

// begin takes up a plan: the batch asked for, or the first one when the same
// batches are to be run for another rollout id.
func begin(d *draft) {
	last, was := int32(len(d.plan.Batches))-1, d.status.CurrentBatch
	d.status.CurrentBatch = max(min(*d.plan.BatchPartition, last), 0)
	if d.status.ObservedRolloutID != "" && d.status.ObservedRolloutID != d.plan.RolloutID {
		d.status.CurrentBatch = 0
	}
	d.begins, d.another = true, d.status.CurrentBatch != was
	accept(d)
	d.status.Phase = rollouts.PhaseProgressing
	d.status.StableRevision = d.w.StableRevision
	d.status.UpdateRevision, d.status.UpdateTemplate = d.w.UpdateRevision, d.w.UpdateTemplate
	switch {
	case !d.w.AtStable:
		d.status.NoNeedUpdateReplicas = nil
	case d.status.NoNeedUpdateReplicas == nil:
		// Back in batches: what is back already does not count.
		d.status.NoNeedUpdateReplicas = new(d.w.UpdatedReplicas)
	}
	again(d)
}

// again runs the current batch again.
func again(d *draft) {
	d.status.BatchState = rollouts.BatchUpgrading
	d.status.BatchReadyTime = nil
	d.status.ObservedWorkloadReplicas = d.w.Replicas
	d.status.Message = ""
	drive(d)
}

// drive tells the workload how far it may go and judges whether it is there.
func drive(d *draft) {
	if int(d.status.CurrentBatch) >= len(d.plan.Batches) {
		return
	}
	to := target(d.facts)
	switch {
	case asleep(d.facts):
	case shrunk(d.facts):
	case !told(d.facts, to), stopped(d.facts):
		announceRight(d, to)
		unready(d)
		if !barred(d.facts, to) {
			setTarget(d, to)
		}
		d.status.Message = cmp.Or(d.w.DeletionBlocked, d.w.Rival)
	case !d.w.Settled:
	case d.plan.Abort && isBack(d.facts) && !d.w.Native:
		d.act(planner.RestoreStrategy{})
	default:
		judge(d)
	}
}

// shrunk reports whether fewer pods are to be there than the store says. That is stored
// before anything is done about it: where pods are replaced on their nodes, the one that
// comes for a deleted one may not be there yet, and others may write the status.
func shrunk(f *facts) bool {
	return f.w.NewPodsUseTemplate && f.w.Replicas < f.Release.Status.ObservedWorkloadReplicas
}

// asleep reports whether the batch was stopped before there was a pod of it, in a style in
// which new pods come beside the old ones: it is told nothing until it goes on.
func asleep(f *facts) bool {
	return f.plan.Paused && !replaces(f) && !f.plan.Abort && f.w.Replicas > 0 && f.w.UpdatedReplicas == 0
}

// barred reports whether nothing is left to be told but what somebody else's object stands
// in the way of. It goes on when that is gone.
func barred(f *facts, to planner.Target) bool {
	return f.w.Rival != "" && f.w.Target != nil && *f.w.Target == to && !to.Abort && f.w.Paused && len(f.w.TamperedKeys) == 0
}

// announceRight announces that somebody else has written what the workload was told, of
// a batch that was ready and is wanted as it was.
func announceRight(d *draft, to planner.Target) {
	if d.status.BatchState != rollouts.BatchReady || d.w.Target == nil || *d.w.Target != to {
		return
	}
	if len(d.w.TamperedKeys) > 0 {
		d.events = append(d.events, planner.TamperedEvent(d.w.TamperedKeys))
	}
	if d.w.ExtraTampered {
		d.warn(planner.EventExtraPutRight, "the Deployment beside the workload was not as it is to be; only Weir writes it, and it was put right")
	}
}

// told reports whether the workload has been told so.
func told(f *facts, to planner.Target) bool {
	return f.w.Target != nil && *f.w.Target == to && f.w.TargetApplied
}

// stopped reports whether pods are missing which the native controller is to bring,
// and that it is still stopped since another template was refused. A batch that
// is complete needs nothing of it, and where stable is gone it would bring all.
func stopped(f *facts) bool {
	return f.plan.RollingStyle == rollouts.StyleBlueGreen && !f.plan.Abort && f.w.Paused && !reached(f) &&
		(!f.w.StableGone || f.w.UpdatedReplicas > 0)
}

// judge finds out whether the pods are as the batch wants them. A client that sees the
// batch ready may read the workload at once, so that its counts are written first.
func judge(d *draft) {
	if due := marks(d.facts); len(due) > 0 {
		d.act(planner.MarkPods{Marks: due})
	}
	ready := d.status.BatchState == rollouts.BatchReady
	switch {
	case !reached(d.facts), !ready && !marked(d.facts):
		if !ready {
			complain(d)
		}
		return
	case d.w.ExtraStatusStale:
		if d.act(planner.Tell{}); !ready {
			return
		}
	}
	count(d)
	if !ready {
		d.status.BatchState = rollouts.BatchReady
		d.status.BatchReadyTime = new(metav1.NewTime(d.Now.Truncate(time.Second)))
		d.status.Message = ""
	}
	nextBatch(d)
}

// nextBatch goes on at once where more than one may run.
func nextBatch(d *draft) {
	if *d.plan.BatchPartition > d.status.CurrentBatch && int(d.status.CurrentBatch)+1 < len(d.plan.Batches) {
		d.status.CurrentBatch++
		d.another = true
		again(d)
	}
}

// complain says what keeps pods from being ready, if that is known.
func complain(d *draft) {
	if why := cmp.Or(d.Trouble, waitsForOthers(d.facts), d.w.DeletionBlocked); why != "" {
		d.status.BatchState, d.status.Message = rollouts.BatchVerifying, why
		count(d)
	}
}

// waitsForOthers returns the message that an abort keeps extra pods until other pods can
// serve; empty if it does not.
func waitsForOthers(f *facts) string {
	if !f.plan.Abort {
		return ""
	}
	return f.w.ExtraNeeded
}

// count tells of the pods. While they come it would only cost writes; when they
// do not, it is what people look for.
func count(d *draft) {
	d.status.UpdatedReplicas, d.status.UpdatedReadyReplicas = d.w.UpdatedReplicas, d.w.UpdatedReadyReplicas
}

// unready makes sure that no one reads an old Ready as this one.
func unready(d *draft) {
	if d.status.BatchState == rollouts.BatchReady {
		d.status.BatchState = rollouts.BatchUpgrading
		d.status.BatchReadyTime = nil
	}
}
