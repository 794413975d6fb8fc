// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

func TestPodLimit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		share    intstr.IntOrString
		replicas int32
		want     int32
	}{
		"a number":                           {intstr.FromInt32(3), 10, 3},
		"no more than there are":             {intstr.FromInt32(30), 10, 10},
		"no less than none":                  {intstr.FromInt32(-1), 10, 0},
		"a share, rounded up":                {intstr.FromString("20%"), 6, 2},
		"a small share is one pod":           {intstr.FromString("1%"), 10, 1},
		"a share below all is not all":       {intstr.FromString("99%"), 10, 9},
		"not even of two":                    {intstr.FromString("60%"), 2, 1},
		"of one pod any share is that pod":   {intstr.FromString("1%"), 1, 1},
		"all":                                {intstr.FromString("100%"), 10, 10},
		"nothing of nothing":                 {intstr.FromString("100%"), 0, 0},
		"nothing of a share":                 {intstr.FromString("0%"), 10, 0},
		"more than all is not all, as typed": {intstr.FromString("150%"), 10, 9},
		"unreadable is none":                 {intstr.FromString("many"), 10, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := planner.Limit(rollouts.StylePartition, test.share, test.replicas); got != test.want {
				t.Errorf("Limit(%s, %d) = %d, want %d", test.share.String(), test.replicas, got, test.want)
			}
		})
	}
}

// TestPodLimitKeepsLastStablePod checks that only a share of 100% includes all pods if the last stable pod is
// kept.
func TestPodLimitKeepsLastStablePod(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		share          string
		replicas, want int32
	}{
		{"20%", 5, 1}, {"99%", 10, 9}, {"60%", 2, 1}, {"1%", 1, 0}, {"99%", 1, 0}, {"1", 1, 0}, {"1", 2, 1}, {"3", 3, 2}, {"3", 2, 1}, {"30", 10, 9},
		{"100%", 1, 1}, {"100%", 10, 10}, {"0", 1, 0}, {"20%", 0, 0}, {"3", 0, 0}, {"100%", 0, 0}, {"150%", 1, 0},
	} {
		w, share := &planner.Workload{Replicas: test.replicas, KindTraits: planner.KindTraits{KeepsLastStablePod: true}}, intstr.Parse(test.share)
		if got := w.Limit(rollouts.StylePartition, share); got != test.want {
			t.Errorf("a step of %s has %d of %d, want %d", test.share, got, test.replicas, test.want)
		}
		if got := (planner.Target{Partition: share}).LimitFor(w); got != test.want {
			t.Errorf("a drive of %s brings %d of %d, want %d", test.share, got, test.replicas, test.want)
		}
	}
}
