// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"math"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// upgradingInput returns a release that has waited for pods since a moment, with a batch of two
// pods in progress.
func upgradingInput(since time.Time) planner.Input {
	size, zero := intstr.FromInt32(2), int32(0)
	r := &rollouts.Rollout{}
	r.Spec.WorkloadRef = &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	r.Spec.Strategy.Canary = &rollouts.Release{Steps: []rollouts.Step{{Replicas: &size}}}
	r.Annotations = map[string]string{rollouts.AnnotationHash: "p"}
	at := metav1.NewTime(since)
	r.Status.Phase = rollouts.PhaseProgressing
	r.Status.Canary = &rollouts.Progress{
		RolloutHash: "p", UpdateRevision: "v2", StableRevision: "v1", CurrentStepIndex: 1, NextStepIndex: -1,
		State: rollouts.StepUpgrade, LastUpdateTime: &at, LastProgressTime: &at, ProgressMark: 2,
	}
	r.Status.SetActivity(rollouts.ActivityInRolling, "", at)
	plan := rollouts.ReleasePlan{
		Batches: []rollouts.Batch{{CanaryReplicas: size}}, BatchPartition: &zero, RollingStyle: rollouts.StylePartition, Revision: "v2", StableRevision: "v1",
	}
	return planner.Input{
		Indexed: true, Listed: true,
		Rollout: r, Batch: &planner.Batch{Plan: plan, Observed: true, State: rollouts.BatchVerifying, Message: "why"},
		Workload: &planner.Workload{
			Settled: true, Labelled: true, Paused: true, Replicas: 4,
			HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "v1", UpdateRevision: "v2", PodTemplateHash: "v2", Revisions: []string{"v1", "v2"}},
			PodFacts:      planner.PodFacts{UpdatedReplicas: 2, StableReadyReplicas: 2},
		},
	}
}

// TestDeadline checks the sources of the deadline: the plan, the workload's owner, or the native
// default. The largest value means no deadline, as in the native controller. No condition is set
// before the deadline.
func TestDeadline(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plan  *int32
		owner int32
		want  time.Duration
	}{
		"native default":                             {nil, 0, 600 * time.Second},
		"deadline of the owner":                      {nil, 90, 90 * time.Second},
		"the plan takes precedence":                  {new(int32(7)), 90, 7 * time.Second},
		"no deadline of the owner":                   {nil, math.MaxInt32, 0},
		"no deadline of the plan":                    {new(int32(math.MaxInt32)), 90, 0},
		"the plan takes precedence over no deadline": {new(int32(30)), math.MaxInt32, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := upgradingInput(clockStart)
			o.Rollout.Spec.Strategy.Canary.ProgressDeadlineSeconds, o.Workload.ProgressDeadline = c.plan, c.owner
			o.Now = clockStart.Add(c.want - time.Second)
			if c.want == 0 {
				o.Now = clockStart.Add(1000 * time.Hour)
			}
			p := planner.Decide(o)
			if isStalled(p.Status) || len(p.Events) > 0 || (p.Wake != time.Second) != (c.want == 0) {
				t.Errorf("before: %v, %v, wake in %s", p.Status.Conditions, p.Events, p.Wake)
			}
			if c.want == 0 {
				return
			}
			o.Now = clockStart.Add(c.want)
			if p = planner.Decide(o); !isStalled(p.Status) || len(p.Events) != 1 || p.Wake != 0 {
				t.Errorf("after: %v, %v, wake in %s", p.Status.Conditions, p.Events, p.Wake)
			}
			if p.Status.Canary.State != rollouts.StepUpgrade || len(p.Actions) > 0 {
				t.Errorf("the release itself moves: %s, %v", p.Status.Canary.State, p.Actions)
			}
			o.Rollout.Status = p.Status
			o.Now = clockStart.Add(2 * c.want)
			if p = planner.Decide(o); len(p.Events) > 0 || !equal.DeepEqual(p.Status, o.Rollout.Status) {
				t.Errorf("it is said again: %v", p.Events)
			}
		})
	}
}

// TestProgressIsStoredRarely checks that ready pods do not cost one write each. Progress is stored
// once in a tenth of the deadline, and a requeue stores progress that was not stored yet.
func TestProgressIsStoredRarely(t *testing.T) {
	t.Parallel()
	o := upgradingInput(clockStart)
	o.Rollout.Status.Canary.ProgressMark = 0
	o.Workload.UpdatedReadyReplicas = 1
	o.Now = clockStart.Add(20 * time.Second)
	p := planner.Decide(o)
	if got := p.Status.Canary; !got.LastProgressTime.Equal(&metav1.Time{Time: clockStart}) || got.ProgressMark != 0 || p.Wake != 40*time.Second {
		t.Errorf("after 20 s: %s, mark %d, wake in %s", got.LastProgressTime, got.ProgressMark, p.Wake)
	}
	o.Now = clockStart.Add(60 * time.Second)
	p = planner.Decide(o)
	if got := p.Status.Canary; !got.LastProgressTime.Equal(&metav1.Time{Time: o.Now}) || got.ProgressMark != 1 || p.Wake != 600*time.Second {
		t.Errorf("after 60 s: %s, mark %d, wake in %s", got.LastProgressTime, got.ProgressMark, p.Wake)
	}
}

// TestFewerReadyPodsAreNoProgress checks that the deadline is not extended by fewer ready pods, nor by as
// many ready pods as before.
func TestFewerReadyPodsAreNoProgress(t *testing.T) {
	t.Parallel()
	o := upgradingInput(clockStart)
	o.Rollout.Status.Canary.ProgressMark = 2
	for i, ready := range []int32{1, 2, 0, 2} {
		o.Workload.UpdatedReadyReplicas = ready
		o.Now = clockStart.Add(time.Duration(i+1) * 2 * time.Minute)
		p := planner.Decide(o)
		o.Rollout.Status = p.Status
		if got := p.Status.Canary; !got.LastProgressTime.Equal(&metav1.Time{Time: clockStart}) || got.ProgressMark != 2 {
			t.Errorf("with %d ready: %s, mark %d", ready, got.LastProgressTime, got.ProgressMark)
		}
	}
}

// TestDeadlineReportsThreshold checks that the condition of a batch above its failure threshold
// contains the numbers.
func TestDeadlineReportsThreshold(t *testing.T) {
	t.Parallel()
	o := upgradingInput(clockStart)
	threshold := intstr.FromString("40%")
	o.Rollout.Spec.Strategy.Canary.FailureThreshold, o.Batch.Plan.FailureThreshold = &threshold, &threshold
	o.Now = clockStart.Add(time.Hour)
	want := "no progress at deployment/web for more than 600 seconds (since 2026-07-01T12:00:00Z): " +
		"Rollout is in step(1/1), and upgrade workload to new version: why; 0 of 2 new pods are ready; " +
		"failureThreshold 40% allows 1 unready pod; fix the pods, or change the pod template of the workload, abort or roll back"
	p := planner.Decide(o)
	got := p.Status.Condition(rollouts.ConditionStalled)
	if got == nil || got.Message != want {
		t.Errorf("%+v\nwant %s", got, want)
	}
}

// TestVerbsRestartDeadline checks that a verb restarts the deadline and removes the Stalled
// condition.
func TestVerbsRestartDeadline(t *testing.T) {
	t.Parallel()
	for _, v := range []rollouts.Verb{rollouts.VerbAbort, rollouts.VerbRollback, rollouts.VerbPause, rollouts.VerbJump} {
		o := upgradingInput(clockStart)
		o.Now = clockStart.Add(time.Hour)
		o.Rollout.Status = planner.Decide(o).Status
		if _, err := verb.Apply(o.Rollout, verb.Command{Verb: v, User: "alice", Step: 1, Now: metav1.NewTime(o.Now)}); err != nil {
			t.Fatal(err)
		}
		if p := planner.Decide(o); isStalled(o.Rollout.Status) || isStalled(p.Status) {
			t.Errorf("%s: %v", v, p.Status.Conditions)
		}
	}
}

// stalledByOthers returns a release that another controller marked as stalled.
func stalledByOthers() planner.Input {
	o := upgradingInput(clockStart)
	o.Rollout.Status.SetCondition(rollouts.Condition{
		Type: rollouts.ConditionStalled, Status: metav1.ConditionTrue, Reason: "TestsFailed",
	}, metav1.NewTime(clockStart))
	return o
}

// TestDeadlineWithForeignStalledCondition checks that a Stalled condition of another controller does not disable
// the deadline.
func TestDeadlineWithForeignStalledCondition(t *testing.T) {
	t.Parallel()
	o := stalledByOthers()
	o.Now = clockStart.Add(time.Hour)
	p := planner.Decide(o)
	if c := p.Status.Condition(rollouts.ConditionStalled); !strings.HasPrefix(c.Message, "no progress") {
		t.Errorf("%+v", c)
	}
}

// TestWaitingForWithForeignStalledCondition checks that WaitingFor ignores a Stalled condition of another controller.
func TestWaitingForWithForeignStalledCondition(t *testing.T) {
	t.Parallel()
	o := stalledByOthers()
	o.Rollout.Status.Phase = rollouts.PhaseInitial
	if w := planner.WaitingFor(o.Rollout); w.For != planner.WaitWorkload {
		t.Errorf("waits for %+v, want the workload", w)
	}
}

// TestAbortReportsWait checks that a waiting abort reports what it waits for, even if the
// batch reports nothing.
func TestAbortReportsWait(t *testing.T) {
	t.Parallel()
	for want, edit := range map[string]func(*planner.Workload){
		"the native controller has not acted on the latest change of the workload yet": func(w *planner.Workload) { w.Settled = false },
		"pods of another revision are still there":                                     func(w *planner.Workload) { w.StableReadyReplicas = 4 },
		"pods of the stable revision are not ready yet":                                func(w *planner.Workload) { w.UpdatedReplicas = 0 },
	} {
		o := upgradingInput(clockStart)
		o.Now = clockStart
		if _, err := verb.Apply(o.Rollout, verb.Command{Verb: rollouts.VerbAbort, User: "alice", Step: 1, Now: metav1.NewTime(o.Now)}); err != nil {
			t.Fatal(err)
		}
		p := planner.Decide(o)
		for _, a := range p.Actions {
			if run, ok := a.Effect.(planner.RunBatch); ok {
				o.Batch.Plan, o.Batch.State, o.Batch.Message = run.Plan, rollouts.BatchUpgrading, ""
			}
		}
		o.Rollout.Status = p.Status
		edit(o.Workload)
		if got := planner.Decide(o).Status.Message; !strings.HasSuffix(got, ": "+want) {
			t.Errorf("says %q, want that %s", got, want)
		}
	}
}
