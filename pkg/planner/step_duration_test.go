// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestStepDurations checks that the duration of each part of a step is reported once, when the part
// ends.
func TestStepDurations(t *testing.T) {
	t.Parallel()
	at := func(seconds int) *metav1.Time {
		m := metav1.NewTime(time.Date(2026, 1, 5, 10, 0, seconds, 0, time.UTC))
		return &m
	}
	minute := int32(60)
	r := &rollouts.Rollout{}
	r.Spec.Strategy.Canary = &rollouts.Release{Steps: []rollouts.Step{{}, {Pause: rollouts.Pause{Duration: &minute}}}}
	record := func(steps ...rollouts.StepRecord) []rollouts.ReleaseRecord {
		return []rollouts.ReleaseRecord{{Number: 3, Steps: steps}}
	}
	step := func(n int32, entered, upgraded, paused, left *metav1.Time) rollouts.StepRecord {
		return rollouts.StepRecord{Step: n, StepTimes: rollouts.StepTimes{EnteredTime: entered, UpgradedTime: upgraded, PausedTime: paused, LeftTime: left}}
	}
	duration := func(wait planner.Wait, seconds int) planner.StepDuration {
		return planner.StepDuration{Part: wait, Duration: time.Duration(seconds) * time.Second}
	}
	for name, tt := range map[string]struct {
		before, after []rollouts.ReleaseRecord
		want          []planner.StepDuration
	}{
		"the step begins":        {nil, record(step(1, at(0), nil, nil, nil)), nil},
		"pods are ready":         {record(step(1, at(0), nil, nil, nil)), record(step(1, at(0), at(4), nil, nil)), []planner.StepDuration{duration(planner.WaitPods, 4)}},
		"traffic is routed":      {record(step(1, at(0), at(4), nil, nil)), record(step(1, at(0), at(4), at(9), nil)), []planner.StepDuration{duration(planner.WaitTraffic, 5)}},
		"both at once":           {record(step(1, at(0), nil, nil, nil)), record(step(1, at(0), at(4), at(9), nil)), []planner.StepDuration{duration(planner.WaitPods, 4), duration(planner.WaitTraffic, 5)}},
		"the step is approved":   {record(step(1, at(0), at(4), at(9), nil)), record(step(1, at(0), at(4), at(9), at(29)), step(2, at(29), nil, nil, nil)), []planner.StepDuration{duration(planner.WaitApproval, 20)}},
		"the pause has ended":    {record(step(2, at(0), at(4), at(9), nil)), record(step(2, at(0), at(4), at(9), at(69-60))), []planner.StepDuration{duration(planner.WaitTime, 0)}},
		"the step did not pause": {record(step(1, at(0), at(4), nil, nil)), record(step(1, at(0), at(4), nil, at(6))), []planner.StepDuration{duration(planner.WaitTraffic, 2)}},
		"no change":              {record(step(1, at(0), at(4), at(9), at(29))), record(step(1, at(0), at(4), at(9), at(29))), nil},
		"another visit": {
			record(step(1, at(0), at(4), at(9), at(29))),
			record(step(1, at(0), at(4), at(9), at(29)), step(1, at(40), at(41), nil, nil)), []planner.StepDuration{duration(planner.WaitPods, 1)},
		},
		"release recorded": {record(step(1, at(0), at(4), at(9), at(29))), []rollouts.ReleaseRecord{{Number: 3}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, planner.StepDurations(r, tt.before, tt.after)); diff != "" {
				t.Errorf("step durations (-want +got):\n%s", diff)
			}
		})
	}
}
