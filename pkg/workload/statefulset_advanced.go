// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// advancedStatefulSet releases a StatefulSet of Kruise like a native one, with two differences. Its
// owner may pause it: the first step ends the pause, and the end of the release restores it.
// Ordinals may be reserved: Kruise creates no pods for them, and places are counted without them.
var advancedStatefulSet = pausableSet{func() partitioned {
	kind := *statefulSet.partitionKind
	kind.subjectOf, kind.revisionInStatus = func(o object.Object) subject { return o.(*AdvancedStatefulSet) }, true
	return partitioned{&kind}
}()}

// pausableSet is a StatefulSet that its owner may pause.
type pausableSet struct{ partitioned }

// Restore implements Adapter. The owner's pause would keep pods of the other version, so it is
// restored when those pods are gone. If the owner also has a partition, pods stay anyway, and the
// pause is restored at once.
func (a pausableSet) Restore(obj object.Object, owned []object.Object, hold Hold, how planner.RestoreWorkload) []object.Change {
	v := a.view(obj, owned, hold)
	isBack := v.live != "" && v.update == v.stable
	if hold.Active() && readOriginalStrategy(obj) == (originalStrategy{Paused: true}) && !how.KeepPaused && (how.Wait || isBack) {
		want := hold.copyOf(obj).(*AdvancedStatefulSet)
		want.resume()
		want.setPartition(0)
		if changes := changesBetween(obj, want); len(changes) > 0 || v.isRolling() {
			return changes
		}
	}
	return changesBetween(obj, v.restoredObject(how))
}

var _ orderedSet = (*AdvancedStatefulSet)(nil)

func (s *AdvancedStatefulSet) fields() fields {
	f := fields{template: &s.Spec.Template, unknown: &s.Unknown, historyLimit: &s.Spec.RevisionHistoryLimit, replicas: s.Spec.Replicas, maxUnavailable: 1}
	if u := s.Spec.UpdateStrategy.RollingUpdate; u != nil {
		f.partition, f.maxUnavailable = orZero(u.Partition), resolveUnavailable(u.MaxUnavailable, orElse(f.replicas, 1), false)
		f.stopped = orZero(u.Paused)
	}
	f.countOrdered(&s.Status)
	return f
}

func (s *AdvancedStatefulSet) stopController(isHeld bool) { stopOrderedController(s, isHeld) }

// resume ends the owner's pause, and saves it.
func (s *AdvancedStatefulSet) resume() {
	if !s.paused() {
		return
	}
	s.pause(false)
	own := readOriginalStrategy(s)
	own.Paused = true
	saveOriginalStrategy(s, own)
}

// preserveStrategy implements subject. It also keeps the ordinals and minReadySeconds as they are
// stored. From the first step on Weir sets rollingUpdate.paused, so this field is saved and reverted
// as well.
func (s *AdvancedStatefulSet) preserveStrategy(old object.Object, isAnother bool) {
	was, wrote := old.(*AdvancedStatefulSet), s.paused()
	preserveOrderedStrategy(was, s, isAnother)
	s.Spec.Ordinals, s.Spec.ReserveOrdinals = copyPointer(was.Spec.Ordinals), slices.Clone(was.Spec.ReserveOrdinals)
	if u := s.Spec.UpdateStrategy.RollingUpdate; u != nil {
		u.MinReadySeconds = was.minReady()
	}
	if _, controlled := readController(was); !controlled {
		return
	}
	own := readOriginalStrategy(s)
	if own.Paused = readOriginalStrategy(was).Paused; wrote != was.paused() {
		own.Paused = wrote
	}
	if own != readOriginalStrategy(s) {
		saveOriginalStrategy(s, own)
	}
	s.pause(was.paused())
}

func (s *AdvancedStatefulSet) setPartition(n int32) {
	u := &s.Spec.UpdateStrategy
	if u.Type != "" {
		u.Type = appsv1.RollingUpdateStatefulSetStrategyType
	}
	s.rollingUpdate().Partition = &n
}

func (s *AdvancedStatefulSet) restore(_ view, how planner.RestoreWorkload, isOurs bool) {
	own := readOriginalStrategy(s)
	paused := s.paused() || own.Paused
	switch {
	case how.KeepPaused:
		s.setPartition(frozen)
	case own.Type != "":
		s.Spec.UpdateStrategy = AdvancedStatefulSetUpdateStrategy{Type: appsv1.StatefulSetUpdateStrategyType(own.Type)}
	case isOurs:
		s.setPartition(own.Partition)
	}
	s.pause(paused)
}

func (s *AdvancedStatefulSet) updateType() *appsv1.StatefulSetUpdateStrategyType {
	return &s.Spec.UpdateStrategy.Type
}

func (s *AdvancedStatefulSet) copyStrategyFrom(other orderedSet) {
	was, u := other.(*AdvancedStatefulSet).Spec.UpdateStrategy, &s.Spec.UpdateStrategy
	if u.Type = was.Type; was.RollingUpdate == nil {
		u.RollingUpdate = nil
		return
	}
	s.rollingUpdate().Partition = copyPointer(was.RollingUpdate.Partition)
}

// rollingUpdate returns the parameters of RollingUpdate, and creates them if they are missing.
func (s *AdvancedStatefulSet) rollingUpdate() *RollingUpdateAdvancedStatefulSet {
	if s.Spec.UpdateStrategy.RollingUpdate == nil {
		s.Spec.UpdateStrategy.RollingUpdate = &RollingUpdateAdvancedStatefulSet{}
	}
	return s.Spec.UpdateStrategy.RollingUpdate
}

func (s *AdvancedStatefulSet) minReady() *int32 {
	if u := s.Spec.UpdateStrategy.RollingUpdate; u != nil {
		return copyPointer(u.MinReadySeconds)
	}
	return nil
}

func (s *AdvancedStatefulSet) paused() bool { return s.fields().stopped }

func (s *AdvancedStatefulSet) pause(paused bool) {
	if s.paused() != paused {
		s.rollingUpdate().Paused = &paused
	}
}

// placeOf implements orderedSet. A pod with a reserved ordinal has no place, because Kruise deletes
// it.
func (s *AdvancedStatefulSet) placeOf() func(number int) int {
	first := int(orZero(s.Spec.Ordinals).Start)
	gaps := reservedRanges(s.Spec.ReserveOrdinals, first)
	return func(number int) int {
		i, _ := slices.BinarySearchFunc(gaps, number, func(g reservedRange, n int) int { return cmp.Compare(g.to, n) })
		switch {
		case i < len(gaps) && gaps[i].from <= number:
			return -1
		case i > 0:
			return number - first - gaps[i-1].below
		default:
			return number - first
		}
	}
}

// reservedRange is a range of reserved ordinals.
type reservedRange struct {
	from, to int
	// below is how many ordinals from the first one up to the end of the range are reserved.
	below int
}

// reservedRanges returns the reserved ordinals in order and without overlaps. It never enumerates
// the ordinals, because a range may have billions.
func reservedRanges(reserved []intstr.IntOrString, first int) []reservedRange {
	var gaps []reservedRange
	for _, r := range reserved {
		if from, to := parseRange(r); from <= to {
			gaps = append(gaps, reservedRange{from: from, to: to})
		}
	}
	slices.SortFunc(gaps, func(a, b reservedRange) int { return cmp.Compare(a.from, b.from) })
	apart, below, last := gaps[:0], 0, -1
	for _, g := range gaps {
		if g.to <= last {
			continue
		}
		g.from, last = max(g.from, last+1), g.to
		below += max(g.to-max(g.from, first)+1, 0)
		g.below = below
		apart = append(apart, g)
	}
	return apart
}

// parseRange reads an ordinal, or a range such as 3-5; an empty range if it is unreadable.
func parseRange(reserved intstr.IntOrString) (from, to int) {
	first, last, ranged := strings.Cut(reserved.String(), "-")
	if !ranged {
		last = first
	}
	from, err := strconv.Atoi(first)
	if err != nil || from < 0 {
		return 0, -1
	}
	if to, err = strconv.Atoi(last); err != nil {
		return 0, -1
	}
	return from, to
}
