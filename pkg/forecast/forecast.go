// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package forecast answers what a release will do. It asks the code that will do it: batch
// and sizes decide again and again about a workload whose pods get ready at once, until
// nothing moves. It is pure, and must not know who asks, nor how anything is read.
package forecast

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Begin is what a release begins with, or goes on from.
type Begin struct {
	Rollout *rollouts.Rollout
	// Workload as it is observed with the template that is released.
	Workload planner.Workload
	// Surge is how many pods the owner allows to come beside.
	Surge int32
	// Update, Stable and Others are how many pods there are.
	Update, Stable, Others int32
	// Batch is the BatchRelease of the release under way; nil before it has one.
	Batch *rollouts.BatchRelease
	// UnderWay reports whether the release has begun, and Back whether it goes back.
	UnderWay, Back bool
}

// The states of steps.
const (
	Done    = "Done"
	Current = "Current"
	Next    = "Next"
	Back    = "Back"
	End     = "End"
)

// Moment is how many pods there are at once, and how many of them are ready.
type Moment struct {
	Step                  int32
	Update, Stable, Ready int32
}

// Forecast is what a release will do.
type Forecast struct {
	Steps []rollouts.PlannedStep
	// Moments are those at which something changes, from the beginning.
	Moments []Moment
	// Cut reports whether pods move more often than is looked at.
	Cut bool
}

const (
	uid      = types.UID("forecast")
	revision = "update"
	// mostMoves bounds how often pods move.
	mostMoves = 10_000
	// maxWaves bounds the waves that a step has.
	maxWaves = 50
)

// Of says it.
func Of(b Begin) Forecast {
	_, plan := b.Rollout.Spec.Strategy.Active()
	if plan == nil {
		return Forecast{}
	}
	r := newRun(b, rollouts.StyleFor(&b.Rollout.Spec.Strategy, b.Rollout.Spec.WorkloadRef), plan)
	if b.Back {
		r.back()
		return r.Forecast
	}
	at := int32(1)
	if p := b.Rollout.Status.Active(); b.UnderWay && p != nil {
		at = max(p.CurrentStepIndex, 1)
	}
	for i := range plan.Steps {
		n := int32(i) + 1 //nolint:gosec // validation bounds the steps
		r.step(n, &plan.Steps[i], at)
	}
	r.end()
	return r.Forecast
}

// run is a release as it goes.
type run struct {
	Forecast
	// Begin changes as the release goes.
	Begin
	style rollouts.Style
	plan  *rollouts.Release
	// now is the step under way.
	now   *rollouts.PlannedStep
	moves int
}

func newRun(b Begin, style rollouts.Style, plan *rollouts.Release) *run {
	r := &run{Begin: b, style: style, plan: plan}
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
	w.NameConflict, w.Deleted, w.HasSurplusPods, w.ExtraStatusStale, w.Target = "", "", false, false, target(r.Batch.Status.Drive)
	w.TargetApplied = w.Target != nil
	r.count()
	r.Moments = append(r.Moments, Moment{Update: r.Update, Stable: r.Stable + r.Others, Ready: r.all()})
	return r
}

// all is how many pods there are.
func (r *run) all() int32 { return r.Update + r.Stable + r.Others }

// pods are those of the new version, of stable, and of others.
func (r *run) pods() [3]int32 { return [3]int32{r.Update, r.Stable, r.Others} }

func target(d *rollouts.Drive) *planner.Target {
	if d == nil {
		return nil
	}
	return &planner.Target{Partition: d.Partition, KeepOne: d.KeepOne, MinExtraReplicas: d.Least, Abort: d.Abort, Revision: planner.Revision{Name: d.Revision, Template: d.UpdateTemplate}, Owner: uid}
}

// count has the workload say how many pods there are, all of them ready.
func (r *run) count() {
	r.Workload.UpdatedReplicas, r.Workload.UpdatedReadyReplicas = r.Update, r.Update
	r.Workload.StableReplicas, r.Workload.StableReadyReplicas, r.Workload.SupersededReplicas = r.Stable+r.Others, r.Stable, r.Others
	r.Workload.LiveReadyReplicas = r.Update
}

// step runs one step of the plan.
func (r *run) step(n int32, step *rollouts.Step, at int32) {
	planned := rollouts.PlannedStep{Step: n, State: Next, Traffic: planner.RouteOf(*step).Weight, Then: r.then(n, step)}
	switch {
	case n < at:
		planned.State = Done
	case n == at && r.UnderWay:
		planned.State = Current
	}
	r.begin(planned)
	switch {
	case step.Replicas == nil:
		return
	case planned.State == Done:
		r.had(*step.Replicas)
		return
	}
	partition := n - 1
	r.Batch.Spec.Plan.BatchPartition = &partition
	r.settle()
	r.finish()
}

// back runs the way back of an abort.
func (r *run) back() {
	r.begin(rollouts.PlannedStep{State: Back, Then: rollouts.Then{For: "approval"}})
	plan := &r.Batch.Spec.Plan
	plan.Batches, plan.BatchPartition, plan.Abort = []rollouts.Batch{{CanaryReplicas: intstr.FromInt32(0)}}, new(int32), true
	r.settle()
	r.finish()
}

// end gives the workload back, where that moves pods.
func (r *run) end() {
	if r.style != rollouts.StyleCanary && r.style != rollouts.StyleBlueGreen || len(r.Steps) == 0 {
		return
	}
	r.begin(rollouts.PlannedStep{State: End, Then: rollouts.Then{For: "none"}})
	if r.style == rollouts.StyleCanary {
		// The native controller replaces the stable pods, and those beside them go then.
		beside := r.Update
		r.note(r.Update+r.Workload.Replicas, 0, beside+r.Workload.Replicas-r.Workload.MaxUnavailable)
		r.note(r.Update+r.Surge, r.Workload.Replicas, beside+r.Workload.Replicas-r.Workload.MaxUnavailable)
	}
	r.move(r.Workload.Replicas-r.Update, -r.Stable-r.Others)
	r.finish()
}

func (r *run) begin(s rollouts.PlannedStep) {
	s.Peak, s.MinReady = r.all(), r.all()
	r.Steps = append(r.Steps, s)
	r.now = &r.Steps[len(r.Steps)-1]
	r.finish()
}

func (r *run) finish() { r.share(r.Update, r.Stable+r.Others) }

// share has the step say how many pods each version has, and what load one of the new has.
func (r *run) share(update, stable int32) {
	r.now.Update, r.now.Stable, r.now.PerPod = update, stable, ""
	if load := Load(*r.now); load > 0 {
		r.now.PerPod = fmt.Sprintf("%.1fx", load)
	}
}

// had says how many pods a step had that is done, by its size.
func (r *run) had(size intstr.IntOrString) {
	update, stable := r.Workload.Limit(r.style, size), r.Stable+r.Others
	if r.style == rollouts.StylePartition {
		stable = max(r.Workload.Replicas-update, 0)
	}
	r.share(update, stable)
}

// Load is the load of a new pod over the average; 0 where no share is sent to it.
func Load(s rollouts.PlannedStep) float64 {
	if s.Traffic == nil || *s.Traffic == 0 || s.Update == 0 {
		return 0
	}
	return float64(*s.Traffic) / 100 * float64(s.Update+s.Stable) / float64(s.Update)
}

// settle has the batch go on until it is ready, or nothing moves.
func (r *run) settle() {
	r.Batch.Generation++
	for ; r.moves < mostMoves; r.moves++ {
		r.Batch.Status = planner.DecideBatch(planner.BatchInput{Release: r.Batch, Workload: &r.Workload, RolloutExists: true, OwnedByRollout: true, Now: time.Unix(0, 0)}).Status
		back := r.Batch.Spec.Plan.Abort && r.Update == 0 && r.Stable >= r.Workload.Replicas
		if back || r.Batch.Status.BatchState == rollouts.BatchReady {
			return
		}
		was, to, before := r.Workload.Target, target(r.Batch.Status.Drive), r.pods()
		r.follow(to)
		if told := was == nil || to == nil || *was != *to; !told && r.pods() == before {
			return
		}
	}
	r.Cut = true
}

// follow has pods move once as the batch says, or said before.
func (r *run) follow(to *planner.Target) {
	if to != nil {
		r.Workload.Target, r.Workload.TargetApplied = to, true
	}
	if r.Workload.Target != nil {
		r.drive(*r.Workload.Target)
	}
	r.count()
}

// then is what ends a step.
func (r *run) then(n int32, step *rollouts.Step) rollouts.Then {
	p := r.Rollout.Status.Active()
	switch promoted := r.UnderWay && p != nil && p.FullyPromoted; {
	case promoted || planner.PassesWithoutApproval(r.style, r.plan, n):
		return rollouts.Then{For: "none"}
	case step.Pause.Duration != nil:
		return rollouts.Then{For: string(planner.WaitTime), Seconds: step.Pause.Duration}
	default:
		return rollouts.Then{For: string(planner.WaitApproval)}
	}
}
