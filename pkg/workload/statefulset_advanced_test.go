// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/internal/golden"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// advancedOf returns a scene's StatefulSet as one of Kruise, paused by its owner if paused is true.
func advancedOf(s *statefulScene, paused bool) *AdvancedStatefulSet {
	a := &AdvancedStatefulSet{TypeMeta: s.set.TypeMeta, Status: s.set.Status}
	a.APIVersion = advancedStatefulSetKind.GroupVersion().String()
	a.Spec.Replicas, a.ObjectMeta, a.Spec.Template = s.set.Spec.Replicas, s.set.ObjectMeta, s.set.Spec.Template
	a.Spec.RevisionHistoryLimit, a.Spec.UpdateStrategy.Type = s.set.Spec.RevisionHistoryLimit, s.set.Spec.UpdateStrategy.Type
	a.setPartition(*s.set.Spec.UpdateStrategy.RollingUpdate.Partition)
	a.pause(paused)
	return a
}

func setTarget(share string, abort bool) planner.SetTarget {
	return planner.SetTarget{Target: planner.Target{Partition: intstr.Parse(share), Abort: abort, Owner: "b-1", Revision: planner.Revision{Name: "db-b"}}}
}

// TestAdvancedPaused has one golden file for each case: the first step ends the owner's pause, and
// the end of the release restores it.
func TestAdvancedPaused(t *testing.T) {
	a := advancedStatefulSet
	held := func(paused bool) func(*testing.T) (*AdvancedStatefulSet, []object.Object) {
		return func(t *testing.T) (*AdvancedStatefulSet, []object.Object) {
			s := newStatefulScene(t, "b", "AAAAA")
			set := advancedOf(s, paused)
			a.Hold(set, "db", hasHoldMark(set))
			return set, s.owned
		}
	}
	driven := func(paused bool, own string) func(*testing.T) (*AdvancedStatefulSet, []object.Object) {
		return func(t *testing.T) (*AdvancedStatefulSet, []object.Object) {
			s := newStatefulScene(t, "b", "AAAAB", setStatefulTarget(4, 1, false, ""))
			setAnnotation(s.set, rollouts.AnnotationOriginalStrategy, own)
			return advancedOf(s, paused), s.owned
		}
	}
	drive := func(set *AdvancedStatefulSet, owned []object.Object) []object.Change {
		return a.SetTarget(set, owned, HoldFromRecords(set), setTarget("20%", false), owner())
	}
	restore := func(how planner.RestoreWorkload) func(*AdvancedStatefulSet, []object.Object) []object.Change {
		return func(set *AdvancedStatefulSet, owned []object.Object) []object.Change {
			return a.Restore(set, owned, HoldFromRecords(set), how)
		}
	}
	wait := planner.RestoreWorkload{Wait: true}
	complete := func(t *testing.T) (*AdvancedStatefulSet, []object.Object) {
		s := newStatefulScene(t, "b", "BBBBB", setStatefulTarget(0, 5, false, ""), completeStatefulSet)
		setAnnotation(s.set, rollouts.AnnotationOriginalStrategy, `{"paused":true}`)
		return advancedOf(s, false), s.owned
	}
	for name, tc := range map[string]struct {
		in func(*testing.T) (*AdvancedStatefulSet, []object.Object)
		op func(*AdvancedStatefulSet, []object.Object) []object.Change
	}{
		"drive":            {held(false), drive},
		"drive-paused":     {held(true), drive},
		"drive-paused-now": {driven(true, `{"partition":2}`), drive},
		"restore":          {driven(false, `{"partition":2,"paused":true}`), restore(wait)},
		"restore-rest":     {driven(false, `{"paused":true}`), restore(wait)},
		"restore-complete": {complete, restore(wait)},
		"restore-deleted":  {driven(false, `{"paused":true}`), restore(planner.RestoreWorkload{})},
		"restore-held":     {held(true), restore(planner.RestoreWorkload{})},
		"restore-aborted":  {driven(false, `{"paused":true}`), restore(planner.RestoreWorkload{KeepPaused: true})},
	} {
		t.Run(name, func(t *testing.T) {
			set, owned := tc.in(t)
			before := golden.Text(t, set)
			changes := tc.op(set, owned)
			golden.Changes(t, "advanced-"+name, changes)
			if diff := cmp.Diff(before, golden.Text(t, set)); diff != "" {
				t.Errorf("the input was changed (-before +after):\n%s", diff)
			}
			for _, c := range changes {
				set = c.Want.(*AdvancedStatefulSet)
			}
			if again := tc.op(set, owned); len(again) != 0 {
				t.Error("not done after one pass")
			}
		})
	}
}

// TestAdvancedPreserveHold checks that a change of the pause during a release takes effect in the end.
func TestAdvancedPreserveHold(t *testing.T) {
	a := advancedStatefulSet
	was := advancedOf(newStatefulScene(t, "b", "AAAAB", setStatefulTarget(4, 1, false, "")), false)
	paused := was.DeepCopyObject().(*AdvancedStatefulSet)
	paused.pause(true)
	a.PreserveHold(was, paused)
	if paused.paused() || !readOriginalStrategy(paused).Paused {
		t.Errorf("is paused %t, will be %t", paused.paused(), readOriginalStrategy(paused).Paused)
	}
	third := paused.DeepCopyObject().(*AdvancedStatefulSet)
	third.Spec.Template, third.Spec.UpdateStrategy.RollingUpdate.Partition = *templateOf("c"), new(int32(1))
	a.PreserveHold(paused, third)
	if own := readOriginalStrategy(third); !own.Paused || own.Partition != 1 || *third.Spec.UpdateStrategy.RollingUpdate.Partition != frozen {
		t.Errorf("the owner's are %+v, it has %+v", own, third.Spec.UpdateStrategy.RollingUpdate)
	}
	moved := was.DeepCopyObject().(*AdvancedStatefulSet)
	moved.Spec.Ordinals, moved.Spec.ReserveOrdinals = &appsv1.StatefulSetOrdinals{Start: 1}, []intstr.IntOrString{intstr.FromInt32(1)}
	if a.PreserveHold(was, moved); moved.Spec.Ordinals != nil || moved.Spec.ReserveOrdinals != nil {
		t.Errorf("its pods are others: %v, %v", moved.Spec.Ordinals, moved.Spec.ReserveOrdinals)
	}
	slow := was.DeepCopyObject().(*AdvancedStatefulSet)
	slow.Spec.UpdateStrategy.RollingUpdate.MinReadySeconds = new(int32(100000))
	if a.PreserveHold(was, slow); slow.minReady() != nil {
		t.Errorf("its pods count after %d s", *slow.minReady())
	}
	held := advancedOf(newStatefulScene(t, "b", "AAAAA", holdStatefulSet), true)
	goes := held.DeepCopyObject().(*AdvancedStatefulSet)
	goes.pause(false)
	if a.PreserveHold(held, goes); goes.paused() || readOriginalStrategy(goes).Paused {
		t.Error("before the first step the pause is its owner's")
	}
}

// setWithReservedOrdinals returns a set with pods 0, 2, 6, 7 and 8.
func setWithReservedOrdinals(t *testing.T, live, pods string) (*AdvancedStatefulSet, []object.Object) {
	s := newStatefulScene(t, live, pods, setStatefulTarget(4, 1, false, ""))
	set := advancedOf(s, false)
	set.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromInt32(1), intstr.FromString("3-5"), intstr.FromString("4")}
	for _, o := range s.owned {
		if p, ok := o.(*corev1.Pod); ok {
			p.Name = fmt.Sprintf("db-%d", []int{0, 2, 6, 7, 8}[ordinalOf(p)])
		}
	}
	return set, s.owned
}

// TestAdvancedGaps checks that reserved ordinals count neither as missing pods nor as pods of a
// step. A pod with a reserved ordinal is about to be deleted.
func TestAdvancedGaps(t *testing.T) {
	a := advancedStatefulSet
	set, owned := setWithReservedOrdinals(t, "b", "AAAAB")
	goes := owned[len(owned)-1].DeepCopyObject().(*corev1.Pod)
	goes.Name = "db-4"
	w := a.Observe(set, append(owned, goes), HoldFromRecords(set))
	if w.UpdatedReplicas != 1 || w.UpdatedReadyReplicas != 1 || w.StableReplicas != 4 || w.Replicas != 5 || !w.TargetApplied {
		t.Errorf("counts %d updated, %d ready, %d stable of %d; obeyed %t", w.UpdatedReplicas, w.UpdatedReadyReplicas, w.StableReplicas, w.Replicas, w.TargetApplied)
	}
	changes := a.SetTarget(set, owned, HoldFromRecords(set), setTarget("60%", false), owner())
	if got := *changes[0].Want.(*AdvancedStatefulSet).Spec.UpdateStrategy.RollingUpdate.Partition; got != 2 {
		t.Errorf("partition %d, want 2", got)
	}
	// One that hangs is deleted by the name that it has.
	set, owned = setWithReservedOrdinals(t, "c", "AAABb")
	var deleted []string
	for _, c := range a.SetTarget(set, owned, HoldFromRecords(set), setTarget("1", false), owner()) {
		if c.Want == nil {
			deleted = append(deleted, c.Base.GetName())
		}
	}
	if strings.Join(deleted, " ") != "db-8" {
		t.Errorf("deletes %v", deleted)
	}
}
