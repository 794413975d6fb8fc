// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && traffic && metrics

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
)

const prometheusPort = 8003

// scrape has Prometheus read what the proxy counts.
const scrape = `
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- job_name: traefik
  static_configs: [{targets: ["127.0.0.1:%d"]}]
`

// startPrometheus starts the real one beside the proxy.
func startPrometheus(t *testing.T) {
	t.Helper()
	c := here.cluster
	dir := filepath.Join(c.Dir(), "prometheus")
	config := filepath.Join(dir, "prometheus.yaml")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(config, fmt.Appendf(nil, scrape, metricsPort), 0o644)); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(c.Dir(), "prometheus.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(c.Bin(), "..", "prometheus", "prometheus"), "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		fmt.Sprintf("--web.listen-address=127.0.0.1:%d", prometheusPort))
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, childAttributes()
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting Prometheus, see hack/prometheus.sh: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has nothing to lose
		_ = cmd.Wait()
	})
	source := &weir.MetricSource{ObjectMeta: metav1.ObjectMeta{Name: weir.DefaultSource}}
	source.Spec.Prometheus = &weir.Prometheus{URL: fmt.Sprintf("http://127.0.0.1:%d", prometheusPort)}
	source.Spec.LagSeconds = new(int32(2))
	if err := here.client.Create(t.Context(), source); err != nil {
		t.Fatal(err)
	}
}

// TestMetrics has versions judged by what the proxy counts of them, at 200 requests a
// second of which the first step sends 5 % to the new one. Each bad version is aborted
// unasked, and a good one passes.
func TestMetrics(t *testing.T) {
	startPrometheus(t)
	for _, tc := range []struct {
		version, check string
		within         time.Duration
	}{
		{"fails100", "successRate", 15 * time.Second},
		{"fails20", "successRate", 15 * time.Second},
		{"fails5", "successRate", 60 * time.Second},
		{"slow", "latency", 60 * time.Second},
	} {
		t.Run(tc.version, func(t *testing.T) { judged(t, tc.version, tc.check, tc.within) })
	}
	t.Run("good", func(t *testing.T) {
		a, l := measuredApp(t, "good")
		defer l.stop()
		a.release("v2")
		a.until("step 1 waits", a.waitsAt(1))
		report(t, a)
	})
}

// judged releases a version that is to be aborted by a check, and says how long that took
// from its first request.
func judged(t *testing.T, version, check string, within time.Duration) {
	t.Helper()
	a, l := measuredApp(t, version)
	defer l.stop()
	asked := time.Now()
	a.release(version)
	a.until("the release is aborted", a.aborting)
	at, first := time.Now(), time.Time{}
	for _, s := range l.since(asked) {
		if s.version != "v1" && (first.IsZero() || s.sent.Before(first)) {
			first = s.sent
		}
	}
	took := at.Sub(first).Truncate(100 * time.Millisecond)
	t.Logf("%s: aborted %s after its first request", version, took)
	if took > within {
		t.Errorf("it took %s, want at most %s", took, within)
	}
	r := report(t, a)
	if n := len(r.Status.Decisions); n == 0 || r.Status.Decisions[n-1].Via != v1beta1.ViaAnalysis {
		t.Errorf("no decision is on record: %+v", r.Status.Decisions)
	}
	if c := checkOf(r, check); c == nil || c.Result != v1beta1.CheckFailed {
		t.Errorf("check %s is %+v, want it to have failed", check, c)
	}
	a.until("every pod is of v1", a.runs("v1"))
}

// measuredApp is an application under load, whose Rollout has checks.
func measuredApp(t *testing.T, namespace string) (*app, *load) {
	t.Helper()
	plan := through(v1beta1.Step{Replicas: step("10%", "").Replicas, Traffic: new("5%")}, v1beta1.Step{Replicas: step("100%", "").Replicas})
	plan.Analysis = &v1beta1.Analysis{
		EverySeconds: new(int32(5)), AtLeastSeconds: new(int32(15)), WithinSeconds: new(int32(300)),
		Checks: []v1beta1.Check{
			{SuccessRate: new("99%")},
			{Latency: &v1beta1.LatencyCheck{Share: "99%", BelowMilliseconds: 250}},
		},
	}
	a := start(t, namespace, scenario{strategy: &v1beta1.Strategy{Canary: &v1beta1.CanaryStrategy{Release: plan}}})
	l := fire(t.Context(), namespace)
	<-time.After(20 * time.Second) // stable has a past
	return a, l
}

func (a *app) aborting(ctx context.Context) error {
	return a.sees(func(s *v1beta1.RolloutStatus) bool {
		for _, c := range s.Conditions {
			if c.Type == "Progressing" {
				return c.Reason == "Aborting" || c.Reason == "Aborted"
			}
		}
		return false
	})(ctx)
}

// report logs what the checks have found.
func report(t *testing.T, a *app) *v1beta1.Rollout {
	t.Helper()
	r, err := a.stored(t.Context())
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
