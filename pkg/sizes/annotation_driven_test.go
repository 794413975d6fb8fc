// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package sizes_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-rollouts/weir/pkg/sizes"
)

func withNote(n int32, s *sizes.Set) *sizes.Set {
	s.NotedReplicas = n
	return s
}

func withRevision(revision int64, s *sizes.Set) sizes.Set {
	s.Revision = revision
	return *s
}

// TestAnnotationDriven checks Deployments that only an annotation drives. Sizes are written as
// update/stable, and other ReplicaSets after a plus.
func TestAnnotationDriven(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in   sizes.Scaling
		want string
	}{
		"the first pods of all": {
			sizes.Scaling{Replicas: 5, Surge: 2, Unavailable: 1, Target: 5},
			"-/- 5/-, sized",
		},
		"up to the target": {
			sizes.Scaling{Replicas: 10, Surge: 2, Unavailable: 1, Target: 3, Stable: withNote(10, set("s", 10, 10))},
			"-/10 2/10 2/7 3/7, sized",
		},
		"no surge: one extra pod at the edge": {
			sizes.Scaling{Replicas: 5, Unavailable: 1, Target: 2, Stable: withNote(5, set("s", 5, 5))},
			"-/5 1/5 1/3 2/3, sized",
		},
		"a smaller target takes nothing back": {
			sizes.Scaling{Replicas: 10, Surge: 2, Target: 1, Update: withNote(10, set("u", 4, 4)), Stable: withNote(10, set("s", 6, 6))},
			"4/6, sized",
		},
		"a target of none makes no set": {
			sizes.Scaling{Replicas: 5, Surge: 2, Stable: withNote(5, set("s", 5, 5))},
			"-/5, sized",
		},
		"scaled up": {
			sizes.Scaling{Replicas: 10, Surge: 3, Target: 2, Update: withNote(5, set("u", 2, 2)), Stable: withNote(5, set("s", 3, 3))},
			"2/3 4/6, sized",
		},
		"scaled up beyond 33,000": {
			sizes.Scaling{Replicas: 60000, Surge: 3, Target: 24000, Update: withNote(50000, set("u", 20000, 20000)), Stable: withNote(50000, set("s", 30000, 30000))},
			"20000/30000 24000/36000, sized",
		},
		"scaled down": {
			sizes.Scaling{Replicas: 5, Surge: 3, Target: 2, Update: withNote(10, set("u", 4, 4)), Stable: withNote(10, set("s", 6, 6))},
			"4/6 2/3, sized",
		},
		"died between two writes of a scaling": {
			sizes.Scaling{Replicas: 10, Surge: 3, Target: 2, Update: withNote(5, set("u", 2, 2)), Stable: withNote(10, set("s", 6, 6))},
			"2/6 4/6, sized",
		},
		"rounding gives nobody all": {
			sizes.Scaling{Replicas: 4, Surge: 1, Target: 3, Update: withNote(10, set("u", 9, 9)), Stable: withNote(10, set("s", 1, 1))},
			"9/1 3/1, sized",
		},
		"pods that do not serve go first when scaled down": {
			sizes.Scaling{Replicas: 5, Surge: 1, Unavailable: 1, Target: 2, Frozen: true, Update: withNote(10, set("u", 4, 0)), Stable: withNote(10, set("s", 6, 6))},
			"4/6 1/4, sized",
		},
		"paused: the surplus goes, available pods stay": {
			sizes.Scaling{Replicas: 5, Surge: 2, Unavailable: 1, Target: 3, Frozen: true, Update: withNote(5, set("u", 2, 0)), Stable: withNote(5, set("s", 5, 5))},
			"2/5 1/4, sized",
		},
		"paused: old pods that do not serve go first": {
			sizes.Scaling{Replicas: 5, Surge: 1, Target: 1, Frozen: true, Stable: withNote(5, set("s", 5, 5)), Others: []sizes.Set{*withNote(5, set("o", 1, 0))}},
			"-/5+1 -/5+0, sized",
		},
		"paused: what is missing is filled up": {
			sizes.Scaling{Replicas: 5, Unavailable: 1, Target: 3, Frozen: true, Update: withNote(5, set("u", 1, 1)), Stable: withNote(5, set("s", 3, 3))},
			"1/3 1/4, sized",
		},
		"paused before there was a pod": {
			sizes.Scaling{Replicas: 5, Target: 5, Frozen: true},
			"-/-, sized",
		},
		"the newest of the old ones goes first": {
			sizes.Scaling{
				Replicas: 5, Surge: 2, Unavailable: 1, Target: 3, Stable: withNote(5, set("s", 3, 3)),
				Others: []sizes.Set{withRevision(2, withNote(5, set("o", 2, 2)))},
			},
			"-/3+2 2/3+2 2/2+0 3/2+0, sized",
		},
		"a surplus of old ones goes": {
			sizes.Scaling{
				Replicas: 5, Surge: 2, Stable: withNote(5, set("s", 5, 5)),
				Others: []sizes.Set{withRevision(2, withNote(5, set("o", 1, 0)))},
			},
			"-/5+1 -/5+0, sized",
		},
		"old ones make room for the first new pod, no more": {
			sizes.Scaling{
				Replicas: 5, Unavailable: 2, Target: 5, Stable: withNote(5, set("s", 3, 3)),
				Others: []sizes.Set{withRevision(2, withNote(5, set("o", 2, 2)))},
			},
			"-/3+2 -/3+1 1/3+1 1/2+0 3/2+0 3/0+0, native controller sizes the only set",
		},
		"what was taken from old ones comes back": {
			sizes.Scaling{Replicas: 5, Target: 2, Update: withNote(5, set("u", 2, 2)), Stable: withNote(5, set("s", 1, 1))},
			"2/1 2/3, sized",
		},
		"the only set is the native controller's": {
			sizes.Scaling{Replicas: 12, Target: 3, Stable: withNote(10, set("s", 10, 10))},
			"-/10, native controller sizes the only set",
		},
		"so are sets without pods": {
			sizes.Scaling{Replicas: 12, Target: 3, Stable: set("s", 0, 0)},
			"-/0, native controller sizes the only set",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.in.AnnotationDriven = true
			if diff := cmp.Diff(test.want, walkSizes(test.in)); diff != "" {
				t.Errorf("sizes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSizeAnnotations checks the size annotations that later decisions need.
func TestSizeAnnotations(t *testing.T) {
	t.Parallel()
	s := sizes.Scaling{Replicas: 5, Surge: 2, Target: 2, AnnotationDriven: true, Stable: set("s", 5, 5)}
	want := sizes.Scale{
		Steps: []sizes.Step{{Replicas: 2}, {Name: "s", Replicas: 5}},
		Rule:  "bring update up", DesiredAnnotation: 5, MaxAnnotation: 7,
	}
	if diff := cmp.Diff(want, sizes.Decide(s)); diff != "" {
		t.Errorf("scale (-want +got):\n%s", diff)
	}
}

// TestAnnotationDrivenBounds tries many states. Each walk ends, no write goes below the floor or above the
// ceiling, and no revision whose target is lower gets all pods.
func TestAnnotationDrivenBounds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 0))
		s := anyAnnotationDriven(r)
		if got := walkSizes(s); strings.HasSuffix(got, "for ever") {
			t.Fatalf("seed %d: %s", seed, got)
		}
		scale := sizes.Decide(s)
		next := cloneScaling(s)
		for _, step := range scale.Steps {
			next = applyStep(next, step, scale.DesiredAnnotation)
		}
		all, available := totals(&s)
		allNext, availableNext := totals(&next)
		path := sizesOf(s) + " " + sizesOf(next)
		if floor := min(available, s.Replicas-s.Unavailable); availableNext < floor {
			t.Errorf("seed %d: %s leaves %d available pods of a floor of %d: %+v", seed, path, availableNext, floor, s)
		}
		if ceiling := max(all, s.Replicas+max(1, s.Surge)); allNext > ceiling {
			t.Errorf("seed %d: %s makes %d pods of at most %d: %+v", seed, path, allNext, ceiling, s)
		}
		if s.Target < s.Replicas && next.Update != nil && next.Update.Replicas >= s.Replicas && (s.Update == nil || s.Update.Replicas < next.Update.Replicas) {
			t.Errorf("seed %d: %s releases everywhere what is wanted %d times: %+v", seed, path, s.Target, s)
		}
	}
}

func totals(s *sizes.Scaling) (all, available int32) {
	for _, set := range setsOf(s) {
		all, available = all+set.Replicas, available+set.Available
	}
	return all, available
}

// anyAnnotationDriven returns a random state of a Deployment that only an annotation drives.
func anyAnnotationDriven(r *rand.Rand) sizes.Scaling {
	n := 1 + r.Int32N(12)
	s := sizes.Scaling{Replicas: n, AnnotationDriven: true, Frozen: r.IntN(4) == 0, Surge: r.Int32N(4), Unavailable: r.Int32N(3), Target: r.Int32N(n + 1)}
	s.Unavailable = min(s.Unavailable, n)
	if s.Surge == 0 {
		s.Unavailable = max(s.Unavailable, 1)
	}
	sized := n
	if r.IntN(2) == 0 {
		sized = 1 + r.Int32N(12)
	}
	some := func(name string, revision int64) *sizes.Set {
		size := r.Int32N(sized + 1)
		made := withRevision(revision, withNote(sized, set(name, size, r.Int32N(size+1))))
		return &made
	}
	s.Stable = some("s", 1)
	if r.IntN(3) > 0 {
		s.Update = some("u", 3)
	}
	if r.IntN(3) == 0 {
		s.Others = []sizes.Set{*some("o", 2)}
	}
	return s
}
