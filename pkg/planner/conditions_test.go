// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

func TestWaitingFor(t *testing.T) {
	t.Parallel()
	made := metav1.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	entered := metav1.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	minute := int32(60)
	at := func(step int32, state rollouts.StepState) func(*rollouts.Rollout) {
		return func(r *rollouts.Rollout) {
			r.Status.Phase = rollouts.PhaseProgressing
			r.Status.SetActivity(rollouts.ActivityInRolling, "m", entered)
			r.Status.Canary = &rollouts.Progress{CurrentStepIndex: step, State: state, LastUpdateTime: &entered}
		}
	}
	doing := func(a rollouts.Activity) func(*rollouts.Rollout) {
		return func(r *rollouts.Rollout) {
			at(1, rollouts.StepUpgrade)(r)
			r.Status.SetActivity(a, "m", entered)
		}
	}
	phase := func(p rollouts.Phase) func(*rollouts.Rollout) {
		return func(r *rollouts.Rollout) { r.Status.Phase = p }
	}
	cases := map[string]struct {
		make  func(*rollouts.Rollout)
		wait  planner.Wait
		what  string
		since metav1.Time
	}{
		"new":       {phase(rollouts.PhaseInitial), planner.WaitWorkload, "a workload", made},
		"healthy":   {phase(rollouts.PhaseHealthy), planner.WaitNothing, "nothing", metav1.Time{}},
		"disabled":  {phase(rollouts.PhaseDisabled), planner.WaitNothing, "nothing", metav1.Time{}},
		"disabling": {phase(rollouts.PhaseDisabling), planner.WaitWorkload, "the return of the workload to its native controller", metav1.Time{}},
		"deleted":   {func(r *rollouts.Rollout) { r.DeletionTimestamp = &entered }, planner.WaitWorkload, "the return of the workload to its native controller", entered},
		"before":    {at(1, rollouts.BeforeStepUpgrade), planner.WaitTraffic, "traffic of step 1/2", entered},
		"upgrading": {at(1, rollouts.StepUpgrade), planner.WaitPods, "pods of step 1/2", entered},
		"crashing": {func(r *rollouts.Rollout) {
			at(1, rollouts.StepUpgrade)(r)
			r.Status.Canary.Message = "2 of 2 new pods: container main: CrashLoopBackOff"
		}, planner.WaitPods, "pods of step 1/2: 2 of 2 new pods: container main: CrashLoopBackOff", entered},
		"gate": {func(r *rollouts.Rollout) {
			at(2, rollouts.StepTrafficRouting)(r)
			waitForCheck(r, rollouts.Check{Name: "ticket", HTTP: &rollouts.HTTPCheck{}, Gate: new(true), At: rollouts.AtBeforeTraffic}, entered)
		}, planner.WaitChecks, "gate ticket of step 2/2, closed since 2026-01-05T10:00:00Z", entered},
		"gate of a step": {func(r *rollouts.Rollout) {
			at(2, rollouts.StepMetricsAnalysis)(r)
			waitForCheck(r, rollouts.Check{Name: "ticket", HTTP: &rollouts.HTTPCheck{}, Gate: new(true)}, entered)
		}, planner.WaitChecks, "gate ticket of step 2/2, closed since 2026-01-05T10:00:00Z", entered},
		"smoke": {func(r *rollouts.Rollout) {
			at(2, rollouts.StepTrafficRouting)(r)
			waitForCheck(r, rollouts.Check{Job: &rollouts.JobCheck{}, At: rollouts.AtBeforeTraffic}, entered)
		}, planner.WaitChecks, "checks before the traffic of step 2/2", entered},
		"measured": {func(r *rollouts.Rollout) {
			at(2, rollouts.StepMetricsAnalysis)(r)
			waitForCheck(r, rollouts.Check{Job: &rollouts.JobCheck{}}, entered)
		}, planner.WaitChecks, "checks of step 2/2", entered},
		"routing": {at(2, rollouts.StepTrafficRouting), planner.WaitTraffic, "traffic of step 2/2", entered},
		"waiting": {at(1, rollouts.StepPaused), planner.WaitApproval, "approval of step 1/2", entered},
		"unrouted": {func(r *rollouts.Rollout) {
			at(1, rollouts.StepPaused)(r)
			r.Status.Canary.Message = "its requests cannot be routed: ingress/web does not exist"
		}, planner.WaitApproval, "approval of step 1/2: its requests cannot be routed: ingress/web does not exist", entered},
		"timed": {at(2, rollouts.StepPaused), planner.WaitTime, "end of step 2/2 at 2026-01-05T10:01:00Z", entered},
		"timed, and inconclusive": {func(r *rollouts.Rollout) {
			at(2, rollouts.StepPaused)(r)
			waitForCheck(r, rollouts.Check{SuccessRate: new("99%")}, entered)
			r.Status.Analysis.Checks[0].Result = rollouts.CheckInconclusive
		}, planner.WaitApproval, "approval of step 2/2: check successRate is inconclusive", entered},
		"timed, and inconclusive, which passes": {func(r *rollouts.Rollout) {
			at(2, rollouts.StepPaused)(r)
			waitForCheck(r, rollouts.Check{SuccessRate: new("99%"), OnInconclusive: rollouts.OnInconclusivePass}, entered)
			r.Status.Analysis.Checks[0].Result = rollouts.CheckInconclusive
		}, planner.WaitTime, "end of step 2/2 at 2026-01-05T10:01:00Z", entered},
		"timed, and failed": {func(r *rollouts.Rollout) {
			at(2, rollouts.StepPaused)(r)
			waitForCheck(r, rollouts.Check{SuccessRate: new("99%"), OnFail: rollouts.OnFailWait}, entered)
			r.Status.Analysis.Checks[0].Result = rollouts.CheckFailed
		}, planner.WaitApproval, "approval of step 2/2: check successRate is failed", entered},
		"timed, and reported": {func(r *rollouts.Rollout) {
			at(2, rollouts.StepPaused)(r)
			waitForCheck(r, rollouts.Check{SuccessRate: new("99%"), OnFail: rollouts.OnFailReport}, entered)
			r.Status.Analysis.Checks[0].Result = rollouts.CheckFailed
		}, planner.WaitTime, "end of step 2/2 at 2026-01-05T10:01:00Z", entered},
		"timed, and measured again": {func(r *rollouts.Rollout) {
			at(2, rollouts.StepPaused)(r)
			waitForCheck(r, rollouts.Check{SuccessRate: new("99%")}, entered)
		}, planner.WaitChecks, "checks of step 2/2", entered},
		"approved":     {at(1, rollouts.StepReady), planner.WaitController, "the controller", entered},
		"fewer steps":  {at(3, rollouts.StepPaused), planner.WaitApproval, "approval of step 3/2", entered},
		"initializing": {doing(rollouts.ActivityInitializing), planner.WaitTraffic, "the Services and routers of the plan", entered},
		"paused": {func(r *rollouts.Rollout) {
			doing(rollouts.ActivityPaused)(r)
			r.Spec.Strategy.Paused = true
		}, planner.WaitDecision, "resume", entered},
		"refused": {func(r *rollouts.Rollout) {
			at(1, rollouts.StepPaused)(r)
			r.Status.SetCondition(rollouts.Condition{Type: rollouts.ConditionStalled, Status: metav1.ConditionTrue, Reason: string(rollouts.StalledRefused)}, entered)
		}, planner.WaitDecision, "a decision: abort, roll back, or apply the template of the release again", entered},
		"superseded": {func(r *rollouts.Rollout) {
			at(1, rollouts.StepPaused)(r)
			r.Status.Canary.FinalisingStep = rollouts.FinalisingRemoveRoute
		}, planner.WaitWorkload, "the newer template to replace this release", entered},
		"disabled in a step": {func(r *rollouts.Rollout) {
			at(1, rollouts.StepUpgrade)(r)
			r.Spec.Disabled = true
		}, planner.WaitWorkload, "the return of the workload to its native controller", entered},
		"aborting": {doing(rollouts.ActivityAborting), planner.WaitPods, "the pods of the stable version", entered},
		"aborting without a stable version": {func(r *rollouts.Rollout) {
			doing(rollouts.ActivityAborting)(r)
			r.Status.SetCondition(rollouts.Condition{Type: rollouts.ConditionStalled, Status: metav1.ConditionTrue, Reason: string(rollouts.StalledStableGone)}, entered)
		}, planner.WaitDecision, "a person: the stable version is lost", entered},
		"aborted": {doing(rollouts.ActivityAborted), planner.WaitDecision, "a decision: retry, roll back, or release another version", entered},
		"ending":  {doing(rollouts.ActivityFinalising), planner.WaitWorkload, "the return of the workload to its native controller", entered},
		"unsupported": {func(r *rollouts.Rollout) {
			r.Status.SetCondition(rollouts.Condition{Type: rollouts.ConditionStalled, Status: metav1.ConditionTrue, Reason: string(rollouts.StalledUnsupported)}, entered)
		}, planner.WaitDecision, "a supported workload", entered},
		"no plan": {func(r *rollouts.Rollout) {
			at(1, rollouts.StepPaused)(r)
			r.Spec.Strategy.Canary = nil
		}, planner.WaitApproval, "approval of step 1/0", entered},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			size := intstr.FromString("20%")
			r := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: made}}
			r.Spec.Strategy.Canary = &rollouts.Release{Steps: []rollouts.Step{
				{Replicas: &size}, {Replicas: &size, Pause: rollouts.Pause{Duration: &minute}},
			}}
			c.make(r)
			if w := planner.WaitingFor(r); w.For != c.wait || w.Text != c.what || !w.Since.Equal(&c.since) {
				t.Errorf("waits for %s, %q, since %s, want %s, %q, since %s", w.For, w.Text, w.Since, c.wait, c.what, c.since)
			}
			if ends := planner.PauseEnd(r); ends.IsZero() == (c.wait == planner.WaitTime) {
				t.Errorf("the pause ends at %s while it waits for %s", ends, c.wait)
			}
		})
	}
}

// kstatus judges a status like tools that read only the two conditions: the first true condition
// decides.
func kstatus(s rollouts.RolloutStatus) string {
	for _, c := range s.Conditions {
		switch {
		case c.Status != metav1.ConditionTrue:
		case c.Type == rollouts.ConditionReconciling:
			return "InProgress"
		case c.Type == rollouts.ConditionStalled:
			return "Failed"
		}
	}
	return "Current"
}

// checkConditionsForTools checks the invariant "told": tools that read only conditions see a
// current release as in progress, a stalled one as failed, and one at rest as current.
func (c *invariants) checkConditionsForTools(s rollouts.RolloutStatus) {
	want := "InProgress"
	switch stalled := s.Condition(rollouts.ConditionStalled); {
	case stalled != nil && stalled.Status == metav1.ConditionTrue:
		want = "Failed"
	case s.Phase == rollouts.PhaseHealthy, s.Phase == rollouts.PhaseDisabled:
		want = "Current"
	}
	if s.Activity() == rollouts.ActivityAborted && s.Phase == rollouts.PhaseProgressing && !s.Active().RollingBack {
		want = "Failed"
	}
	if c1 := s.Condition(rollouts.ConditionStalled); c1 != nil && c1.Reason == string(rollouts.StalledDeadline) && !waitsForPods(s) {
		c.violate("told", "%s/%s stops and waits for nothing", s.Phase, s.Activity())
	}
	if f := s.Failing(); f != nil && want == "Current" && f.Reason != string(rollouts.FailingWriteRefused) {
		c.violate("told", "%s/%s is at rest and fails: %s", s.Phase, s.Activity(), f.Message)
	}
	if got := kstatus(s); got != want {
		c.violate("told", "%s/%s looks %s to tools, want %s: %v", s.Phase, s.Activity(), got, want, s.Conditions)
	}
}

// TestStalledByOthers checks a release that another controller marks as stalled. Tools then see a
// failed release, but the release continues.
func TestStalledByOthers(t *testing.T) {
	t.Parallel()
	r := &rollouts.Rollout{}
	r.Spec.Strategy.Canary = &rollouts.Release{}
	r.Status.Phase = rollouts.PhaseHealthy
	stalled := rollouts.Condition{Type: rollouts.ConditionStalled, Status: metav1.ConditionTrue, Reason: "TestsFailed"}
	for _, c := range []struct {
		phase rollouts.Phase
		said  metav1.ConditionStatus
		want  string
	}{
		{rollouts.PhaseProgressing, metav1.ConditionFalse, "InProgress"},
		{rollouts.PhaseProgressing, metav1.ConditionTrue, "Failed"},
		{rollouts.PhaseHealthy, metav1.ConditionTrue, "Failed"},
		{rollouts.PhaseHealthy, metav1.ConditionFalse, "Current"},
	} {
		r.Status.Phase = c.phase
		r.Status.SetActivity(rollouts.ActivityPaused, "", metav1.Time{})
		r.Spec.Strategy.Paused = true
		stalled.Status = c.said
		r.Status.SetCondition(stalled, metav1.Time{})
		w := &planner.Workload{Labelled: true, Settled: true}
		w.Held = c.phase == rollouts.PhaseProgressing
		p := planner.Decide(planner.Input{Rollout: r, Workload: w, Indexed: true, Listed: true})
		if got := kstatus(p.Status); got != c.want {
			t.Errorf("%s with Stalled %s: %s, want %s", c.phase, c.said, got, c.want)
		}
	}
}

// waitForCheck puts the Rollout into a step that waits for an undecided check.
func waitForCheck(r *rollouts.Rollout, c rollouts.Check, since metav1.Time) {
	r.Spec.Strategy.Canary.Analysis = &rollouts.Analysis{Checks: []rollouts.Check{c}}
	r.Status.Analysis = &rollouts.AnalysisStatus{
		Step: r.Status.Canary.CurrentStepIndex, TrafficSince: &since,
		Checks: []rollouts.CheckStatus{{Name: rollouts.CheckName(&c), Result: rollouts.CheckRunning, Time: &since}},
	}
}

// TestOverrideAtStartOfChecks checks that an override in the second in which the checks begin stays
// effective.
func TestOverrideAtStartOfChecks(t *testing.T) {
	t.Parallel()
	since := metav1.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	r := &rollouts.Rollout{Status: rollouts.RolloutStatus{Phase: rollouts.PhaseProgressing}}
	r.Spec.Strategy.Canary = &rollouts.Release{}
	r.Status.SetActivity(rollouts.ActivityInRolling, "m", since)
	r.Status.Canary = &rollouts.Progress{CurrentStepIndex: 2, State: rollouts.StepTrafficRouting}
	waitForCheck(r, rollouts.Check{HTTP: &rollouts.HTTPCheck{}, Gate: new(true), At: rollouts.AtBeforeTraffic}, since)
	next := r.Status.DeepCopy()
	planner.SkipTrafficChecks(r, next, "alice", false, since.Add(-time.Second))
	if is := next.Analysis.Checks[0]; is.Result != rollouts.CheckRunning {
		t.Errorf("without an override the gate is %+v", is)
	}
	planner.SkipTrafficChecks(r, next, "alice", true, since.Add(-time.Second))
	if is := next.Analysis.Checks[0]; is.Result != rollouts.CheckSkipped || is.Time.Before(&since) {
		t.Errorf("the gate is %+v", is)
	}
	r.Status = *next
	if held := planner.StoredChecksHoldingTraffic(r); len(held) > 0 {
		t.Errorf("the traffic is held by %+v", held)
	}
}
