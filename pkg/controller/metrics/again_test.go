// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestNewAgain restarts the controllers in one process. Counters continue, and metrics of single
// checks are reset.
func TestNewAgain(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		m, err := New(registry)
		if err != nil {
			t.Fatal(err)
		}
		m.CountEvents([]planner.Event{{Reason: string(rollouts.ConditionBypassed)}})
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		got[f.GetName()] = f.GetMetric()[0].GetCounter().GetValue()
	}
	if got["weir_admission_bypasses_total"] != 2 {
		t.Errorf("counted %v, want 2 bypasses", got)
	}
	m, err := New(registry)
	if err != nil {
		t.Fatal(err)
	}
	m.evidence.WithLabelValues("shop", "web", "errors", "harm").Set(1)
	if _, err = New(registry); err != nil {
		t.Fatal(err)
	}
	if families, err = registry.Gather(); err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "weir_check_evidence" {
			t.Errorf("evidence is left: %v", f)
		}
	}
}
