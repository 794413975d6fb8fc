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

// listLimit is how long a scrape waits for a cache that is not filled yet.
const listLimit = time.Second

var (
	leads = prometheus.NewDesc("weir_controller_leads",
		"1 if this process carries out releases, 0 if another does.", nil, nil)
	count = prometheus.NewDesc("weir_rollouts",
		"How many Rollouts there are.", []string{"phase", "style"}, nil)
	wait = prometheus.NewDesc("weir_rollout_wait_seconds",
		"How long a Rollout with a release under way, or that is being ended, has waited for what it waits for.",
		[]string{"namespace", "rollout", "for"}, nil)
	stalled = prometheus.NewDesc("weir_rollout_stalled",
		"1 while a Rollout says that it makes no progress, and why.", []string{"namespace", "rollout", "reason"}, nil)
	unprotected = prometheus.NewDesc("weir_rollouts_unprotected",
		"How many Rollouts say that a part of admission is missing, so that updates of their workloads may not be held.", nil, nil)
)

// Collector counts Rollouts on each scrape.
type Collector struct {
	// Rollouts reads them from a cache.
	Rollouts func(context.Context) ([]*rollouts.Rollout, error)
	// Leads is closed once this process leads: of several replicas, one reports.
	Leads <-chan struct{}
	Clock clock.PassiveClock
}

var _ prometheus.Collector = (*Collector)(nil)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{leads, count, wait, stalled, unprotected} {
		out <- d
	}
}

// Collect implements prometheus.Collector. While the cache is not filled it
// reports no Rollouts, and does not fail the scrape.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	select {
	case <-c.Leads:
		out <- gauge(leads, 1)
	default:
		out <- gauge(leads, 0)
		return
	}
	// A scrape has no context of its own.
	ctx, cancel := context.WithTimeout(context.Background(), listLimit) //nolint:forbidigo // see above
	defer cancel()
	all, err := c.Rollouts(ctx)
	if err != nil {
		return
	}
	for _, m := range gauges(all, c.Clock.Now()) {
		out <- m
	}
}

// gauge replaces invalid UTF-8 in labels. Prometheus panics on invalid UTF-8, and the panic would
// end the process, because no code recovers in the goroutine of a scrape.
func gauge(of *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	for i, label := range labels {
		labels[i] = strings.ToValidUTF8(label, "?")
	}
	return prometheus.MustNewConstMetric(of, prometheus.GaugeValue, value, labels...)
}

// gauges count all Rollouts, and describe each that is under way or stalled.
func gauges(all []*rollouts.Rollout, now time.Time) []prometheus.Metric {
	var told []prometheus.Metric
	counts := map[[2]string]int{}
	open := 0
	for _, r := range all {
		counts[[2]string{string(r.Status.Phase), string(style(r))}]++
		if r.DeletionTimestamp != nil || r.Status.UnderWay() {
			told = append(told, waited(r, now))
		}
		if s := r.Status.Stalled(); s != nil {
			told = append(told, gauge(stalled, 1, r.Namespace, r.Name, s.Reason))
		}
		if p := r.Status.Condition(rollouts.ConditionProtected); p != nil && p.Status == metav1.ConditionFalse {
			open++
		}
	}
	told = append(told, gauge(unprotected, float64(open)))
	for labels, n := range counts {
		told = append(told, gauge(count, float64(n), labels[:]...))
	}
	return told
}

// waited is how long a Rollout has waited, by what it waits for.
func waited(r *rollouts.Rollout, now time.Time) prometheus.Metric {
	w := planner.WaitingFor(r)
	took := 0.0
	if !w.Since.IsZero() {
		took = max(0, now.Sub(w.Since.Time).Seconds())
	}
	return gauge(wait, took, r.Namespace, r.Name, string(w.For))
}
