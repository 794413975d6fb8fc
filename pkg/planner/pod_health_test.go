// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"
	"time"

	"github.com/weir-rollouts/weir/pkg/judge"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestPodsHealthy checks that new pods fail the check only for problems that stable pods do not
// have as well.
func TestPodsHealthy(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, tc := range map[string]struct {
		new, stable planner.PodHealth
		is          judge.State
	}{
		"no problems":                    {planner.PodHealth{}, planner.PodHealth{}, judge.Passed},
		"two errors":                     {planner.PodHealth{Pods: 2, ErrorExits: 2}, planner.PodHealth{Pods: 8}, judge.Passed},
		"three errors":                   {planner.PodHealth{Pods: 2, ErrorExits: 3}, planner.PodHealth{Pods: 8}, judge.Failed},
		"stable fails as often":          {planner.PodHealth{Pods: 2, ErrorExits: 3}, planner.PodHealth{Pods: 8, ErrorExits: 8}, judge.Passed},
		"three times as often as stable": {planner.PodHealth{Pods: 2, ErrorExits: 6}, planner.PodHealth{Pods: 8, ErrorExits: 8}, judge.Failed},
		"once out of memory":             {planner.PodHealth{Pods: 2, ErrorExits: 1, OOMKills: 1}, planner.PodHealth{Pods: 8}, judge.Passed},
		"twice out of memory":            {planner.PodHealth{Pods: 2, ErrorExits: 2, OOMKills: 2}, planner.PodHealth{Pods: 8}, judge.Failed},
		"half of them crash":             {planner.PodHealth{Pods: 2, CrashLoops: 1}, planner.PodHealth{Pods: 8}, judge.Failed},
		"less than half of them crash":   {planner.PodHealth{Pods: 3, CrashLoops: 1}, planner.PodHealth{Pods: 8}, judge.Passed},
		"stable crashes, too":            {planner.PodHealth{Pods: 2, CrashLoops: 2}, planner.PodHealth{Pods: 8, CrashLoops: 4}, judge.Passed},
		"unready":                        {planner.PodHealth{Pods: 2, UnreadySince: ago(time.Minute)}, planner.PodHealth{Pods: 8}, judge.Passed},
		"unready for long":               {planner.PodHealth{Pods: 2, UnreadySince: ago(61 * time.Second)}, planner.PodHealth{Pods: 8}, judge.Failed},
		"stable unready, too":            {planner.PodHealth{Pods: 2, UnreadySince: ago(time.Hour)}, planner.PodHealth{Pods: 8, UnreadySince: ago(time.Second)}, judge.Passed},
	} {
		if v := planner.JudgePods(planner.PodHealthByRevision{New: tc.new, Stable: tc.stable}, now); v.Is != tc.is {
			t.Errorf("%s: %s, %s, want %s", name, v.Is, v.Why, tc.is)
		}
	}
}
