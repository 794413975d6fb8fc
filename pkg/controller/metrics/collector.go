// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// listTimeout is how long a scrape waits for a cache that has not synced yet.
const listTimeout = time.Second

var (
	leaderDesc = prometheus.NewDesc("weir_controller_leads",
		"1 if this process carries out releases, 0 if another does.", nil, nil)
	rolloutsDesc = prometheus.NewDesc("weir_rollouts",
		"How many Rollouts there are.", []string{"phase", "style"}, nil)
	waitDesc = prometheus.NewDesc("weir_rollout_wait_seconds",
		"How long a Rollout with a release in progress, or that is being ended, has waited for what it waits for.",
		[]string{"namespace", "rollout", "for"}, nil)
	stalledDesc = prometheus.NewDesc("weir_rollout_stalled",
		"1 while a Rollout says that it makes no progress, and why.", []string{"namespace", "rollout", "reason"}, nil)
	failingDesc = prometheus.NewDesc("weir_rollout_failing",
		"1 while a release makes no progress for a known cause, and the cause.", []string{"namespace", "rollout", "reason"}, nil)
	unprotectedDesc = prometheus.NewDesc("weir_rollouts_unprotected",
		"How many Rollouts say that a part of admission is missing, so that updates of their workloads may not be held.", nil, nil)
)

// Collector counts Rollouts on each scrape.
type Collector struct {
	// Rollouts lists the Rollouts from a cache.
	Rollouts func(context.Context) ([]*rollouts.Rollout, error)
	// Leads is closed once this process is the leader. Only the leader reports Rollouts.
	Leads <-chan struct{}
	Clock clock.PassiveClock
}

var _ prometheus.Collector = (*Collector)(nil)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{leaderDesc, rolloutsDesc, waitDesc, stalledDesc, failingDesc, unprotectedDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector. Before the cache has synced, it reports no Rollouts and
// does not fail the scrape.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	select {
	case <-c.Leads:
		out <- newGauge(leaderDesc, 1)
	default:
		out <- newGauge(leaderDesc, 0)
		return
	}
	// A scrape has no context of its own.
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout) //nolint:forbidigo // see above
	defer cancel()
	all, err := c.Rollouts(ctx)
	if err != nil {
		return
	}
	for _, m := range rolloutGauges(all, c.Clock.Now()) {
		out <- m
	}
}

// newGauge returns a metric. It replaces invalid UTF-8 in labels, because Prometheus panics on
// invalid UTF-8, and the panic would end the process: no code recovers in the goroutine of a
// scrape.
func newGauge(of *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	for i, label := range labels {
		labels[i] = strings.ToValidUTF8(label, "?")
	}
	return prometheus.MustNewConstMetric(of, prometheus.GaugeValue, value, labels...)
}

// rolloutGauges returns the counts of all Rollouts, and metrics of each Rollout that is in progress
// or stalled.
func rolloutGauges(all []*rollouts.Rollout, now time.Time) []prometheus.Metric {
	var told []prometheus.Metric
	counts := map[[2]string]int{}
	open := 0
	for _, r := range all {
		counts[[2]string{string(r.Status.Phase), string(styleOf(r))}]++
		if r.DeletionTimestamp != nil || r.Status.UnderWay() {
			told = append(told, waitGauge(r, now))
		}
		if s := r.Status.Stalled(); s != nil {
			told = append(told, newGauge(stalledDesc, 1, r.Namespace, r.Name, s.Reason))
		}
		if f := r.Status.Failing(); f != nil {
			told = append(told, newGauge(failingDesc, 1, r.Namespace, r.Name, f.Reason))
		}
		if p := r.Status.Condition(rollouts.ConditionProtected); p != nil && p.Status == metav1.ConditionFalse {
			open++
		}
	}
	told = append(told, newGauge(unprotectedDesc, float64(open)))
	for labels, n := range counts {
		told = append(told, newGauge(rolloutsDesc, float64(n), labels[:]...))
	}
	return told
}

// waitGauge returns how long a Rollout has waited, by what it waits for.
func waitGauge(r *rollouts.Rollout, now time.Time) prometheus.Metric {
	w := planner.WaitingFor(r)
	took := 0.0
	if !w.Since.IsZero() {
		took = max(0, now.Sub(w.Since.Time).Seconds())
	}
	return newGauge(waitDesc, took, r.Namespace, r.Name, string(w.For))
}
