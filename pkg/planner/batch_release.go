// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// DecideBatch decides the next status of a BatchRelease: how many pods of the workload may run the
// update revision, and whether the pods of the current batch are ready. It does not know about
// traffic, steps or approvals. The first case that applies decides.
func DecideBatch(in BatchInput) BatchDecision {
	d := newBatchDraft(in)
	var rule string
	switch {
	case d.isDeleted():
		rule = "deleted"
		d.finalize()
	case d.status.Phase == rollouts.PhaseCompleted && !d.planChanged():
		rule = "completed"
	case d.ReleasedBy != "":
		// Two releases of one workload would overwrite each other's target.
		rule = "taken"
		d.status.Drive = nil
		d.status.Message = fmt.Sprintf("Rollout %[1]s already releases this workload, so this BatchRelease does nothing; delete this BatchRelease or Rollout %[1]s", d.ReleasedBy)
	case d.workload == nil:
		rule = "workload gone"
		d.complete()
		d.enableScalers()
	case !IsPlanFor(d.plan, d.workload):
		// The author of the plan decides what happens with the other template.
		rule = "other revision"
		d.restoreStableSize()
	case d.plan.BatchPartition == nil:
		rule = "giving back"
		d.restoreWorkload()
	case d.planChanged():
		rule = "new plan"
		d.acceptPlan()
		d.startBatch()
	case d.status.ObservedWorkloadReplicas != d.workload.Replicas:
		rule = "scaled"
		d.startBatch()
	default:
		rule = "in progress"
		d.runBatch()
	}
	d.status.Conditions, _ = ClearWriteError(d.status.Conditions, len(d.effects) > 0)
	return BatchDecision{Status: d.status, Effects: d.effects, Events: d.events, Rule: rule}
}

// batchDraft is the decision about a BatchRelease while DecideBatch makes it.
type batchDraft struct {
	BatchInput
	// workload is nil if the workload of the BatchRelease does not exist.
	workload *Workload
	plan     rollouts.ReleasePlan
	status   rollouts.BatchReleaseStatus
	effects  []Effect
	events   []Event
	// planStarts reports whether this pass starts to execute a new plan, and batchChanges whether it
	// moves to another batch.
	planStarts, batchChanges bool
}

func newBatchDraft(in BatchInput) *batchDraft {
	d := &batchDraft{BatchInput: in, workload: in.Workload, plan: in.Release.Spec.Plan, status: *in.Release.Status.DeepCopy()}
	if w := d.workload; w != nil && (w.Deleted != "" || d.status.WorkloadUID != "" && w.UID != d.status.WorkloadUID) {
		d.workload = nil // a workload that was created later under the same name is another workload
	}
	d.status.ObservedGeneration = in.Release.Generation
	d.boundStatus()
	if d.workload != nil && d.workload.Extra.UID != "" {
		d.status.ExtraUID = d.workload.Extra.UID // stored before anything is done to the extra Deployment
	}
	return d
}

// boundStatus limits the stored status to values that the plan and the workload allow, because other
// clients can write the status. CurrentBatch must be a batch of the plan and not beyond
// BatchPartition. NoNeedUpdateReplicas (pods that are already back) is kept only while the workload
// has the stable template. After a change of the plan, BatchPartition is not applied.
func (d *batchDraft) boundStatus() {
	s := &d.status
	s.CurrentBatch = max(s.CurrentBatch, 0)
	if d.plan.BatchPartition != nil && !d.planChanged() {
		s.CurrentBatch = min(s.CurrentBatch, max(*d.plan.BatchPartition, 0), max(int32(len(d.plan.Batches))-1, 0)) //nolint:gosec // batches are few
	}
	if d.workload != nil && !d.workload.HasStableTemplate {
		s.NoNeedUpdateReplicas = nil
	}
}

func (d *batchDraft) act(e Effect) { d.effects = append(d.effects, e) }

// isDeleted reports whether the BatchRelease is deleted and its workload must be released. If the
// finalizer of Weir is gone and only finalizers of others keep the object, its Rollout continues to
// use the BatchRelease: an abort needs one, and no other can have its name.
func (d *batchDraft) isDeleted() bool {
	return d.Release.DeletionTimestamp != nil && (HasBatchFinalizer(d.Release) || !d.RolloutExists)
}

func (d *batchDraft) planChanged() bool {
	return d.status.ObservedReleasePlanHash != BatchPlanHash(d.plan)
}

// replacesPods reports whether new pods replace stable pods, rather than run beside them.
func (d *batchDraft) replacesPods() bool {
	return d.plan.RollingStyle == rollouts.StylePartition || d.plan.RollingStyle == ""
}

// finalize removes the finalizer of a deleted BatchRelease when nothing depends on it any more. It
// restores the workload first, unless a Rollout owns the BatchRelease: the Rollout restores the
// workload itself, or creates another BatchRelease.
func (d *batchDraft) finalize() {
	w := d.workload
	if d.status.Phase != rollouts.PhaseCompleted && !d.OwnedByRollout && d.ReleasedBy == "" && w != nil {
		if d.restoreWorkload(); d.status.Phase != rollouts.PhaseCompleted {
			return
		}
	}
	// Without a BatchRelease the native controller could continue up to the last target, and the
	// Rollout could not distinguish that from a user who unpaused the workload. Stop it first.
	unstopped := w != nil && d.RolloutExists && d.plan.BatchPartition != nil && w.Held && !w.Paused && !w.UsesSurge &&
		!w.HasStableTemplate && w.LiveRevision != w.StableRevision
	if unstopped {
		d.act(HoldWorkload{Again: true})
		return
	}
	d.enableScalers()
	if w != nil && w.Extra.Exists {
		d.act(DeleteExtraWorkload{}) // the garbage collector would delete the extra Deployment as well, but later
	}
	if HasBatchFinalizer(d.Release) {
		d.act(RemoveFinalizer{})
	}
}

// restoreStableSize gives the stable revision all its pods while the workload has a template that the
// plan is not for. After a scale-up, the native controller of a surging workload has spread the added
// pods over both versions.
func (d *batchDraft) restoreStableSize() {
	w := d.workload
	if w.Target != nil && !w.Target.Abort && w.UsesSurge && !w.HasStableTemplate && w.Settled && !w.TargetApplied {
		d.act(SetTarget{Target: *w.Target, Metadata: d.plan.PodTemplateMetadata})
	}
}

// observePlan records that the plan and the workload were observed.
func (d *batchDraft) observePlan() {
	d.status.ObservedReleasePlanHash = BatchPlanHash(d.plan)
	d.status.ObservedRolloutID = d.plan.RolloutID
	if d.workload != nil {
		d.status.WorkloadUID = d.workload.UID
	}
}

func (d *batchDraft) complete() {
	d.observePlan()
	d.status.Phase, d.status.Drive, d.status.Message = rollouts.PhaseCompleted, nil, ""
}

// enableScalers enables the autoscalers of a workload that does not exist. Otherwise a workload that
// is created later under the same name would not be scaled.
func (d *batchDraft) enableScalers() {
	if d.workload == nil && d.ReleasedBy == "" && d.DisabledScalers {
		d.act(EnableScalers{})
	}
}

// restoreWorkload gives the workload back to its owner and its native controller. It takes several
// passes.
func (d *batchDraft) restoreWorkload() {
	w := d.workload
	d.observePlan()
	if !w.HasManagedFields && w.Settled {
		d.complete()
		return
	}
	d.status.Phase = rollouts.PhaseFinalizing
	d.status.Message = ""
	wait := d.plan.FinalizingPolicy == rollouts.WaitResume
	// The template is the stable one again and pods of another revision still exist. These pods go
	// while the workload is held: if the template changes again meanwhile, the next release starts
	// from the same stable revision.
	returnsToStable := (d.replacesPods() || d.plan.RollingStyle == rollouts.StyleBlueGreen) &&
		w.Held && w.HasStableTemplate && w.Target != nil && !w.OwnerStrategyActive && w.StableReplicas > 0
	nativeControllerWorks := w.Target == nil && (wait && w.NativeUpdateRunning || w.Extra.Needed != "")
	kept := w.BlocksRestore(wait, d.plan.Abort)
	switch {
	case wait && returnsToStable:
		// The target applies to the stable template now. Pods that run beside the stable pods go as
		// in an abort: if the workload was restored first and the next template was held meanwhile, the native
		// controller would remove pods of both versions.
		target := Target{Owner: d.Release.UID, Abort: true}
		if d.replacesPods() {
			target = Target{Partition: intstr.FromString("100%"), Owner: d.Release.UID, Revision: RevisionOfPlan(d.plan)}
		}
		if !d.isApplied(target) {
			d.setTarget(target)
		}
	case nativeControllerWorks:
		d.status.Message = cmp.Or(w.Extra.Needed, w.DeletionBlocked, d.PodProblem.Message)
	case kept != "":
		d.status.Message = kept
	default:
		d.act(RestoreWorkload{KeepPaused: d.plan.Abort, Wait: wait && !w.HasStableTemplate})
	}
}

// acceptPlan starts to execute a plan: from the batch that the plan asks for, or from the first batch
// if the same batches are to be executed for another rollout ID.
func (d *batchDraft) acceptPlan() {
	last, previous := int32(len(d.plan.Batches))-1, d.status.CurrentBatch
	d.status.CurrentBatch = max(min(*d.plan.BatchPartition, last), 0)
	if d.status.ObservedRolloutID != "" && d.status.ObservedRolloutID != d.plan.RolloutID {
		d.status.CurrentBatch = 0
	}
	d.planStarts, d.batchChanges = true, d.status.CurrentBatch != previous
	d.observePlan()
	d.status.Phase = rollouts.PhaseProgressing
	d.status.StableRevision = d.workload.StableRevision
	d.status.UpdateRevision, d.status.UpdateTemplate = d.workload.UpdateRevision, d.workload.UpdateTemplate
	switch {
	case !d.workload.HasStableTemplate:
		d.status.NoNeedUpdateReplicas = nil
	case d.status.NoNeedUpdateReplicas == nil:
		// A rollback in batches: the pods that are already back do not count.
		d.status.NoNeedUpdateReplicas = new(d.workload.UpdatedReplicas)
	}
}

// startBatch starts the current batch, or starts it again after the workload was scaled.
func (d *batchDraft) startBatch() {
	d.status.BatchState = rollouts.BatchUpgrading
	d.status.BatchReadyTime = nil
	d.status.ObservedWorkloadReplicas = d.workload.Replicas
	d.status.Message = ""
	d.runBatch()
}

// runBatch writes the target of the current batch to the workload, and checks whether the pods have
// reached it.
func (d *batchDraft) runBatch() {
	w := d.workload
	if int(d.status.CurrentBatch) >= len(d.plan.Batches) {
		return
	}
	target := d.target()
	// A paused plan of a style whose new pods run beside the old ones writes no target before the
	// first new pod exists.
	pausedBeforeFirstPod := d.plan.Paused && !d.replacesPods() && !d.plan.Abort && w.Replicas > 0 && w.UpdatedReplicas == 0
	// A smaller size is stored before anything is done about it. Where pods are replaced on their
	// nodes, the replacement of a deleted pod may not exist yet, and others may write the status.
	shrinks := w.NewPodsUseTemplate && w.Replicas < d.Release.Status.ObservedWorkloadReplicas
	switch {
	case pausedBeforeFirstPod, shrinks:
	case !d.isApplied(target), d.isStopped():
		d.warnAboutRepair(target)
		if d.status.BatchState == rollouts.BatchReady {
			// A client must not read the Ready of the earlier target as that of the new one.
			d.status.BatchState, d.status.BatchReadyTime = rollouts.BatchUpgrading, nil
		}
		if !d.isBlockedByConflict(target) {
			d.setTarget(target)
		}
		d.status.Message = cmp.Or(w.DeletionBlocked, w.Extra.NameConflict)
	case !w.Settled:
	case d.plan.Abort && d.isBackToStable() && !w.OwnerStrategyActive:
		d.act(RestoreStrategy{})
	default:
		d.checkPods()
	}
}

// isApplied reports whether the target is written to the workload.
func (d *batchDraft) isApplied(target Target) bool {
	return d.workload.Target != nil && *d.workload.Target == target && d.workload.TargetApplied
}

// isStopped reports whether pods are missing in a blue-green release because the native controller is
// still paused since the release refused another template. A complete batch does not need the native
// controller, and without a stable revision the controller would update all pods.
func (d *batchDraft) isStopped() bool {
	return d.plan.RollingStyle == rollouts.StyleBlueGreen && !d.plan.Abort && d.workload.Paused && !d.targetReached() &&
		(!d.workload.StableRevisionGone || d.workload.UpdatedReplicas > 0)
}

// isBlockedByConflict reports whether the target is written and only the object of another owner,
// with the name of the extra Deployment, prevents its effect. The batch continues when that object is
// gone.
func (d *batchDraft) isBlockedByConflict(target Target) bool {
	w := d.workload
	return w.Extra.NameConflict != "" && w.Target != nil && *w.Target == target && !target.Abort && w.Paused && len(w.TamperedKeys) == 0
}

// warnAboutRepair announces that somebody has changed Weir's records on the workload, or the extra
// Deployment, after the batch was ready with the same target.
func (d *batchDraft) warnAboutRepair(target Target) {
	w := d.workload
	if d.status.BatchState != rollouts.BatchReady || w.Target == nil || *w.Target != target {
		return
	}
	if len(w.TamperedKeys) > 0 {
		d.events = append(d.events, TamperedEvent(w.TamperedKeys))
	}
	if w.Extra.Tampered {
		d.events = append(d.events, Event{
			Warning: true, Reason: EventExtraRepaired,
			Message: "another client changed the canary Deployment, and Weir restores it; do not edit this Deployment",
		})
	}
}

// setTarget stores the target in the status and then writes it to the workload. If the ReplicaSets are
// sized by the stored status alone, the target is written to the workload when the batch is ready.
func (d *batchDraft) setTarget(target Target) {
	w := d.workload
	d.status.Drive = &rollouts.Drive{
		Partition: target.Partition, KeepOne: target.KeepOne, Least: target.MinExtraReplicas, Abort: target.Abort,
		Revision: target.Revision.Name, UpdateTemplate: target.Revision.Template,
	}
	previous := w.Target
	if w.SizedByStore && w.TargetApplied && previous != nil && previous.Owner == target.Owner && !previous.Abort && !target.Abort {
		return
	}
	d.act(SetTarget{Target: target, Metadata: d.plan.PodTemplateMetadata})
}

// checkPods sets the batch to Ready when its pods have reached the target, and reports what keeps them
// from it otherwise. A client that sees the batch Ready may read the workload immediately, so the
// counts on the workload and the labels of the pods are written first.
func (d *batchDraft) checkPods() {
	missing := d.missingLabels()
	if len(missing) > 0 {
		d.act(LabelPods{Labels: missing})
	}
	wasReady := d.status.BatchState == rollouts.BatchReady
	if !d.targetReached() || !wasReady && !d.allPodsLabelled(missing) {
		problem := cmp.Or(d.PodProblem.Message, d.workload.DeletionBlocked)
		if d.plan.Abort {
			problem = cmp.Or(d.PodProblem.Message, d.workload.Extra.Needed, d.workload.DeletionBlocked)
		}
		if !wasReady && problem != "" {
			d.status.BatchState, d.status.Message = rollouts.BatchVerifying, problem
			d.countPods()
		}
		return
	}
	if d.workload.ExtraStatusStale {
		d.act(UpdateExtraStatus{})
		if !wasReady {
			return
		}
	}
	d.countPods()
	if !wasReady {
		d.status.BatchState = rollouts.BatchReady
		d.status.BatchReadyTime = new(metav1.NewTime(d.Now.Truncate(time.Second)))
		d.status.Message = ""
	}
	if *d.plan.BatchPartition > d.status.CurrentBatch && int(d.status.CurrentBatch)+1 < len(d.plan.Batches) {
		// The plan allows several batches: start the next one in the same write.
		d.status.CurrentBatch++
		d.batchChanges = true
		d.startBatch()
	}
}

// countPods stores how many pods are updated and ready. It is called when the batch is ready or stuck:
// to count each pod as it comes would be one write per pod.
func (d *batchDraft) countPods() {
	d.status.UpdatedReplicas, d.status.UpdatedReadyReplicas = d.workload.UpdatedReplicas, d.workload.UpdatedReadyReplicas
}
