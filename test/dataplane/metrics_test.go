// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && traffic && metrics

package dataplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
)

// TestMetrics releases versions with checks of the proxy's metrics, at 200 requests per second of
// which the first step routes 5 % to the new version. Each bad version is aborted without a verb,
// after a limited number of requests, and a good version passes.
func TestMetrics(t *testing.T) {
	prometheus := startPrometheus(t)
	for _, tc := range []struct {
		version, check string
		// requests to the new version are enough to abort it; 0 for a check that counts none.
		requests  int64
		objective string
		long      bool
		before    func(*app, *requestLoad)
		after     func(*app)
	}{
		{version: "fails100", check: "successRate", requests: 150},
		{version: "fails20", check: "successRate", requests: 150, long: true},
		// Ten requests a second are little evidence: of an objective of 99 %, a minute's is too
		// little in every second release; and without errors of stable, twice as much is wanted.
		{version: "fails5", check: "successRate", objective: "99.5%", requests: 600, long: true, before: failStableBefore},
		{version: "slow", check: "latency", requests: 600, long: true},
		{version: "leaks", check: "podsHealthy", after: reportOutOfMemory},
	} {
		if tc.long && testing.Short() {
			continue
		}
		t.Run(tc.version, func(t *testing.T) {
			a, l := measuredApp(t, tc.version, "5%", proxyChecks(cmp.Or(tc.objective, "99%"))...)
			if tc.before != nil {
				tc.before(a, l)
			}
			asked := a.measured(tc.version, tc.after)
			c, _ := a.abortedBy(tc.check, tc.version, l, asked)
			if tc.requests > 0 && (c.New == nil || c.New.Total > tc.requests) {
				t.Errorf("check %s counts %+v of the new version, want at most %d requests", tc.check, c.New, tc.requests)
			}
		})
	}
	t.Run("good", func(t *testing.T) {
		a, _ := measuredApp(t, "good", "20%", proxyChecks("99%")...)
		a.release("v2")
		a.eventually("step 1 waits", a.waitsAtStep(1))
		a.report()
	})
	t.Run("asked before traffic", checkedBeforeTraffic)
	if testing.Short() {
		return
	}
	t.Run("without Prometheus and the leader", func(t *testing.T) { withoutPrometheus(t, prometheus) })
	t.Run("scraped", judgedByScrapedPods)
	t.Run("equal", equalVersions)
}

// checkedBeforeTraffic sends requests to new pods before any user request is routed to them: no
// user request reaches a failing version, and a good one gets its share.
func checkedBeforeTraffic(t *testing.T) {
	a, l := measuredApp(t, "asked", "20%", v1beta1.Check{HTTP: &v1beta1.HTTPCheck{Service: name + "-canary", Path: "/ready"}, At: v1beta1.AtBeforeTraffic})
	began := time.Now()
	a.release("fails100")
	a.eventually("the release is aborted", a.statusSatisfies(aborting))
	a.eventually("every pod is of v1", a.runs(stable))
	if c := checkOf(a.report(), "http"); c == nil || c.Result != v1beta1.CheckFailed {
		t.Errorf("check http is %+v, want it to have failed", c)
	}
	for _, s := range l.resultsSince(began) {
		if s.fault != "" || s.version != stable {
			t.Fatalf("a request met %s: %s", s.version, s.fault)
		}
	}
	a.release("v2")
	a.eventually("the check has passed, and step 1 waits", a.statusSatisfies(func(s *v1beta1.RolloutStatus) bool {
		c := checkOf(&v1beta1.Rollout{Status: *s}, "http")
		return c != nil && c.Result == v1beta1.CheckPassed && s.Canary.State == v1beta1.StepPaused
	}))
}

// failStableBefore makes stable fail from time to time, long enough to measure its variance.
func failStableBefore(a *app, l *requestLoad) {
	a.t.Helper()
	began := time.Now()
	testEnv.pods.fail(a.namespace, 0.002)
	a.eventually("stable has failed before", answered(l, began, 100*perSecond))
	testEnv.pods.fail(a.namespace, 0)
}

// withoutPrometheus stops Prometheus for two minutes, and kills the leader meanwhile. No step
// passes and none is aborted. After that the version is judged as usual.
func withoutPrometheus(t *testing.T, prometheus *prometheus) {
	a, l := measuredApp(t, "blind", "5%", proxyChecks("99%")...)
	prometheus.end()
	asked := a.measured("fails20", nil)
	seen := len(l.resultsSince(asked))
	a.eventually("a minute's requests are answered", answered(l, asked, seen+60*perSecond))
	leader := cluster.WeirAPIServer
	if err := errors.Join(testEnv.cluster.Kill(leader), testEnv.cluster.Start(leader)); err != nil {
		t.Fatal(err)
	}
	a.eventually("another minute's requests are answered", answered(l, asked, seen+120*perSecond))
	if r := a.report(); aborting(&r.Status) || r.Status.Canary.CurrentStepIndex != 1 || r.Status.Canary.State == v1beta1.StepReady {
		t.Errorf("without measurements the release is %s at step %d: %s", r.Status.Canary.State, r.Status.Canary.CurrentStepIndex, r.Status.Message)
	}
	prometheus.start()
	a.abortedBy("successRate", "fails20", l, asked)
}

// equalVersions releases twenty versions that fail as often as their stable one, 0.5 % of
// the requests, and has every fourth and its stable version fail a third for a while.
func equalVersions(t *testing.T) {
	for i := range 20 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			namespace := fmt.Sprintf("equal-%d", i)
			testEnv.pods.fail(namespace, 0.005)
			a, l := measuredApp(t, namespace, "20%", proxyChecks("99%")...)
			asked := a.measured("v2", nil)
			if i%4 == 0 {
				testEnv.pods.fail(namespace, 0.33)
				a.eventually("an outage is over", answered(l, asked, 20*perSecond))
				testEnv.pods.fail(namespace, 0.005)
			}
			decided := a.statusSatisfies(func(s *v1beta1.RolloutStatus) bool {
				return aborting(s) || s.Canary.CurrentStepIndex == 1 && s.Canary.State == v1beta1.StepPaused
			})
			for minute := 1; minute <= 3; minute++ {
				a.eventually("a minute is over, or the step is decided", func(ctx context.Context) error {
					if err := decided(ctx); err == nil {
						return nil
					}
					return answered(l, asked, minute*60*perSecond)(ctx)
				})
			}
			a.eventually("step 1 waits, or the release is aborted", decided)
			if r := a.report(); aborting(&r.Status) {
				t.Errorf("a version as good as the stable one was aborted: %+v", r.Status.Decisions)
			}
		})
	}
}

// measured releases a version and, once its pods get requests, does something to them.
func (a *app) measured(version string, after func(*app)) (asked time.Time) {
	a.t.Helper()
	asked = time.Now()
	a.release(version)
	if after != nil {
		a.eventually("the step is measured", a.statusSatisfies(func(s *v1beta1.RolloutStatus) bool {
			return s.Canary != nil && s.Canary.State == v1beta1.StepMetricsAnalysis
		}))
		after(a)
	}
	return asked
}

// abortedBy waits until a check aborts the release of a version, and returns the check and
// how long that took from the version's first request.
func (a *app) abortedBy(check, version string, l *requestLoad, asked time.Time) (*v1beta1.CheckStatus, time.Duration) {
	t := a.t
	t.Helper()
	a.eventually("the release is aborted", a.statusSatisfies(aborting))
	at, first := time.Now(), time.Time{}
	for _, s := range l.resultsSince(asked) {
		if s.version != stable && (first.IsZero() || s.sent.Before(first)) {
			first = s.sent
		}
		if s.fault != "" && !strings.Contains(s.fault, " "+version) {
			t.Errorf("a request was lost, and not by %s: %s", version, s.fault)
		}
	}
	took := at.Sub(first).Truncate(100 * time.Millisecond)
	t.Logf("%s: aborted %s after its first request", version, took)
	r := a.report()
	if n := len(r.Status.Decisions); n == 0 || r.Status.Decisions[n-1].Via != v1beta1.ViaAnalysis {
		t.Errorf("no decision is on record: %+v", r.Status.Decisions)
	}
	c := checkOf(r, check)
	if c == nil || c.Result != v1beta1.CheckFailed {
		t.Fatalf("check %s is %+v, want it to have failed", check, c)
	}
	a.eventually("every pod is of v1", a.runs("v1"))
	return c, took
}

// reportOutOfMemory writes the status of the new pods as the kubelet does after two OOM kills.
func reportOutOfMemory(a *app) {
	a.t.Helper()
	var list corev1.PodList
	if err := testEnv.client.List(a.t.Context(), &list, client.InNamespace(a.namespace)); err != nil {
		a.t.Fatal(err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if versionOf(&pod.Spec) == stable {
			continue
		}
		before := client.MergeFrom(pod.DeepCopy())
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: name, Image: pod.Spec.Containers[0].Image, Ready: true, Started: new(true), RestartCount: 2,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 137, Reason: "OOMKilled", FinishedAt: metav1.Now(),
			}},
		}}
		if err := testEnv.client.Status().Patch(a.t.Context(), pod, before); err != nil {
			a.t.Fatal(err)
		}
	}
}

// proxyChecks are checks of the proxy's metrics.
func proxyChecks(objective string) []v1beta1.Check {
	return []v1beta1.Check{{SuccessRate: &objective}, {Latency: &v1beta1.LatencyCheck{Share: "99%", BelowMilliseconds: 250}}}
}

// measuredApp is an application under load, whose Rollout has checks. Its first step sends a
// share of the requests to the new version.
func measuredApp(t *testing.T, namespace, share string, checks ...v1beta1.Check) (*app, *requestLoad) {
	t.Helper()
	return analysedApp(t, namespace, share, &v1beta1.Analysis{
		EverySeconds: new(int32(5)), AtLeastSeconds: new(int32(15)), WithinSeconds: new(int32(180)), Checks: checks,
	})
}

// analysedApp is measuredApp with any analysis.
func analysedApp(t *testing.T, namespace, share string, analysis *v1beta1.Analysis) (*app, *requestLoad) {
	t.Helper()
	plan := releaseWithRoute(v1beta1.Step{Replicas: step("10%", "").Replicas, Traffic: new(share)}, v1beta1.Step{Replicas: step("100%", "").Replicas})
	plan.Analysis = analysis
	a := start(t, namespace, scenario{podsDrain: true, strategy: &v1beta1.Strategy{Canary: &v1beta1.CanaryStrategy{Release: plan}}})
	began, l := time.Now(), startLoad(t.Context(), namespace)
	t.Cleanup(l.stop)
	a.eventually("stable has metrics", answered(l, began, 20*perSecond))
	return a, l
}

// fail makes all versions of a namespace fail a share of the requests.
func (p *podServers) fail(namespace string, share float64) { p.failing.Store(namespace, share) }

// answered wants so many requests to be answered that were sent since then.
func answered(l *requestLoad, since time.Time, many int) func(context.Context) error {
	return func(context.Context) error {
		if n := len(l.resultsSince(since)); n < many {
			return fmt.Errorf("%d of %d are", n, many)
		}
		return nil
	}
}

func aborting(s *v1beta1.RolloutStatus) bool {
	for _, c := range s.Conditions {
		if c.Type == v1beta1.ConditionProgressing {
			return c.Reason == "Aborting" || c.Reason == "Aborted"
		}
	}
	return false
}

// report logs what the checks have found.
func (a *app) report() *v1beta1.Rollout {
	t := a.t
	t.Helper()
	r, err := a.getRollout(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Status.Analysis != nil {
		for _, c := range r.Status.Analysis.Checks {
			t.Logf("  %s %s: %s", c.Name, c.Result, c.Why)
		}
	}
	return r
}

func checkOf(r *v1beta1.Rollout, name string) *v1beta1.CheckStatus {
	if r.Status.Analysis == nil {
		return nil
	}
	for i := range r.Status.Analysis.Checks {
		if r.Status.Analysis.Checks[i].Name == name {
			return &r.Status.Analysis.Checks[i]
		}
	}
	return nil
}
