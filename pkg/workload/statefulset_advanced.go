// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// advancedStatefulSet releases a StatefulSet of Kruise like a native one, but for two
// things. Its owner may pause it: that is ended by the first step, and is back in the
// end. And ordinals may be reserved: Kruise leaves these out, and counts the pods that
// there are, so that they are taken for those of a set without a gap.
type advancedStatefulSet struct{ statefulSet }

var _ Adapter = advancedStatefulSet{}

// native is what a native one would say of it.
func (s *AdvancedStatefulSet) native() *appsv1.StatefulSet {
	c := s.DeepCopyObject().(*AdvancedStatefulSet)
	n := &appsv1.StatefulSet{TypeMeta: c.TypeMeta, ObjectMeta: c.ObjectMeta, Status: c.Status}
	n.Spec.Replicas, n.Spec.Template, n.Spec.RevisionHistoryLimit = c.Spec.Replicas, c.Spec.Template, c.Spec.RevisionHistoryLimit
	n.Spec.Ordinals, n.Spec.UpdateStrategy.Type = c.Spec.Ordinals, c.Spec.UpdateStrategy.Type
	if u := c.Spec.UpdateStrategy.RollingUpdate; u != nil {
		n.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: u.Partition, MaxUnavailable: u.MaxUnavailable}
	}
	return n
}

// take makes it what a native one has become.
func (s *AdvancedStatefulSet) take(n *appsv1.StatefulSet) {
	s.ObjectMeta, s.Spec.Template, s.Spec.RevisionHistoryLimit = n.ObjectMeta, n.Spec.Template, n.Spec.RevisionHistoryLimit
	u := &s.Spec.UpdateStrategy
	u.Type = n.Spec.UpdateStrategy.Type
	switch {
	case n.Spec.UpdateStrategy.RollingUpdate == nil:
		u.RollingUpdate = nil
		return
	case u.RollingUpdate == nil:
		u.RollingUpdate = &RollingUpdateAdvancedStatefulSet{}
	}
	u.RollingUpdate.Partition = n.Spec.UpdateStrategy.RollingUpdate.Partition
}

func (s *AdvancedStatefulSet) minReady() *int32 {
	if u := s.Spec.UpdateStrategy.RollingUpdate; u != nil {
		return copied(u.MinReadySeconds)
	}
	return nil
}

func (s *AdvancedStatefulSet) paused() bool {
	u := s.Spec.UpdateStrategy.RollingUpdate
	return u != nil && orZero(u.Paused)
}

func (s *AdvancedStatefulSet) pause(paused bool) {
	if s.paused() == paused {
		return
	}
	if s.Spec.UpdateStrategy.RollingUpdate == nil {
		s.Spec.UpdateStrategy.RollingUpdate = &RollingUpdateAdvancedStatefulSet{}
	}
	s.Spec.UpdateStrategy.RollingUpdate.Paused = &paused
}

// compactOrdinals numbers the pods as if no ordinal was reserved; was leads back. One that
// has a reserved ordinal is about to go.
func (s *AdvancedStatefulSet) compactOrdinals(owned []object.Object) (all []object.Object, was map[object.Object]object.Object) {
	if len(s.Spec.ReserveOrdinals) == 0 {
		return owned, nil
	}
	was = map[object.Object]object.Object{}
	for _, o := range owned {
		if p, ok := o.(*corev1.Pod); ok && metav1.IsControlledBy(p, s) {
			place := s.place(ordinal(&appsv1.StatefulSet{}, p))
			if place < 0 {
				continue
			}
			p = p.DeepCopy()
			p.Name = fmt.Sprintf("%s-%d", s.Name, place)
			was[p], o = o, p
		}
		all = append(all, o)
	}
	return all, was
}

// place is an ordinal less those that are reserved below; -1 if it is reserved itself.
func (s *AdvancedStatefulSet) place(n int) int {
	first, below := int(orZero(s.Spec.Ordinals).Start), map[int]bool{} // one may be named twice
	for _, reserved := range s.Spec.ReserveOrdinals {
		from, to := spanOf(reserved)
		if from <= n && n <= to {
			return -1
		}
		for i := max(from, first); i <= min(to, n); i++ {
			below[i] = true
		}
	}
	return n - len(below)
}

// spanOf is a number, or a range such as 3-5; nothing if it is unreadable.
func spanOf(reserved intstr.IntOrString) (from, to int) {
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

// changes are those of a native one, and whether it is paused then.
func (s *AdvancedStatefulSet) changes(native []object.Change, paused bool, was map[object.Object]object.Object) []object.Change {
	want := s.DeepCopyObject().(*AdvancedStatefulSet)
	for i, c := range native {
		if n, ok := c.Want.(*appsv1.StatefulSet); ok {
			want.take(n)
		}
		if pod := was[c.Base]; pod != nil {
			native[i].Base = pod
		}
	}
	if want.pause(paused); paused != s.paused() && !paused {
		own := owners(want)
		own.Paused = true
		keepOwners(want, own)
	}
	if changes := change(s, want); len(changes) > 0 {
		return changes
	}
	return slices.DeleteFunc(native, func(c object.Change) bool { return c.Want != nil })
}

// Observe implements Adapter.
func (a advancedStatefulSet) Observe(obj object.Object, owned []object.Object) planner.Workload {
	s := obj.(*AdvancedStatefulSet)
	pods, _ := s.compactOrdinals(owned)
	w := a.statefulSet.Observe(s.native(), pods)
	w.Paused, w.TargetApplied = w.Paused || s.paused(), w.TargetApplied && !s.paused()
	return w
}

// Changed implements Adapter.
func (a advancedStatefulSet) Changed(oldObj, newObj object.Object) bool {
	return a.statefulSet.Changed(oldObj.(*AdvancedStatefulSet).native(), newObj.(*AdvancedStatefulSet).native())
}

// Rolls implements Adapter.
func (a advancedStatefulSet) Rolls(oldObj, newObj object.Object) bool {
	return a.statefulSet.Rolls(oldObj.(*AdvancedStatefulSet).native(), newObj.(*AdvancedStatefulSet).native())
}

// UnsupportedReason implements Adapter.
func (a advancedStatefulSet) UnsupportedReason(obj object.Object) string {
	return a.statefulSet.UnsupportedReason(obj.(*AdvancedStatefulSet).native())
}

// Sized implements Adapter.
func (a advancedStatefulSet) Sized(oldObj, newObj object.Object, isHeld bool) string {
	return a.statefulSet.Sized(oldObj.(*AdvancedStatefulSet).native(), newObj.(*AdvancedStatefulSet).native(), isHeld)
}

// Hold implements Adapter.
func (a advancedStatefulSet) Hold(obj object.Object, by string) {
	s := obj.(*AdvancedStatefulSet)
	n := s.native()
	a.statefulSet.Hold(n, by)
	s.take(n)
}

// Keep implements Adapter. From the first step on the pause is ours.
func (a advancedStatefulSet) Keep(oldObj, newObj object.Object) {
	was, s := oldObj.(*AdvancedStatefulSet), newObj.(*AdvancedStatefulSet)
	n, wrote := s.native(), s.paused()
	a.statefulSet.Keep(was.native(), n)
	s.take(n)
	s.Spec.Ordinals, s.Spec.ReserveOrdinals = copied(was.Spec.Ordinals), slices.Clone(was.Spec.ReserveOrdinals)
	if u := s.Spec.UpdateStrategy.RollingUpdate; u != nil {
		u.MinReadySeconds = was.minReady()
	}
	if _, driven := readOwner(was); !driven {
		return
	}
	own := owners(s)
	if own.Paused = owners(was).Paused; wrote != was.paused() {
		own.Paused = wrote
	}
	if own != owners(s) {
		keepOwners(s, own)
	}
	s.pause(was.paused())
}

// SetTarget implements Adapter.
func (a advancedStatefulSet) SetTarget(obj object.Object, owned []object.Object, to planner.SetTarget, owner metav1.OwnerReference) []object.Change {
	s := obj.(*AdvancedStatefulSet)
	pods, was := s.compactOrdinals(owned)
	return s.changes(a.statefulSet.SetTarget(s.native(), pods, to, owner), false, was)
}

// RestoreStrategy implements Adapter.
func (a advancedStatefulSet) RestoreStrategy(obj object.Object, owned []object.Object) []object.Change {
	s := obj.(*AdvancedStatefulSet)
	pods, was := s.compactOrdinals(owned)
	return s.changes(a.statefulSet.RestoreStrategy(s.native(), pods), s.paused(), was)
}

// SetStable implements Adapter.
func (a advancedStatefulSet) SetStable(obj object.Object, owned []object.Object) []object.Change {
	s := obj.(*AdvancedStatefulSet)
	return s.changes(a.statefulSet.SetStable(s.native(), owned), s.paused(), nil)
}

// Restore implements Adapter. The owner's pause would leave pods of the other version,
// so it comes back when those are gone; unless the owner's partition leaves some, too.
func (a advancedStatefulSet) Restore(obj object.Object, owned []object.Object, how planner.RestoreWorkload) []object.Change {
	s := obj.(*AdvancedStatefulSet)
	o, own := sortOut(s.native(), owned), owners(s)
	if back := o.live != "" && o.update == o.stable; own == (ownersStrategy{Paused: true}) && !how.KeepPaused && (how.Wait || back) {
		n := s.native()
		setPartition(&n.Spec, 0)
		if changes := s.changes([]object.Change{{Want: n}}, false, nil); len(changes) > 0 || o.rolling() {
			return changes
		}
	}
	return s.changes(a.statefulSet.Restore(s.native(), owned, how), s.paused() || owners(s).Paused, nil)
}
