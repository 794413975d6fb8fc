// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-rollouts/weir/pkg/planner"
)

func sizedFor(n int32, s *planner.Set) *planner.Set {
	s.Noted = n
	return s
}

func numbered(revision int64, s *planner.Set) planner.Set {
	s.Revision = revision
	return *s
}

// TestSizesAlone is about Deployments that no release drives. Sets are written
// as the walk writes them, update/stable and others after a plus.
func TestSizesAlone(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in   planner.Scaling
		want string
	}{
		"the first pods of all": {
			planner.Scaling{Replicas: 5, Surge: 2, Unavailable: 1, Target: 5},
			"-/- 5/-, sized",
		},
		"up to the target": {
			planner.Scaling{Replicas: 10, Surge: 2, Unavailable: 1, Target: 3, Stable: sizedFor(10, set("s", 10, 10))},
			"-/10 2/10 2/7 3/7, sized",
		},
		"no surge: one extra pod at the edge": {
			planner.Scaling{Replicas: 5, Unavailable: 1, Target: 2, Stable: sizedFor(5, set("s", 5, 5))},
			"-/5 1/5 1/3 2/3, sized",
		},
		"a smaller target takes nothing back": {
			planner.Scaling{Replicas: 10, Surge: 2, Target: 1, Update: sizedFor(10, set("u", 4, 4)), Stable: sizedFor(10, set("s", 6, 6))},
			"4/6, sized",
		},
		"a target of none makes no set": {
			planner.Scaling{Replicas: 5, Surge: 2, Stable: sizedFor(5, set("s", 5, 5))},
			"-/5, sized",
		},
		"scaled up": {
			planner.Scaling{Replicas: 10, Surge: 3, Target: 2, Update: sizedFor(5, set("u", 2, 2)), Stable: sizedFor(5, set("s", 3, 3))},
			"2/3 4/6, sized",
		},
		"scaled down": {
			planner.Scaling{Replicas: 5, Surge: 3, Target: 2, Update: sizedFor(10, set("u", 4, 4)), Stable: sizedFor(10, set("s", 6, 6))},
			"4/6 2/3, sized",
		},
		"died between two writes of a scaling": {
			planner.Scaling{Replicas: 10, Surge: 3, Target: 2, Update: sizedFor(5, set("u", 2, 2)), Stable: sizedFor(10, set("s", 6, 6))},
			"2/6 4/6, sized",
		},
		"rounding gives nobody all": {
			planner.Scaling{Replicas: 4, Surge: 1, Target: 3, Update: sizedFor(10, set("u", 9, 9)), Stable: sizedFor(10, set("s", 1, 1))},
			"9/1 3/1, sized",
		},
		"pods that do not serve go first when scaled down": {
			planner.Scaling{Replicas: 5, Surge: 1, Unavailable: 1, Target: 2, Frozen: true, Update: sizedFor(10, set("u", 4, 0)), Stable: sizedFor(10, set("s", 6, 6))},
			"4/6 1/4, sized",
		},
		"paused: the surplus goes, available pods stay": {
			planner.Scaling{Replicas: 5, Surge: 2, Unavailable: 1, Target: 3, Frozen: true, Update: sizedFor(5, set("u", 2, 0)), Stable: sizedFor(5, set("s", 5, 5))},
			"2/5 1/4, sized",
		},
		"paused: old pods that do not serve go first": {
			planner.Scaling{Replicas: 5, Surge: 1, Target: 1, Frozen: true, Stable: sizedFor(5, set("s", 5, 5)), Others: []planner.Set{*sizedFor(5, set("o", 1, 0))}},
			"-/5+1 -/5+0, sized",
		},
		"paused: what is missing is filled up": {
			planner.Scaling{Replicas: 5, Unavailable: 1, Target: 3, Frozen: true, Update: sizedFor(5, set("u", 1, 1)), Stable: sizedFor(5, set("s", 3, 3))},
			"1/3 1/4, sized",
		},
		"paused before there was a pod": {
			planner.Scaling{Replicas: 5, Target: 5, Frozen: true},
			"-/-, sized",
		},
		"the newest of the old ones goes first": {
			planner.Scaling{
				Replicas: 5, Surge: 2, Unavailable: 1, Target: 3, Stable: sizedFor(5, set("s", 3, 3)),
				Others: []planner.Set{numbered(2, sizedFor(5, set("o", 2, 2)))},
			},
			"-/3+2 2/3+2 2/2+0 3/2+0, sized",
		},
		"what was taken from old ones comes back": {
			planner.Scaling{Replicas: 5, Target: 2, Update: sizedFor(5, set("u", 2, 2)), Stable: sizedFor(5, set("s", 1, 1))},
			"2/1 2/3, sized",
		},
		"the only set is the native controller's": {
			planner.Scaling{Replicas: 12, Target: 3, Stable: sizedFor(10, set("s", 10, 10))},
			"-/10, native controller sizes the only set",
		},
		"so are sets without pods": {
			planner.Scaling{Replicas: 12, Target: 3, Stable: set("s", 0, 0)},
			"-/0, native controller sizes the only set",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.in.Alone = true
			if diff := cmp.Diff(test.want, walked(test.in)); diff != "" {
				t.Errorf("sizes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNotes is about the size that a set was sized for, which scaling needs.
func TestNotes(t *testing.T) {
	t.Parallel()
	s := planner.Scaling{Replicas: 5, Surge: 2, Target: 2, Alone: true, Stable: set("s", 5, 5)}
	want := planner.Scale{
		Steps: []planner.ScaleStep{{Replicas: 2}, {Name: "s", Replicas: 5}},
		Rule:  "bring update up", Note: 5, NoteMax: 7,
	}
	if diff := cmp.Diff(want, planner.SizeSets(s)); diff != "" {
		t.Errorf("scale (-want +got):\n%s", diff)
	}
}
