// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestMessageAfterWaiting checks a step that waits for pods without problems. After 30 seconds its message
// gives the reason, and a requeue guarantees this without an event. An earlier message would cost
// one write for each step.
func TestMessageAfterWaiting(t *testing.T) {
	t.Parallel()
	const later = "new pods are ready, and count when they have been ready for 45 seconds (spec.minReadySeconds)"
	for want, edit := range map[string]func(*planner.Workload){
		later: func(w *planner.Workload) { w.AvailableLater = later },
		"not all new pods are created yet": func(w *planner.Workload) {
			w.UpdatedReplicas = 1
		},
		"not all new pods are ready yet": func(*planner.Workload) {},
		"old pods are still running": func(w *planner.Workload) {
			w.UpdatedReadyReplicas, w.StableReplicas = 2, 4 // their nodes were deleted
		},
		"the native controller has not acted": func(w *planner.Workload) { w.Settled = false },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			o := upgradingInput(clockStart)
			o.Batch.Message = ""
			edit(o.Workload)
			o.Now = clockStart.Add(29 * time.Second)
			d := planner.Decide(o)
			if strings.Contains(d.Status.Message, want) || d.Wake != time.Second {
				t.Errorf("after 29 seconds it says %q, and looks again after %s", d.Status.Message, d.Wake)
			}
			o.Now = clockStart.Add(30 * time.Second)
			d = planner.Decide(o)
			if !strings.Contains(d.Status.Message, want) || !strings.Contains(d.Status.Active().Message, want) {
				t.Errorf("after 30 seconds it says %q and waits for %q, want %q", d.Status.Message, d.Status.Active().Message, want)
			}
		})
	}
}
