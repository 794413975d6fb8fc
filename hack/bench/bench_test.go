// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weir-rollouts/weir/test/cluster"
)

// oneRelease is a run of one release with this duration.
func oneRelease(process string, took, otherCPU time.Duration) systemRun {
	released := &result{releases: 1, took: took, costs: &costs{
		writes:   map[string]int{"pods": 60, "events": 40},
		cpu:      map[string]time.Duration{process: took / 10, cluster.KubeAPIServer: took / 5},
		otherCPU: otherCPU,
	}}
	unheld := &result{releases: 1, took: time.Second, costs: &costs{cpu: map[string]time.Duration{cluster.KubeAPIServer: 400 * time.Millisecond}}}
	return systemRun{unheld: unheld, released: released, processes: []string{process}}
}

func TestPrintPairs(t *testing.T) {
	quiet := func(theirs, ours time.Duration) pair {
		return pair{peer: oneRelease("theirs", theirs, 0), weir: oneRelease("ours", ours, 0)}
	}
	disturbed := pair{peer: oneRelease("theirs", time.Second, time.Second), weir: oneRelease("ours", time.Minute, 0)}
	var out strings.Builder
	if err := printPairs(&out, "argo", []pair{quiet(10*time.Second, 8*time.Second), disturbed, quiet(10*time.Second, 12*time.Second)}); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"2 of 3 pairs, without those that other processes disturbed: median (minimum to maximum) argo weir weir ÷ argo",
		"all releases, s 10.00 (10.00 to 10.00) 10.00 (8.00 to 12.00) 1.00 (0.80 to 1.20)",
		"store revisions 100.0 (100.0 to 100.0) 100.0 (100.0 to 100.0) 1.00 (1.00 to 1.00)",
		"CPU of the system itself, ms 1000 (1000 to 1000) 1000 (800 to 1200) 1.00 (0.80 to 1.20)",
		"CPU of kube-apiserver, ms 2000 (2000 to 2000) 2000 (1600 to 2400) 1.00 (0.80 to 1.20) … above unheld 1600 (1600 to 1600)",
		"update → step 1 waits, s – – –",
		"approvals lost 0 (0 to 0) 0 (0 to 0) –",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the table has no %q:\n%s", want, out.String())
		}
	}
	out.Reset()
	if err := printPairs(&out, "argo", []pair{disturbed}); err != nil {
		t.Fatal(err)
	}
	if want := "1 pairs, ALL DISTURBED by other processes"; !strings.Contains(out.String(), want) {
		t.Errorf("the table has no %q:\n%s", want, out.String())
	}
}

func TestStateOfArgo(t *testing.T) {
	for name, test := range map[string]struct {
		status map[string]any
		want   state
	}{
		"empty":    {nil, state{}},
		"unseen":   {map[string]any{"observedGeneration": "1", "phase": "Healthy"}, state{}},
		"waits":    {map[string]any{"observedGeneration": "2", "phase": "Paused", "currentStepIndex": int64(3), "pauseConditions": []any{map[string]any{}}}, state{step: 3, waits: true}},
		"approved": {map[string]any{"observedGeneration": "2", "phase": "Progressing", "currentStepIndex": int64(3)}, state{step: 3}},
		"over":     {map[string]any{"observedGeneration": "2", "phase": "Healthy", "currentStepIndex": int64(4)}, state{step: 4, healthy: true}},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"generation": int64(2)}, "status": test.status}}
		if got := (argo{}).state(o); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}
