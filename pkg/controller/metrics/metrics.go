// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics has the metrics of releases.
//
// Current values are computed from the caches on each scrape (collector.go). Past events are counted when
// they are stored (this file) or written (client.go). A restart loses only counters, which Prometheus
// handles. docs/metrics.md has the list.
package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/judge"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Metrics has the counters of events and writes. A nil Metrics counts nothing.
type Metrics struct {
	stepDurations *prometheus.HistogramVec
	writes        *prometheus.CounterVec
	bypasses      prometheus.Counter
	requests      *prometheus.GaugeVec
	evidence      *prometheus.GaugeVec
}

// New registers the metrics. If they are registered already, because the controllers ran before
// in this process, New reuses them: counters continue, and metrics of single Rollouts are reset.
func New(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		stepDurations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "weir_step_wait_seconds",
			Help:    "How long steps of releases waited for their pods, their traffic, an approval, or their time.",
			Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 12 * 3600, 24 * 3600},
		}, []string{"style", "for"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_writes_total",
			Help: "Writes of weir-controller by kind of object, verb, and what came of them.",
		}, []string{"kind", "verb", "result"}),
		bypasses: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_admission_bypasses_total",
			Help: "Changes of templates that no part of admission held.",
		}),
		requests: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_check_requests",
			Help: "Requests that a check in progress has counted, by the version that answered and how.",
		}, []string{namespaceLabel, rolloutLabel, "check", "version", "result"}),
		evidence: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_check_evidence",
			Help: "Evidence of a check in progress against the new version (harm) and for it (safe), as a share of what decides: at 1 the check fails, or passes.",
		}, []string{namespaceLabel, rolloutLabel, "check", "for"}),
	}
	err := errors.Join(register(registry, &m.stepDurations), register(registry, &m.writes), register(registry, &m.bypasses),
		register(registry, &m.requests), register(registry, &m.evidence))
	if err != nil {
		return nil, err
	}
	m.requests.Reset()
	m.evidence.Reset()
	return m, nil
}

// register registers the collector *c. If an equal collector is already registered, register
// sets *c to that one.
func register[C prometheus.Collector](registry prometheus.Registerer, c *C) error {
	err := registry.Register(*c)
	before, ok := errors.AsType[prometheus.AlreadyRegisteredError](err)
	if !ok {
		return err
	}
	same, ok := before.ExistingCollector.(C)
	if !ok {
		return err
	}
	*c = same
	return nil
}

const namespaceLabel, rolloutLabel = "namespace", "rollout"

// SetCheckResults sets the request counts and the evidence of a Rollout's checks that are under
// way.
func (m *Metrics) SetCheckResults(namespace, name string, questions []planner.MeasurementRequest) {
	if m == nil {
		return
	}
	of := prometheus.Labels{namespaceLabel: namespace, rolloutLabel: name}
	m.requests.DeletePartialMatch(of)
	m.evidence.DeletePartialMatch(of)
	for _, q := range questions {
		if q.Try {
			continue // before a release
		}
		check, e := rollouts.CheckName(&q.Check), q.Evidence
		for version, n := range map[string]judge.Count{"new": e.New, "stable": e.Old} {
			m.requests.WithLabelValues(namespace, name, check, version, "bad").Set(n.Bad)
			m.requests.WithLabelValues(namespace, name, check, version, "good").Set(n.Total - n.Bad)
		}
		if e.HarmNeeded > 0 {
			m.evidence.WithLabelValues(namespace, name, check, "harm").Set(e.Harm / e.HarmNeeded)
		}
		if e.SafeNeeded > 0 {
			m.evidence.WithLabelValues(namespace, name, check, "safe").Set(e.Safe / e.SafeNeeded)
		}
	}
}

// CountEvents counts the announced events that have a metric.
func (m *Metrics) CountEvents(announced []planner.Event) {
	if m == nil {
		return
	}
	for _, e := range announced {
		if e.Reason == string(rollouts.ConditionBypassed) {
			m.bypasses.Inc()
		}
	}
}

// ObserveSteps records the durations of steps that ended between two versions of a Rollout. The
// versions may have been written by anybody, because a verb ends a wait, too.
func (m *Metrics) ObserveSteps(before, after *rollouts.Rollout) {
	if m == nil {
		return
	}
	for _, duration := range planner.StepDurations(after, before.Status.Releases, after.Status.Releases) {
		m.stepDurations.WithLabelValues(string(styleOf(after)), string(duration.Part)).Observe(duration.Duration.Seconds())
	}
}

func styleOf(r *rollouts.Rollout) rollouts.Style {
	return rollouts.StyleFor(&r.Spec.Strategy, r.Spec.WorkloadRef)
}
