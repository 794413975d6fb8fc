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
	"github.com/weir-rollouts/weir/pkg/batch"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
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
	style, plan := rollouts.StyleFor(&b.Rollout.Spec.Strategy, b.Rollout.Spec.WorkloadRef), (*rollouts.Release)(nil)
	if _, plan = b.Rollout.Spec.Strategy.Active(); plan == nil {
		return Forecast{}
	}
	r := newRun(b, style, plan)
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
	Begin
	style rollouts.Style
	plan  *rollouts.Release
	w     planner.Workload
	batch *rollouts.BatchRelease
	// now is the step under way, and what of it is known.
	now                    *rollouts.PlannedStep
	update, stable, others int32
	moves                  int
}

func newRun(b Begin, style rollouts.Style, plan *rollouts.Release) *run {
	r := &run{Begin: b, style: style, plan: plan, w: b.Workload, batch: &rollouts.BatchRelease{}, update: b.Update, stable: b.Stable, others: b.Others}
	if b.Batch != nil {
		r.batch = b.Batch.DeepCopy()
	}
	r.batch.UID = uid
	r.batch.Spec.Plan = rollouts.ReleasePlan{
		Batches: planner.BatchesOf(plan), FailureThreshold: plan.FailureThreshold, RollingStyle: style, Revision: revision,
		ExtraWorkload: style == rollouts.StyleCanary,
	}
	if d := r.batch.Status.Drive; d != nil {
		d.Revision = revision
	}
	w := &r.w
	w.UpdateRevision, w.PodTemplateHash, w.StableRevision, w.LiveRevision = revision, revision, "stable", revision
	w.UID, r.batch.Status.WorkloadUID = uid, uid
	w.Held, w.Paused, w.Settled, w.AtStable, w.Native, w.StableGone, w.Rolling = true, true, true, false, false, false, false
	w.Rival, w.Deleted, w.Shrinks, w.ExtraStatusStale, w.Target = "", "", false, false, target(r.batch.Status.Drive)
	w.TargetApplied = w.Target != nil
	r.count()
	r.Moments = append(r.Moments, Moment{Update: r.update, Stable: r.stable + r.others, Ready: r.update + r.stable + r.others})
	return r
}

func target(d *rollouts.Drive) *planner.Target {
	if d == nil {
		return nil
	}
	return &planner.Target{Partition: d.Partition, KeepOne: d.KeepOne, Least: d.Least, Abort: d.Abort, Revision: d.Revision, Owner: uid}
}

// count has the workload say how many pods there are, all of them ready.
func (r *run) count() {
	r.w.UpdatedReplicas, r.w.UpdatedReadyReplicas = r.update, r.update
	r.w.StableReplicas, r.w.StableReadyReplicas, r.w.SupersededReplicas = r.stable+r.others, r.stable, r.others
	r.w.LiveReadyReplicas = r.update
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
	if planned.State == Done || step.Replicas == nil {
		return
	}
	partition := n - 1
	r.batch.Spec.Plan.BatchPartition = &partition
	r.settle()
	r.finish()
}

// back runs the way back of an abort.
func (r *run) back() {
	r.begin(rollouts.PlannedStep{State: Back, Then: rollouts.Then{For: "approval"}})
	plan := &r.batch.Spec.Plan
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
		beside := r.update
		r.note(r.update+r.w.Replicas, 0, beside+r.w.Replicas-r.w.Unavailable)
		r.note(r.update+r.Surge, r.w.Replicas, beside+r.w.Replicas-r.w.Unavailable)
	}
	r.move(r.w.Replicas-r.update, -r.stable-r.others)
	r.finish()
}

func (r *run) begin(s rollouts.PlannedStep) {
	s.Peak, s.MinReady = r.update+r.stable+r.others, r.update+r.stable+r.others
	r.Steps = append(r.Steps, s)
	r.now = &r.Steps[len(r.Steps)-1]
	r.finish()
}

func (r *run) finish() {
	r.now.Update, r.now.Stable = r.update, r.stable+r.others
	r.now.PerPod = r.perPod()
}

// perPod is the load of a new pod over the average; empty where no share is sent to it.
func (r *run) perPod() string {
	load := Load(*r.now)
	if load == 0 {
		return ""
	}
	return fmt.Sprintf("%.1fx", load)
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
	r.batch.Generation++
	for ; r.moves < mostMoves; r.moves++ {
		r.batch.Status = batch.Decide(batch.Observed{Release: r.batch, Workload: &r.w, Wanted: true, Owned: true, Now: time.Unix(0, 0)}).Status
		back := r.batch.Spec.Plan.Abort && r.update == 0 && r.stable >= r.w.Replicas
		if back || r.batch.Status.BatchState == rollouts.BatchReady {
			return
		}
		told := r.tell()
		moved := r.w.Target != nil && r.drive(*r.w.Target)
		r.count()
		if !moved && !told {
			return
		}
	}
	r.Cut = true
}

// tell tells the workload how far it may go, and reports whether that is new.
func (r *run) tell() bool {
	was, to := r.w.Target, target(r.batch.Status.Drive)
	if to != nil {
		r.w.Target, r.w.TargetApplied = to, true
	}
	return was == nil || to == nil || *was != *to
}

// drive moves pods once as the workload is told, and reports whether any moved.
func (r *run) drive(to planner.Target) bool {
	switch {
	case r.style != rollouts.StylePartition:
		return r.beside(to)
	case r.w.SizedByStore:
		return r.sized(to)
	default:
		return r.replaced(to)
	}
}

// beside has pods come beside the stable ones, all at once.
func (r *run) beside(to planner.Target) bool {
	n := max(planner.Limit(rollouts.StyleCanary, to.Partition, r.w.Replicas), to.Least)
	if r.w.LastStays {
		n = r.w.Limit(r.style, to.Partition)
	}
	if to.Abort {
		n = 0
	}
	return r.move(n-r.update, 0)
}

// sized has the ReplicaSets sized as in a pass.
func (r *run) sized(to planner.Target) bool {
	n := r.w.Replicas
	s := sizes.Scaling{
		Replicas: n, Surge: r.Surge, Unavailable: r.w.Unavailable, Target: to.Limit(n), Full: to.Full(n), Abort: to.Abort,
		Stable: set("stable", 1, r.stable),
	}
	if r.update > 0 || to.Abort {
		s.Update = set(revision, 3, r.update)
	}
	if r.others > 0 {
		s.Others = []sizes.Set{*set("others", 2, r.others)}
	}
	scale := sizes.Decide(s)
	before := [3]int32{r.update, r.stable, r.others}
	var start, stop int32
	ready := r.update + r.stable + r.others
	for _, step := range scale.Steps {
		of := map[string]*int32{"": &r.update, revision: &r.update, "stable": &r.stable, "others": &r.others}[step.Name]
		by := step.Replicas - *of
		*of = step.Replicas
		start, stop = start+max(by, 0), stop+max(-by, 0)
		ready += min(by, 0)
		r.note(r.update, r.stable+r.others, ready)
	}
	if sole := r.update + r.stable + r.others; len(scale.Steps) == 0 && sole < n && (sole == r.update || sole == r.stable) {
		// The native controller fills the only set.
		if r.update > 0 {
			return r.move(n-sole, 0)
		}
		return r.move(0, n-sole)
	}
	r.wave(start, stop)
	return before != [3]int32{r.update, r.stable, r.others}
}

func set(name string, created int64, n int32) *sizes.Set {
	return &sizes.Set{Name: name, Revision: created, Replicas: n, Ready: n, Available: n}
}

// replaced has the native controller, or Weir, replace as many pods as may be missing.
func (r *run) replaced(to planner.Target) bool {
	by := to.LimitOf(&r.w) - r.update
	if to.Abort {
		by = -r.update
	}
	at := max(r.w.Unavailable+r.Surge, 1)
	by = max(min(by, at), -at)
	if by == 0 {
		return false
	}
	more := min(max(by, -by), r.Surge)
	if more > 0 {
		r.note(r.update+more, r.stable+r.others, r.update+r.stable+r.others)
	}
	gone := max(by, -by) - more
	r.note(r.update, r.stable+r.others-gone, r.update+r.stable+r.others-gone)
	others := min(r.others, max(by, 0))
	r.others, r.update, r.stable = r.others-others, r.update+by, r.stable-by+others
	r.note(r.update, r.stable+r.others, r.update+r.stable+r.others-gone)
	r.wave(max(by, -by), max(by, -by))
	return true
}

// move starts or stops pods of both versions at once.
func (r *run) move(update, stable int32) bool {
	if update == 0 && stable == 0 {
		return false
	}
	ready := r.update + r.stable + r.others + min(update, 0) + min(stable, 0)
	start, stop := max(update, 0)+max(stable, 0), -min(update, 0)-min(stable, 0)
	r.update += update
	if stable < 0 && r.others > 0 {
		r.others = 0
		stable = -r.stable
	}
	r.stable += stable
	r.note(r.update, r.stable+r.others, ready)
	r.wave(start, stop)
	return true
}

// note keeps a moment.
func (r *run) note(update, stable, ready int32) {
	r.now.Peak, r.now.MinReady = max(r.now.Peak, update+stable), min(r.now.MinReady, ready)
	m := Moment{Step: r.now.Step, Update: update, Stable: stable, Ready: ready}
	if m != r.Moments[len(r.Moments)-1] {
		r.Moments = append(r.Moments, m)
	}
}

// wave keeps what has moved.
func (r *run) wave(start, stop int32) {
	if start == 0 && stop == 0 {
		return
	}
	waves := r.now.Waves
	if n := len(waves); n > 0 && waves[n-1].Start == start && waves[n-1].Stop == stop {
		waves[n-1].Times++
	} else if n < maxWaves {
		r.now.Waves = append(waves, rollouts.Wave{Start: start, Stop: stop, Times: 1})
	}
}

// then is what ends a step.
func (r *run) then(n int32, step *rollouts.Step) rollouts.Then {
	p := r.Rollout.Status.Active()
	switch promoted := r.UnderWay && p != nil && p.FullyPromoted; {
	case promoted || planner.Unguarded(r.style, r.plan, n):
		return rollouts.Then{For: "none"}
	case step.Pause.Duration != nil:
		return rollouts.Then{For: string(planner.WaitTime), Seconds: step.Pause.Duration}
	default:
		return rollouts.Then{For: string(planner.WaitApproval)}
	}
}
