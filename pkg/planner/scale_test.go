// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestSizes is about single writes; the way to a target is in TestSizesWalk.
func TestSizes(t *testing.T) {
	t.Parallel()
	young := set("young", 0, 0)
	young.Created = time.Unix(60, 0)
	old := set("old", 0, 0)
	old.Created = time.Unix(-60, 0)
	tests := map[string]struct {
		in   planner.Scaling
		want planner.Scale
	}{
		"the update set is made when it is needed": {
			planner.Scaling{Replicas: 4, Surge: 1, Target: 1, Stable: set("s", 4, 4)},
			planner.Scale{Steps: []planner.ScaleStep{{Replicas: 1}}, Rule: "bring update up"},
		},
		"the last pod stays that a Service selects, though the size leaves stable none": {
			planner.Scaling{Replicas: 1, Surge: 1, Target: 1, Pinned: "s", Update: set("u", 1, 1), Stable: set("s", 4, 4)},
			planner.Scale{Steps: []planner.ScaleStep{{Name: "s", Replicas: 1}}, Rule: "bring update up"},
		},
		"until it selects all": {
			planner.Scaling{Replicas: 1, Surge: 1, Target: 1, Update: set("u", 1, 1), Stable: set("s", 1, 1)},
			planner.Scale{Steps: []planner.ScaleStep{{Name: "s"}}, Rule: "bring update up"},
		},
		"pods that are not ready are taken for free, stable ones not for them": {
			planner.Scaling{Replicas: 4, Surge: 1, Target: 2, Update: set("u", 2, 0), Stable: set("s", 4, 3)},
			planner.Scale{Steps: []planner.ScaleStep{{Name: "s", Replicas: 3}}, Rule: "bring update up"},
		},
		"ready pods serve, though not yet for long enough": {
			planner.Scaling{Replicas: 4, Surge: 1, Target: 2, Update: set("u", 1, 0), Stable: fresh("s", 4, 4, 2)},
			planner.Scale{Rule: "sized"},
		},
		"others may serve in their place": {
			planner.Scaling{Replicas: 4, Surge: 1, Target: 3, Update: fresh("u", 2, 2, 0), Stable: fresh("s", 3, 3, 1)},
			planner.Scale{Steps: []planner.ScaleStep{{Name: "s", Replicas: 2}}, Rule: "bring update up"},
		},
		"a set whose last pods have not gone yet is not raised again, whose counters they would be in": {
			planner.Scaling{Replicas: 6, Surge: 2, Unavailable: 1, Abort: true, Update: set("u", 2, 2), Stable: shrinking("s", 4)},
			planner.Scale{Steps: []planner.ScaleStep{{Name: "u", Replicas: 1}}, Rule: "bring stable back"},
		},
		"nor is the update set": {
			planner.Scaling{Replicas: 6, Surge: 2, Unavailable: 1, Target: 4, Update: shrinking("u", 1), Stable: set("s", 6, 6)},
			planner.Scale{Steps: []planner.ScaleStep{{Name: "s", Replicas: 4}}, Rule: "bring update up"},
		},
		"nothing is taken below the floor": {
			planner.Scaling{Replicas: 4, Surge: 1, Target: 2, Update: set("u", 2, 1), Stable: set("s", 3, 3)},
			planner.Scale{Rule: "sized"},
		},
		"a full update set loses the notes on its size before stable gets pods": {
			planner.Scaling{Replicas: 4, Surge: 1, Abort: true, Update: annotatedSet("u", 4), Stable: set("s", 0, 0)},
			planner.Scale{Steps: []planner.ScaleStep{{Name: "u", Replicas: 4}, {Name: "s", Replicas: 1}}, Rule: "bring stable back"},
		},
		"the first pods of the update set are not lowered into": {
			planner.Scaling{Replicas: 4, Surge: 4, Unavailable: 4, Target: 4, Full: true, Stable: set("s", 4, 4)},
			planner.Scale{Steps: []planner.ScaleStep{{Replicas: 4}}, Rule: "bring update up"},
		},
		"stable pods that do not serve make room where nothing else moves": {
			planner.Scaling{
				Replicas: 4, Surge: 1, Target: 2, Update: set("u", 1, 1), Stable: set("s", 2, 0), Others: []planner.Set{*set("o", 2, 2)},
			},
			planner.Scale{Steps: []planner.ScaleStep{{Name: "s", Replicas: 1}}, Rule: "bring update up"},
		},
		"an abort makes no set": {
			planner.Scaling{Replicas: 4, Surge: 1, Target: 1, Abort: true, Stable: set("s", 4, 4)},
			planner.Scale{Rule: "sized"},
		},
		"size 0: the update set goes with its pods, and the native controller sizes stable": {
			planner.Scaling{Target: 1, Update: set("u", 1, 1), Stable: set("s", 3, 3)},
			planner.Scale{Steps: []planner.ScaleStep{{Name: "u", Delete: true}}, Rule: "bring to rest at size 0"},
		},
		"size 0: two that stay are brought down": {
			planner.Scaling{Full: true, Update: set("u", 3, 3), Stable: set("s", 1, 1)},
			planner.Scale{Steps: []planner.ScaleStep{{Name: "u"}, {Name: "s"}}, Rule: "bring to rest at size 0"},
		},
		"size 0: the update set goes when it is empty": {
			planner.Scaling{Update: set("u", 0, 0), Stable: set("s", 0, 0)},
			planner.Scale{Steps: []planner.ScaleStep{{Name: "u", Delete: true}}, Rule: "bring to rest at size 0"},
		},
		"size 0: so do empty sets that are younger than stable": {
			planner.Scaling{Abort: true, Stable: set("s", 0, 0), Others: []planner.Set{*young, *old}},
			planner.Scale{Steps: []planner.ScaleStep{{Name: "young", Delete: true}}, Rule: "bring to rest at size 0"},
		},
		"size 0: a full release keeps its set": {
			planner.Scaling{Full: true, Update: set("u", 0, 0), Stable: set("s", 0, 0)},
			planner.Scale{Rule: "at rest at size 0"},
		},
		"size 0: an aborted full release does not": {
			planner.Scaling{Full: true, Abort: true, Update: set("u", 0, 0), Stable: set("s", 0, 0)},
			planner.Scale{Steps: []planner.ScaleStep{{Name: "u", Delete: true}}, Rule: "bring to rest at size 0"},
		},
		"size 0: the native controller sizes, we only guard": {
			planner.Scaling{Native: true, Update: set("u", 0, 0), Stable: set("s", 3, 3)},
			planner.Scale{Steps: []planner.ScaleStep{{Name: "u", Delete: true}}, Rule: "bring to rest at size 0"},
		},
		"size 0: without stable nothing is deleted": {
			planner.Scaling{Update: set("u", 0, 0)},
			planner.Scale{Rule: "at rest at size 0"},
		},
		"size 0 comes before a freeze": {
			planner.Scaling{Frozen: true, Update: set("u", 1, 1), Stable: set("s", 3, 3)},
			planner.Scale{Steps: []planner.ScaleStep{{Name: "u", Delete: true}}, Rule: "bring to rest at size 0"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, planner.SizeSets(test.in)); diff != "" {
				t.Errorf("scale (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimit(t *testing.T) {
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

// Where the last stable pod stays, only all is all.
func TestLimitLastStays(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		share          string
		replicas, want int32
	}{
		{"20%", 5, 1}, {"99%", 10, 9}, {"60%", 2, 1}, {"1%", 1, 0}, {"99%", 1, 0}, {"1", 1, 0}, {"1", 2, 1}, {"3", 3, 2}, {"3", 2, 1}, {"30", 10, 9},
		{"100%", 1, 1}, {"100%", 10, 10}, {"0", 1, 0}, {"20%", 0, 0}, {"3", 0, 0}, {"100%", 0, 0}, {"150%", 1, 0},
	} {
		w, share := &planner.Workload{Replicas: test.replicas, LastStays: true}, intstr.Parse(test.share)
		if got := w.Limit(rollouts.StylePartition, share); got != test.want {
			t.Errorf("a step of %s has %d of %d, want %d", test.share, got, test.replicas, test.want)
		}
		if got := (planner.Target{Partition: share}).LimitOf(w); got != test.want {
			t.Errorf("a drive of %s brings %d of %d, want %d", test.share, got, test.replicas, test.want)
		}
	}
}

// fresh is a set of which some pods are ready for long enough only.
func fresh(name string, replicas, ready, available int32) *planner.Set {
	s := set(name, replicas, available)
	s.Ready = ready
	return s
}
