// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// requireCheap fails if do allocates a MiB. Call it with increasing numbers, so that the test stops before
// one allocates all memory.
func requireCheap(t *testing.T, what string, do func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Fatalf("%s: takes %d KiB", what, took>>10)
	}
}

// sceneOfSize returns a scene whose object asks for a number of pods, of which only some exist.
func sceneOfSize(t *testing.T, pods string, size int32) *statefulScene {
	return newStatefulScene(t, "b", pods, setStatefulTarget(frozen, 1, false, ""), func(s *appsv1.StatefulSet) { s.Spec.Replicas = &size })
}

// TestAnySize checks that Weir stores data only for the existing pods of a StatefulSet, whatever
// size the object asks for. StatefulSets of other groups may have no controller at all.
func TestAnySize(t *testing.T) {
	for _, size := range []int32{-1, 2, 1 << 20, math.MaxInt32} {
		for _, pods := range []string{"", "AB"} {
			s := sceneOfSize(t, pods, size)
			advanced := advancedOf(s, false)
			for kind, tc := range map[string]struct {
				adapter Adapter
				obj     object.Object
			}{"native": {statefulSet, s.set}, "like": {statefulSetLike, likeOf(s)}, "advanced": {advancedStatefulSet, advanced}} {
				what := fmt.Sprintf("%s of size %d with pods %q", kind, size, pods)
				requireCheap(t, what, func() {
					w := tc.adapter.Observe(tc.obj, s.owned, HoldFromRecords(tc.obj))
					tc.adapter.SetTarget(tc.obj, s.owned, HoldFromRecords(tc.obj), setTarget("50%", false), owner())
					tc.adapter.SetTarget(tc.obj, s.owned, HoldFromRecords(tc.obj), setTarget("1", true), owner())
					tc.adapter.Restore(tc.obj, s.owned, HoldFromRecords(tc.obj), planner.RestoreWorkload{Wait: true})
					all := int32(len(pods)) //nolint:gosec // two
					if size < 0 {
						all = 0
					}
					if w.Replicas != size || w.UpdatedReplicas != all/2 || w.StableReplicas != all/2 || w.StableReadyReplicas != all/2 || w.HasSurplusPods != (size < 0 && pods != "") {
						t.Errorf("%s: counts %d updated, %d stable, %d ready of %d; shrinks %t", what, w.UpdatedReplicas, w.StableReplicas, w.StableReadyReplicas, w.Replicas, w.HasSurplusPods)
					}
				})
			}
		}
	}
}

// TestLargestSize checks that a pod may have the last place of the largest size, and that no
// partition overflows.
func TestLargestSize(t *testing.T) {
	for _, most := range []int32{1 << 20, math.MaxInt32} {
		for _, tc := range []struct {
			letter, share string
			back          bool
			want          int32
		}{
			{"B", "1", false, most - 1},
			{"B", "2", false, most - 2},
			{"B", "50%", false, most / 2},
			{"A", "1", false, most - 1},
			{"A", "50%", false, most / 2},
			{"B", "0", false, frozen},
			{"A", "0", false, frozen},
			{"B", "2", true, most + min(1, math.MaxInt32-most)},
			{"A", "2", true, 0},
		} {
			s := sceneOfSize(t, "AA"+tc.letter, most)
			s.owned[len(s.owned)-1].SetName(fmt.Sprintf("db-%d", most-1))
			requireCheap(t, fmt.Sprintf("size %d", most), func() {
				if got := statefulSet.view(s.set, s.owned, HoldFromRecords(s.set)).partitionFor(planner.Target{Partition: intstr.Parse(tc.share)}, tc.back); got != tc.want {
					t.Errorf("%s of %d with %s, back %t: partition %d, want %d", tc.share, most, tc.letter, tc.back, got, tc.want)
				}
			})
		}
	}
}

// TestPartitionOfAll checks that the partition is the lowest with which no more pods than the share
// run the update revision, including those below the partition, whichever pods are missing; or that
// it is frozen.
func TestPartitionOfAll(t *testing.T) {
	for all, n := []string{""}, 0; n < 7; n++ {
		var longer []string
		for _, pods := range all {
			s := newStatefulScene(t, "b", pods, setStatefulTarget(3, 1, false, ""))
			v := statefulSet.view(s.set, s.owned, HoldFromRecords(s.set))
			for share := range v.size + 1 {
				if got, want := partitionReleasing(v, share), lowestPartition(pods, int(share)); got != want {
					t.Errorf("%d of %q: partition %d, want %d", share, pods, got, want)
				}
			}
			longer = append(longer, pods+"A", pods+"B", pods+".")
		}
		all = longer
	}
}

// lowestPartition tries one partition after the other.
func lowestPartition(pods string, share int) int32 {
	for p := range len(pods) {
		n := len(pods) - p
		for _, letter := range pods[:p] {
			if letter == 'B' {
				n++
			}
		}
		if n <= share {
			return int32(p) //nolint:gosec // a few
		}
	}
	return frozen
}

// TestReservedRanges checks that a range of reserved ordinals costs the same at any length, and that
// each ordinal is left out once.
func TestReservedRanges(t *testing.T) {
	reserved := []intstr.IntOrString{
		intstr.FromInt32(9), intstr.FromString("3-5"), intstr.FromInt32(1), intstr.FromString("4-6"), intstr.FromString("4"),
		intstr.FromString("8-7"), intstr.FromString("2-"), intstr.FromString("many"), intstr.FromInt32(-2), intstr.FromInt32(1),
	}
	for first, want := range map[int32][]int{
		0: {0, -1, 1, -1, -1, -1, -1, 2, 3, -1, 4, 5},
		2: {-2, -1, 0, -1, -1, -1, -1, 1, 2, -1, 3, 4},
		5: {-5, -1, -3, -1, -1, -1, -1, 0, 1, -1, 2, 3},
	} {
		s := &AdvancedStatefulSet{Spec: AdvancedStatefulSetSpec{ReserveOrdinals: reserved, Ordinals: &appsv1.StatefulSetOrdinals{Start: first}}}
		for number, place := range want {
			if got := s.placeOf()(number); got != place {
				t.Errorf("from %d on, %d is in place %d, want %d", first, number, got, place)
			}
		}
	}
	for _, last := range []int{1 << 10, 1 << 20, math.MaxInt64 - 1} {
		s := newStatefulScene(t, "b", "AB", setStatefulTarget(frozen, 1, false, ""))
		set := advancedOf(s, false)
		set.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromString(fmt.Sprintf("1-%d", last)), intstr.FromString(fmt.Sprintf("7-%d", last))}
		s.owned[len(s.owned)-1].(*corev1.Pod).Name = fmt.Sprintf("db-%d", last+1)
		requireCheap(t, fmt.Sprint("up to ", last), func() {
			if w := advancedStatefulSet.Observe(set, s.owned, HoldFromRecords(set)); w.UpdatedReplicas != 1 || w.StableReplicas != 1 || w.HasSurplusPods {
				t.Errorf("counts %d updated, %d stable; shrinks %t", w.UpdatedReplicas, w.StableReplicas, w.HasSurplusPods)
			}
		})
	}
}
