// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package forecast computes the expected course of a release. It runs the code that decides about
// releases: batch and sizes decide repeatedly about a simulated workload whose pods become ready at
// once, until nothing changes. The package is pure. It must not know how objects are read, nor for whom.
package forecast

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Start is the state in which a release begins or continues.
type Start struct {
	Rollout *rollouts.Rollout
	// Workload is observed with the template that is released.
	Workload planner.Workload
	// Surge is the number of additional pods that the owner allows.
	Surge int32
	// Update, Stable and Others are the current numbers of pods.
	Update, Stable, Others int32
	// Batch is the BatchRelease of the release under way; nil if there is none yet.
	Batch *rollouts.BatchRelease
	// UnderWay reports whether the release has begun, and RollingBack whether it returns to the
	// stable revision. StaysAborted reports whether it then waits until a user decides what is next.
	UnderWay, RollingBack, StaysAborted bool
}

// The states of steps.
const (
	Done    = "Done"
	Current = "Current"
	Next    = "Next"
	Back    = "Back"
	End     = "End"
)

// Moment has the numbers of pods, and of ready pods, at one point of the release.
type Moment struct {
	Step                  int32
	Update, Stable, Ready int32
}

// Forecast is the expected course of a release.
type Forecast struct {
	Steps []rollouts.PlannedStep
	// Moments are the points at which a number changes, in order.
	Moments []Moment
	// Truncated reports whether the forecast stops early because pods are replaced too often.
	Truncated bool
}

const (
	uid      = types.UID("forecast")
	revision = "update"
	// maxMoves limits how often pods are added or removed.
	maxMoves = 10_000
	// maxWaves limits the waves of a step.
	maxWaves = 50
)

// Compute simulates the release and returns the forecast.
func Compute(b Start) Forecast {
	_, plan := b.Rollout.Spec.Strategy.Active()
	if plan == nil {
		return Forecast{}
	}
	r := newSimulation(b, rollouts.StyleFor(&b.Rollout.Spec.Strategy, b.Rollout.Spec.WorkloadRef), plan)
	if b.RollingBack {
		r.runRollback()
		return r.Forecast
	}
	at := int32(1)
	if p := b.Rollout.Status.Active(); b.UnderWay && p != nil {
		at = max(p.CurrentStepIndex, 1)
	}
	for i := range plan.Steps {
		n := int32(i) + 1 //nolint:gosec // validation bounds the steps
		r.runStep(n, &plan.Steps[i], at)
	}
	r.runEnd()
	return r.Forecast
}

// simulation is a release while it is simulated.
type simulation struct {
	Forecast
	// Start changes during the simulation.
	Start
	style rollouts.Style
	plan  *rollouts.Release
	// currentStep is the step that is being simulated.
	currentStep *rollouts.PlannedStep
	moves       int
}

func newSimulation(b Start, style rollouts.Style, plan *rollouts.Release) *simulation {
	r := &simulation{Start: b, style: style, plan: plan}
	if r.Batch = b.Batch.DeepCopy(); r.Batch == nil {
		r.Batch = &rollouts.BatchRelease{}
	}
	r.Batch.UID = uid
	r.Batch.Spec.Plan = rollouts.ReleasePlan{
		Batches: planner.BatchesOf(plan), FailureThreshold: plan.FailureThreshold, RollingStyle: style, Revision: revision,
		ExtraWorkload: style == rollouts.StyleCanary,
	}
	if d := r.Batch.Status.Drive; d != nil {
		d.Revision, d.UpdateTemplate = revision, ""
	}
	w := &r.Workload
	w.UpdateRevision, w.PodTemplateHash, w.StableRevision, w.LiveRevision = revision, revision, "stable", revision
	w.UpdateTemplate, w.StableTemplate = "", ""
	w.UID, r.Batch.Status.WorkloadUID = uid, uid
	w.Held, w.Paused, w.Settled, w.HasStableTemplate, w.OwnerStrategyActive, w.StableRevisionGone, w.NativeUpdateRunning = true, true, true, false, false, false, false
	w.Extra.NameConflict, w.Deleted, w.HasSurplusPods, w.ExtraStatusStale, w.Target = "", "", false, false, targetOf(r.Batch.Status.Drive)
	w.TargetApplied = w.Target != nil
	r.updateWorkloadCounts()
	r.Moments = append(r.Moments, Moment{Update: r.Update, Stable: r.Stable + r.Others, Ready: r.totalPods()})
	return r
}

// totalPods returns the number of all pods.
func (r *simulation) totalPods() int32 { return r.Update + r.Stable + r.Others }

// podCounts returns the numbers of updated, stable and other pods.
func (r *simulation) podCounts() [3]int32 { return [3]int32{r.Update, r.Stable, r.Others} }

func targetOf(d *rollouts.Drive) *planner.Target {
	if d == nil {
		return nil
	}
	return &planner.Target{Partition: d.Partition, KeepOne: d.KeepOne, MinExtraReplicas: d.Least, Abort: d.Abort, Revision: planner.Revision{Name: d.Revision, Template: d.UpdateTemplate}, Owner: uid}
}

// updateWorkloadCounts sets the pod counts of the simulated workload. All pods are ready.
func (r *simulation) updateWorkloadCounts() {
	r.Workload.UpdatedReplicas, r.Workload.UpdatedReadyReplicas = r.Update, r.Update
	r.Workload.StableReplicas, r.Workload.StableReadyReplicas, r.Workload.SupersededReplicas = r.Stable+r.Others, r.Stable, r.Others
	r.Workload.LiveReadyReplicas = r.Update
}

// runStep simulates one step of the plan.
func (r *simulation) runStep(n int32, step *rollouts.Step, at int32) {
	planned := rollouts.PlannedStep{Step: n, State: Next, Then: r.stepEnd(n, step)}
	if isRouted(r.plan) {
		planned.Traffic, planned.Match = planner.RouteOf(*step).Weight, planner.DescribeMatches(step.Matches)
	}
	switch {
	case n < at:
		planned.State = Done
	case n == at && r.UnderWay:
		planned.State = Current
	}
	r.beginStep(planned)
	switch {
	case step.Replicas == nil:
		return
	case planned.State == Done:
		r.setPastStepPods(*step.Replicas)
		return
	}
	partition := n - 1
	r.Batch.Spec.Plan.BatchPartition = &partition
	r.runBatch()
	r.finishStep()
}

// runRollback simulates the return to the stable revision.
func (r *simulation) runRollback() {
	then := "none"
	if r.StaysAborted {
		then = "decision" // retry, rollback or another version
	}
	r.beginStep(rollouts.PlannedStep{State: Back, Then: rollouts.Then{For: then}})
	plan := &r.Batch.Spec.Plan
	plan.Batches, plan.BatchPartition, plan.Abort = []rollouts.Batch{{CanaryReplicas: intstr.FromInt32(0)}}, new(int32), true
	r.runBatch()
	r.finishStep()
}

// runEnd simulates the end of the release, if it adds or removes pods.
func (r *simulation) runEnd() {
	if r.style != rollouts.StyleCanary && r.style != rollouts.StyleBlueGreen || len(r.Steps) == 0 {
		return
	}
	r.beginStep(rollouts.PlannedStep{State: End, Then: rollouts.Then{For: "none"}})
	if r.style == rollouts.StyleCanary {
		// The Deployment controller replaces the stable pods, and then the canary pods are removed.
		beside := r.Update
		r.recordMoment(r.Update+r.Workload.Replicas, 0, beside+r.Workload.Replicas-r.Workload.MaxUnavailable)
		r.recordMoment(r.Update+r.Surge, r.Workload.Replicas, beside+r.Workload.Replicas-r.Workload.MaxUnavailable)
	}
	r.movePods(r.Workload.Replicas-r.Update, -r.Stable-r.Others)
	r.finishStep()
}

func (r *simulation) beginStep(s rollouts.PlannedStep) {
	s.Peak, s.MinReady = r.totalPods(), r.totalPods()
	r.Steps = append(r.Steps, s)
	r.currentStep = &r.Steps[len(r.Steps)-1]
	r.finishStep()
}

func (r *simulation) finishStep() { r.setStepPods(r.Update, r.Stable+r.Others) }

// setStepPods sets the numbers of pods at the end of the step, and the load of a new pod.
func (r *simulation) setStepPods(update, stable int32) {
	r.currentStep.Update, r.currentStep.Stable, r.currentStep.PerPod = update, stable, ""
	if load := Load(*r.currentStep, r.Workload.Replicas); load > 0 {
		r.currentStep.PerPod = fmt.Sprintf("%.1fx", load)
	}
}

// setPastStepPods sets the numbers of pods of a step that is done, computed from the size of the
// step.
func (r *simulation) setPastStepPods(size intstr.IntOrString) {
	update, stable := r.Workload.Limit(r.style, size), r.Stable+r.Others
	if r.style == rollouts.StylePartition {
		stable = max(r.Workload.Replicas-update, 0)
	}
	r.setStepPods(update, stable)
}

// isRouted reports whether a plan routes requests at all. The shares of steps have no effect otherwise.
func isRouted(plan *rollouts.Release) bool {
	return len(plan.TrafficRoutings) > 0 || plan.TrafficRouting() != ""
}

// Load returns the load of a new pod relative to the load of a pod before the release, when replicas pods got all
// requests; 0 if the step sends no share to new pods. Old pods do not count: in the blue-green style they are idle.
func Load(s rollouts.PlannedStep, replicas int32) float64 {
	if s.Traffic == nil || *s.Traffic == 0 || s.Update == 0 {
		return 0
	}
	return float64(*s.Traffic) / 100 * float64(replicas) / float64(s.Update)
}

// runBatch repeats the decisions about the batch until the batch is ready, or until nothing
// changes.
func (r *simulation) runBatch() {
	r.Batch.Generation++
	for ; r.moves < maxMoves; r.moves++ {
		r.Batch.Status = planner.DecideBatch(planner.BatchInput{Release: r.Batch, Workload: &r.Workload, RolloutExists: true, OwnedByRollout: true, Now: time.Unix(0, 0)}).Status
		back := r.Batch.Spec.Plan.Abort && r.Update == 0 && r.Stable >= r.Workload.Replicas
		if back || r.Batch.Status.BatchState == rollouts.BatchReady {
			return
		}
		was, to, before := r.Workload.Target, targetOf(r.Batch.Status.Drive), r.podCounts()
		r.applyTarget(to)
		if told := was == nil || to == nil || *was != *to; !told && r.podCounts() == before {
			return
		}
	}
	r.Truncated = true
}

// applyTarget moves pods once toward a new target or, without one, toward the previous target.
func (r *simulation) applyTarget(to *planner.Target) {
	if to != nil {
		r.Workload.Target, r.Workload.TargetApplied = to, true
	}
	if r.Workload.Target != nil {
		r.moveToTarget(*r.Workload.Target)
	}
	r.updateWorkloadCounts()
}

// stepEnd returns what a step waits for after its pods and its traffic.
func (r *simulation) stepEnd(n int32, step *rollouts.Step) rollouts.Then {
	then := rollouts.Then{For: string(planner.WaitApproval), Checks: planner.StepChecks(r.plan, n)}
	p := r.Rollout.Status.Active()
	switch promoted := r.UnderWay && p != nil && p.FullyPromoted; {
	case promoted || planner.PassesWithoutApproval(r.style, r.plan, n):
		then.For = "none"
	case step.Pause.Duration != nil:
		then.For, then.Seconds = string(planner.WaitTime), step.Pause.Duration
	}
	return then
}
