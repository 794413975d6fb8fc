// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package sizes_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-rollouts/weir/pkg/sizes"
)

// walkSizes repeats Decide until it returns no steps, while all pods become ready in between. It
// returns the sizes on the way as update/stable, and other ReplicaSets after a plus.
func walkSizes(s sizes.Scaling) string {
	s = cloneScaling(s)
	path := []string{sizesOf(s)}
	for range 50 {
		scale := sizes.Decide(s)
		if len(scale.Steps) == 0 {
			return strings.Join(path, " ") + ", " + scale.Rule
		}
		for _, step := range scale.Steps {
			s = applyStep(s, step, scale.DesiredAnnotation)
		}
		path = append(path, sizesOf(s))
		for _, set := range setsOf(&s) {
			set.Ready, set.Available = set.Replicas, set.Replicas
		}
	}
	return strings.Join(path, " ") + ", for ever"
}

func cloneScaling(s sizes.Scaling) sizes.Scaling {
	if s.Update != nil {
		u := *s.Update
		s.Update = &u
	}
	if s.Stable != nil {
		st := *s.Stable
		s.Stable = &st
	}
	s.Others = append([]sizes.Set(nil), s.Others...)
	return s
}

func setsOf(s *sizes.Scaling) []*sizes.Set {
	var sets []*sizes.Set
	if s.Update != nil {
		sets = append(sets, s.Update)
	}
	if s.Stable != nil {
		sets = append(sets, s.Stable)
	}
	for i := range s.Others {
		sets = append(sets, &s.Others[i])
	}
	return sets
}

func applyStep(s sizes.Scaling, step sizes.Step, note int32) sizes.Scaling {
	if step.Name == "" {
		s.Update = &sizes.Set{Name: "made", Replicas: step.Replicas, Revision: 9, NotedReplicas: note}
		return s
	}
	for _, set := range setsOf(&s) {
		if set.Name == step.Name {
			set.Replicas, set.HasSizeAnnotations, set.NotedReplicas = step.Replicas, false, note
			set.Ready, set.Available = min(set.Ready, step.Replicas), min(set.Available, step.Replicas)
		}
	}
	if step.Delete && s.Update != nil && s.Update.Name == step.Name {
		s.Update = nil
	}
	return s
}

func sizesOf(s sizes.Scaling) string {
	sizes := []string{sizeOf(s.Update) + "/" + sizeOf(s.Stable)}
	for i := range s.Others {
		sizes = append(sizes, sizeOf(&s.Others[i]))
	}
	return strings.Join(sizes, "+")
}

func sizeOf(s *sizes.Set) string {
	if s == nil {
		return "-"
	}
	return strconv.Itoa(int(s.Replicas))
}

func set(name string, replicas, available int32) *sizes.Set {
	return &sizes.Set{Name: name, Replicas: replicas, Ready: available, Available: available, Created: time.Unix(0, 0)}
}

// shrinkingSet returns a ReplicaSet that was larger a moment ago.
func shrinkingSet(name string, replicas int32) *sizes.Set {
	s := set(name, replicas, replicas)
	s.IsShrinking = true
	return s
}

func TestSizesWalk(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in   sizes.Scaling
		want string
	}{
		"first step, new first": {
			sizes.Scaling{Replicas: 10, Surge: 2, Unavailable: 1, Target: 3, Stable: set("s", 10, 10)},
			"-/10 2/10 2/7 3/7, sized",
		},
		"step to step": {
			sizes.Scaling{Replicas: 10, Surge: 2, Unavailable: 1, Target: 6, Update: set("u", 3, 3), Stable: set("s", 7, 7)},
			"3/7 5/6 6/4, sized",
		},
		"to all": {
			sizes.Scaling{Replicas: 4, Surge: 1, Target: 4, AllPods: true, Update: set("u", 2, 2), Stable: set("s", 2, 2)},
			"2/2 3/2 3/1 4/1 4/0, sized",
		},
		"no surge: one extra pod at the edge, and none after it": {
			sizes.Scaling{Replicas: 4, Unavailable: 1, Target: 2, Stable: set("s", 4, 4)},
			"-/4 1/4 1/2 2/2, sized",
		},
		"nothing may be missing": {
			sizes.Scaling{Replicas: 3, Surge: 1, Target: 2, Stable: set("s", 3, 3)},
			"-/3 1/3 1/2 2/2 2/1, sized",
		},
		"back down after a smaller share": {
			sizes.Scaling{Replicas: 10, Surge: 2, Unavailable: 1, Target: 3, Update: set("u", 6, 6), Stable: set("s", 4, 4)},
			"6/4 5/6 3/7, sized",
		},
		"scaled up while two have pods": {
			sizes.Scaling{Replicas: 20, Surge: 5, Unavailable: 5, Target: 6, Update: set("u", 3, 3), Stable: set("s", 7, 7)},
			"3/7 6/14, sized",
		},
		"scaled down while two have pods": {
			sizes.Scaling{Replicas: 5, Surge: 2, Unavailable: 1, Target: 2, Update: set("u", 3, 3), Stable: set("s", 7, 7)},
			"3/7 2/3, sized",
		},
		"aborted: stable up, then update down": {
			sizes.Scaling{Replicas: 10, Surge: 2, Unavailable: 1, Abort: true, Update: set("u", 3, 3), Stable: set("s", 7, 7)},
			"3/7 2/9 0/10, sized",
		},
		"aborted while a router keeps a pod": {
			sizes.Scaling{Replicas: 4, Surge: 1, Target: 1, Abort: true, Update: set("u", 2, 2), Stable: set("s", 2, 2)},
			"2/2 2/3 1/3 1/4, sized",
		},
		"aborted at all pods": {
			sizes.Scaling{Replicas: 4, Surge: 1, Abort: true, Update: setWithAnnotations("u", 4), Stable: set("s", 0, 0)},
			"4/0 4/1 3/1 3/2 2/2 2/3 1/3 1/4 0/4, sized",
		},
		"superseded: the half released go first": {
			sizes.Scaling{
				Replicas: 10, Surge: 2, Unavailable: 1, Target: 2, Stable: set("s", 5, 5),
				Others: []sizes.Set{*set("o", 5, 5)},
			},
			"-/5+5 2/5+4 2/6+2 2/8+1 2/8+0, sized",
		},
		"two others: the newest goes first": {
			sizes.Scaling{
				Replicas: 6, Surge: 1, Target: 2, Update: set("u", 2, 2), Stable: set("s", 2, 2),
				Others: []sizes.Set{{Name: "a", Replicas: 2, Ready: 2, Available: 2, Revision: 2}, {Name: "b", Replicas: 1, Ready: 1, Available: 1, Revision: 3}},
			},
			"2/2+2+1 2/2+2+0 2/3+2+0 2/3+1+0 2/4+1+0 2/4+0+0, sized",
		},
		"one pod": {
			sizes.Scaling{Replicas: 1, Surge: 1, Target: 1, AllPods: true, Stable: set("s", 1, 1)},
			"-/1 1/1 1/0, sized",
		},
		"one pod, no surge": {
			sizes.Scaling{Replicas: 1, Unavailable: 1, Target: 1, AllPods: true, Stable: set("s", 1, 1)},
			"-/1 1/1 1/0, sized",
		},
		"frozen": {
			sizes.Scaling{Replicas: 10, Surge: 2, Unavailable: 1, Target: 6, Frozen: true, Update: set("u", 3, 3), Stable: set("s", 7, 7)},
			"3/7, frozen",
		},
		"native": {
			sizes.Scaling{Replicas: 10, Surge: 2, Unavailable: 1, OwnerStrategyActive: true, Stable: set("s", 10, 10)},
			"-/10, native",
		},
		"aborted without stable": {
			sizes.Scaling{Replicas: 10, Surge: 2, Abort: true, Update: set("u", 10, 10)},
			"10/-, stable set is gone",
		},
		"the native controller is still sizing the only set": {
			sizes.Scaling{Replicas: 12, Surge: 3, Unavailable: 3, Target: 6, Stable: set("s", 10, 10)},
			"-/10, native controller sizes the only set",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, walkSizes(test.in)); diff != "" {
				t.Errorf("sizes (-want +got):\n%s", diff)
			}
		})
	}
}

func setWithAnnotations(name string, replicas int32) *sizes.Set {
	s := set(name, replicas, replicas)
	s.HasSizeAnnotations = true
	return s
}

// TestSizesBounds tries many states of a release. No write goes above the ceiling or below the
// floor, and each walk reaches its target.
func TestSizesBounds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50000) {
		s := anyScaling(rand.New(rand.NewPCG(seed, 0)))
		if got := walkSizes(s); strings.HasSuffix(got, "for ever") {
			t.Fatalf("seed %d: %s", seed, got)
		}
		next := cloneScaling(s)
		most, available := totals(&s)
		for _, step := range sizes.Decide(s).Steps {
			next = applyStep(next, step, 0)
			all, left := totals(&next)
			if ceiling := max(most, s.Replicas+max(1, s.Surge)); all > ceiling && !isBlocked(&s) {
				t.Errorf("seed %d: %s %s makes %d pods of at most %d: %+v", seed, sizesOf(s), sizesOf(next), all, ceiling, s)
			}
			if floor := min(available, s.Replicas-s.Unavailable); left < floor {
				t.Errorf("seed %d: %s %s leaves %d available pods of a floor of %d: %+v", seed, sizesOf(s), sizesOf(next), left, floor, s)
			}
		}
		if end := finalSizes(s); !isAtTarget(&end) {
			t.Errorf("seed %d: %s stops at %s: %+v", seed, sizesOf(s), sizesOf(end), s)
		}
	}
}

// isBlocked reports whether three revisions have pods of which some are not available. One pod above
// the ceiling may then be necessary to end a standstill.
func isBlocked(s *sizes.Scaling) bool {
	all, available := totals(s)
	others := false
	for i := range s.Others {
		others = others || s.Others[i].Replicas > 0
	}
	return others && available < all
}

// finalSizes returns the state at the end of a walk in which the native controller sizes the only
// ReplicaSet.
func finalSizes(s sizes.Scaling) sizes.Scaling {
	s = cloneScaling(s)
	for range 100 {
		steps := sizes.Decide(s).Steps
		for _, step := range steps {
			s = applyStep(s, step, 0)
		}
		var active []*sizes.Set
		for _, set := range setsOf(&s) {
			if set.Replicas > 0 {
				active = append(active, set)
			}
		}
		moved := len(steps) > 0
		if len(active) == 1 && active[0].Replicas != s.Replicas {
			active[0].Replicas, moved = s.Replicas, true
		}
		for _, set := range active {
			moved = moved || set.Available < set.Replicas
			set.Ready, set.Available = set.Replicas, set.Replicas
		}
		if !moved {
			break
		}
	}
	return s
}

func isAtTarget(s *sizes.Scaling) bool {
	all, _ := totals(s)
	update := int32(0)
	if s.Update != nil {
		update = s.Update.Replicas
	}
	if s.Abort {
		return all == s.Replicas && s.Stable.Replicas == s.Replicas
	}
	return all == s.Replicas && update == s.Target
}

// anyScaling returns a random state of a Deployment in a release.
func anyScaling(r *rand.Rand) sizes.Scaling {
	n := 1 + r.Int32N(8)
	s := sizes.Scaling{Replicas: n, Surge: r.Int32N(4), Unavailable: r.Int32N(3), Target: r.Int32N(n + 1), Abort: r.IntN(3) == 0}
	s.Unavailable = min(s.Unavailable, n)
	if s.Surge == 0 {
		s.Unavailable = max(s.Unavailable, 1)
	}
	if s.Abort {
		s.Target = 0
	}
	most := n + max(1, s.Surge)
	some := func(name string, revision int64) *sizes.Set {
		size := r.Int32N(most + 1)
		most -= size
		made := withRevision(revision, set(name, size, r.Int32N(size+1)))
		return &made
	}
	s.Stable = some("s", 1)
	if r.IntN(3) > 0 {
		s.Update = some("u", 4)
	}
	if r.IntN(2) == 0 {
		s.Others = []sizes.Set{*some("o", 2)}
	}
	if r.IntN(4) == 0 {
		s.Others = append(s.Others, *some("p", 3))
	}
	return s
}
