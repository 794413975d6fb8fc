// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"testing"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// TestWarmUp checks the warm-up of a check: its own, or that of the analysis. Gates, checks before
// traffic, jobs and Services have no warm-up. If the clock of a source is ahead, its first windows
// in a step contain data from before the step.
func TestWarmUp(t *testing.T) {
	t.Parallel()
	rate := rollouts.Check{SuccessRate: new("99%")}
	with := func(c rollouts.Check, edit func(*rollouts.Check)) rollouts.Check {
		edit(&c)
		return c
	}
	for name, test := range map[string]struct {
		analysis *int32
		measured MeasuredCheck
		want     time.Duration
	}{
		"none":            {nil, MeasuredCheck{Check: rate}, 0},
		"of the analysis": {new(int32(60)), MeasuredCheck{Check: rate}, time.Minute},
		"of the check":    {new(int32(60)), MeasuredCheck{Check: with(rate, func(c *rollouts.Check) { c.AfterSeconds = new(int32(90)) })}, 90 * time.Second},
		"0 for the check": {new(int32(60)), MeasuredCheck{Check: with(rate, func(c *rollouts.Check) { c.AfterSeconds = new(int32(0)) })}, 0},
		"a clock ahead":   {new(int32(60)), MeasuredCheck{Check: rate, ClockAhead: 2 * time.Minute}, 3 * time.Minute},
		"a gate":          {new(int32(60)), MeasuredCheck{Check: rollouts.Check{Gate: new(true), Query: &rollouts.QueryCheck{PromQL: "up", Min: new("1")}}}, 0},
		"before traffic":  {new(int32(60)), MeasuredCheck{Check: rollouts.Check{At: rollouts.AtBeforeTraffic, Query: &rollouts.QueryCheck{PromQL: "up", Min: new("1")}}}, 0},
		"a Service":       {new(int32(60)), MeasuredCheck{Check: rollouts.Check{HTTP: &rollouts.HTTPCheck{Service: "a"}}}, 0},
		"a job":           {new(int32(60)), MeasuredCheck{Check: rollouts.Check{Job: &rollouts.JobCheck{CronJob: "a"}}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts{plan: &rollouts.Release{Analysis: &rollouts.Analysis{AfterSeconds: test.analysis}, Steps: []rollouts.Step{{}}}}
			if got := judgeCheckOf(f, test.measured, 1).After; got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
