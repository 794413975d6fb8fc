// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/judge"
	"github.com/weir-rollouts/weir/pkg/planner"
)

var now = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)

func rollout(name string, phase rollouts.Phase) *rollouts.Rollout {
	r := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	r.Spec.Strategy.Canary = &rollouts.Release{Steps: []rollouts.Step{{}, {}}}
	r.Status.Phase = phase
	return r
}

// TestCollector checks that only Rollouts that users may wait for have metrics of their own; others
// are only counted.
func TestCollector(t *testing.T) {
	t.Parallel()
	entered := metav1.NewTime(now.Add(-90 * time.Second))
	waiting := rollout("web", rollouts.PhaseProgressing)
	waiting.Status.SetActivity(rollouts.ActivityInRolling, "", entered)
	waiting.Status.Canary = &rollouts.Progress{CurrentStepIndex: 1, State: rollouts.StepPaused, LastUpdateTime: &entered}
	stuck := rollout("cart", rollouts.PhaseProgressing)
	stuck.Status.SetActivity(rollouts.ActivityInRolling, "", entered)
	stuck.Status.Canary = &rollouts.Progress{CurrentStepIndex: 1, State: rollouts.StepUpgrade, LastUpdateTime: &entered}
	stuck.Status.SetCondition(rollouts.Condition{Type: rollouts.ConditionStalled, Status: metav1.ConditionTrue, Reason: "ProgressDeadlineExceeded"}, entered)
	stuck.Status.SetCondition(rollouts.Condition{Type: rollouts.ConditionFailing, Status: metav1.ConditionTrue, Reason: "ImagePullFailed"}, entered)
	open := rollout("b", rollouts.PhaseHealthy)
	open.Status.SetCondition(rollouts.Condition{Type: rollouts.ConditionProtected, Status: metav1.ConditionFalse, Reason: "AdmissionIncomplete"}, entered)
	others := rollout("c", rollouts.PhaseHealthy)
	others.Status.SetCondition(rollouts.Condition{Type: rollouts.ConditionStalled, Status: metav1.ConditionTrue, Reason: "ABORTED"}, entered)
	elected := make(chan struct{})
	c := &Collector{
		Rollouts: func(context.Context) ([]*rollouts.Rollout, error) {
			return []*rollouts.Rollout{waiting, stuck, rollout("a", rollouts.PhaseHealthy), open, others}, nil
		},
		Leads: elected, Clock: testingclock.NewFakePassiveClock(now),
	}
	follows := `
# HELP weir_controller_leads 1 if this process carries out releases, 0 if another does.
# TYPE weir_controller_leads gauge
weir_controller_leads 0
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(follows)); err != nil {
		t.Error(err)
	}
	close(elected)
	want := `
# HELP weir_controller_leads 1 if this process carries out releases, 0 if another does.
# TYPE weir_controller_leads gauge
weir_controller_leads 1
# HELP weir_rollout_failing 1 while a release makes no progress for a known cause, and the cause.
# TYPE weir_rollout_failing gauge
weir_rollout_failing{namespace="shop",reason="ImagePullFailed",rollout="cart"} 1
# HELP weir_rollout_stalled 1 while a Rollout says that it makes no progress, and why.
# TYPE weir_rollout_stalled gauge
weir_rollout_stalled{namespace="shop",reason="ProgressDeadlineExceeded",rollout="cart"} 1
# HELP weir_rollout_wait_seconds How long a Rollout with a release in progress, or that is being ended, has waited for what it waits for.
# TYPE weir_rollout_wait_seconds gauge
weir_rollout_wait_seconds{for="approval",namespace="shop",rollout="web"} 90
weir_rollout_wait_seconds{for="pods",namespace="shop",rollout="cart"} 90
# HELP weir_rollouts How many Rollouts there are.
# TYPE weir_rollouts gauge
weir_rollouts{phase="Healthy",style="Partition"} 3
weir_rollouts{phase="Progressing",style="Partition"} 2
# HELP weir_rollouts_unprotected How many Rollouts say that a part of admission is missing, so that updates of their workloads may not be held.
# TYPE weir_rollouts_unprotected gauge
weir_rollouts_unprotected 1
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestMeasured checks that the results of checks are reported while the checks are in progress.
func TestMeasured(t *testing.T) {
	t.Parallel()
	m, err := New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	q := planner.MeasurementRequest{Check: rollouts.Check{Name: "errors"}, Evidence: judge.Evidence{
		Pair: judge.Pair{New: judge.Count{Total: 100, Bad: 3}, Old: judge.Count{Total: 900, Bad: 1}}, Harm: 2, HarmNeeded: 8, Safe: 1, SafeNeeded: 2,
	}}
	m.SetCheckResults("shop", "web", []planner.MeasurementRequest{q})
	m.SetCheckResults("shop", "cart", []planner.MeasurementRequest{q})
	m.SetCheckResults("shop", "cart", nil)
	(*Metrics)(nil).SetCheckResults("shop", "web", nil)
	requests := `
# HELP weir_check_requests Requests that a check in progress has counted, by the version that answered and how.
# TYPE weir_check_requests gauge
weir_check_requests{check="errors",namespace="shop",result="bad",rollout="web",version="new"} 3
weir_check_requests{check="errors",namespace="shop",result="bad",rollout="web",version="stable"} 1
weir_check_requests{check="errors",namespace="shop",result="good",rollout="web",version="new"} 97
weir_check_requests{check="errors",namespace="shop",result="good",rollout="web",version="stable"} 899
`
	evidence := `
# HELP weir_check_evidence Evidence of a check in progress against the new version (harm) and for it (safe), as a share of what decides: at 1 the check fails, or passes.
# TYPE weir_check_evidence gauge
weir_check_evidence{check="errors",for="harm",namespace="shop",rollout="web"} 0.25
weir_check_evidence{check="errors",for="safe",namespace="shop",rollout="web"} 0.5
`
	if err := errors.Join(testutil.CollectAndCompare(m.requests, strings.NewReader(requests)), testutil.CollectAndCompare(m.evidence, strings.NewReader(evidence))); err != nil {
		t.Error(err)
	}
}

// TestChanged checks that step durations are recorded by what the step waited for.
func TestChanged(t *testing.T) {
	t.Parallel()
	m, err := New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	at := func(seconds int) *metav1.Time {
		v := metav1.NewTime(now.Add(time.Duration(seconds) * time.Second))
		return &v
	}
	r := rollout("web", rollouts.PhaseProgressing)
	before := []rollouts.ReleaseRecord{{Number: 1, Steps: []rollouts.StepRecord{{Step: 1, StepTimes: rollouts.StepTimes{EnteredTime: at(0)}}}}}
	r.Status.Releases = []rollouts.ReleaseRecord{{Number: 1, Steps: []rollouts.StepRecord{{Step: 1, StepTimes: rollouts.StepTimes{EnteredTime: at(0), UpgradedTime: at(7)}}}}}
	was := r.DeepCopy()
	was.Status.Releases = before
	m.ObserveSteps(was, r)
	m.ObserveSteps(r, r)
	(*Metrics)(nil).ObserveSteps(was, r)
	var want strings.Builder
	want.WriteString(`
# HELP weir_step_wait_seconds How long steps of releases waited for their pods, their traffic, an approval, or their time.
# TYPE weir_step_wait_seconds histogram
`)
	for _, bucket := range []string{"1", "2", "5", "10", "20", "30", "60", "120", "300", "600", "1800", "3600", "14400", "43200", "86400", "+Inf"} {
		n := 1
		if bucket == "1" || bucket == "2" || bucket == "5" {
			n = 0
		}
		fmt.Fprintf(&want, "weir_step_wait_seconds_bucket{for=\"pods\",style=\"Partition\",le=%q} %d\n", bucket, n)
	}
	want.WriteString(`weir_step_wait_seconds_sum{for="pods",style="Partition"} 7
weir_step_wait_seconds_count{for="pods",style="Partition"} 1
`)
	if err := testutil.CollectAndCompare(m.stepDurations, strings.NewReader(want.String())); err != nil {
		t.Error(err)
	}
}

// TestBypasses checks that changes that admission did not hold are counted.
func TestBypasses(t *testing.T) {
	t.Parallel()
	m, err := New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	m.CountEvents([]planner.Event{{Reason: "RolloutStarted"}, {Reason: "AdmissionBypassed", Warning: true}})
	if n := testutil.ToFloat64(m.bypasses); n != 1 {
		t.Errorf("%v are counted, want 1", n)
	}
}

// TestWrites checks that each write is counted by its result.
func TestWrites(t *testing.T) {
	t.Parallel()
	m, err := New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	c := m.CountWrites(fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build())
	if err := c.Create(t.Context(), d.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	_, _ = c.Create(t.Context(), d.DeepCopy()), c.Status().Update(t.Context(), &appsv1.ReplicaSet{ObjectMeta: d.ObjectMeta})
	for _, want := range [][]string{{"Deployment", "create", "ok"}, {"Deployment", "create", "conflict"}, {"ReplicaSet", "update status", "gone"}} {
		if n := testutil.ToFloat64(m.writes.WithLabelValues(want...)); n != 1 {
			t.Errorf("%v: %v, want 1", want, n)
		}
	}
}

func TestResult(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for want, err := range map[string]error{
		"ok":       nil,
		"conflict": apierrors.NewConflict(pods, "a", nil),
		"refused":  apierrors.NewForbidden(pods, "a", nil),
		"gone":     apierrors.NewNotFound(pods, "a"),
		"failed":   errors.New("connection refused"),
	} {
		if got := resultOf(err); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
}
