// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// TestPauseOverTime has new pods that crash, which keep a step paused after the end of its pause.
// The answer does not name a time in the past as the end.
func TestPauseOverTime(t *testing.T) {
	t.Parallel()
	entered := metav1.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	const message = "Rollout is in step(1/1), and wait duration(60 seconds) to enter the next step; 2 of 2 new pods crash"
	r := &rollouts.Rollout{}
	r.Spec.Strategy.Canary = &rollouts.Release{Steps: []rollouts.Step{{Pause: rollouts.Pause{Duration: new(int32(60))}}}}
	r.Status.Phase, r.Status.Message = rollouts.PhaseProgressing, message
	r.Status.SetActivity(rollouts.ActivityInRolling, "m", entered)
	r.Status.Canary = &rollouts.Progress{CurrentStepIndex: 1, State: rollouts.StepPaused, LastUpdateTime: &entered}
	if w := Explain(r, Facts{Now: entered.Add(30 * time.Second)}); w.WaitingFor.Until == nil || !strings.Contains(w.Summary, "waiting until 2026-01-05T10:01:00Z.") {
		t.Errorf("within the time: until %v, %s", w.WaitingFor.Until, w.Summary)
	}
	w := Explain(r, Facts{Now: entered.Add(10 * time.Minute)})
	if w.WaitingFor.Until != nil || w.WaitingFor.What != message || strings.Contains(w.Summary, "10:01:00") || !strings.Contains(w.Summary, "2 of 2 new pods crash") {
		t.Errorf("after the time: until %v, what %q, %s", w.WaitingFor.Until, w.WaitingFor.What, w.Summary)
	}
}
