// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// cloneSetBlueGreen releases a CloneSet by surge, as blueGreen does for a Deployment:
// minReadySeconds is decades, so that no new pod counts as available, and Kruise removes no ready
// old pod in exchange.
type cloneSetBlueGreen struct{ partitioned }

// inPlaceOnly is the update type with which Kruise refuses any surge.
const inPlaceOnly = "InPlaceOnly"

// Observe implements Adapter.
func (s cloneSetBlueGreen) Observe(obj object.Object, owned []object.Object, hold Hold) planner.Workload {
	v := s.view(obj, owned, hold)
	w := s.partitioned.Observe(obj, owned, hold)
	disabled := len(findAutoscalers(obj.GetName(), cloneSetKind, owned, true)) > 0
	w.HasManagedFields, w.OwnerStrategyActive = w.HasManagedFields || disabled, w.OwnerStrategyActive && !disabled
	w.TargetApplied = false
	if to := w.Target; to != nil {
		want, aside := v.surgeObjectFor(*to)
		w.TargetApplied = len(changesBetween(obj, want)) == 0 && aside == hold.strategy.aside() && (to.Abort || len(findAutoscalers(obj.GetName(), cloneSetKind, owned, false)) == 0)
	}
	w.UnsupportedReason = inPlaceOnlyUnsupported(obj)
	w.KeepsLastStablePod = false // all stable pods stay until the end
	w.MaxUnavailable = v.withOwnerSurge().maxUnavailable
	return w
}

// UnholdableReason implements Adapter.
func (s cloneSetBlueGreen) UnholdableReason(old, update object.Object, isHeld bool) string {
	if why := inPlaceOnlyUnsupported(update); why != "" && !isHeld {
		return why + strategyFirst
	}
	return s.partitioned.UnholdableReason(old, update, isHeld)
}

// inPlaceOnlyUnsupported returns why a CloneSet cannot surge; empty if it can.
func inPlaceOnlyUnsupported(obj object.Object) string {
	if obj.(*CloneSet).Spec.UpdateStrategy.Type != inPlaceOnly {
		return ""
	}
	return "the CloneSet has spec.updateStrategy.type InPlaceOnly, with which Kruise makes no pods beside others; set ReCreate or InPlaceIfPossible to release so"
}

// withOwnerSurge returns the view of the CloneSet with its owner's surge settings.
func (v view) withOwnerSurge() view {
	want := v.hold.copyOf(v.obj).(*CloneSet)
	if own := readOriginalCloneSet(want); own.MinReadySeconds != nil {
		want.Spec.UpdateStrategy.MaxUnavailable, want.Spec.UpdateStrategy.MaxSurge = own.MaxUnavailable, own.MaxSurge
		want.Spec.MinReadySeconds, want.Spec.ScaleStrategy.PodsToDelete = *own.MinReadySeconds, nil
		saveOriginalCloneSet(want, originalCloneSet{Partition: own.Partition, Paused: own.Paused})
	}
	v.obj, v.fields = want, want.fields()
	return v
}

// PreserveHold implements Adapter. It saves settings that the owner writes, for the end of the
// release. A new template is held by the partition. The surge alone would not hold it: with a
// used-up surge, Kruise would mark pods for replacement, and would remember these marks.
func (s cloneSetBlueGreen) PreserveHold(oldObj, newObj object.Object) {
	was, c := oldObj.(*CloneSet), newObj.(*CloneSet)
	s.partitioned.PreserveHold(oldObj, newObj)
	own := readOriginalCloneSet(c)
	if own.MinReadySeconds == nil {
		return
	}
	wrote, before := &c.Spec.UpdateStrategy, was.Spec.UpdateStrategy
	if !equality.Semantic.DeepEqual(wrote.MaxUnavailable, before.MaxUnavailable) {
		own.MaxUnavailable = wrote.MaxUnavailable
	}
	if !equality.Semantic.DeepEqual(wrote.MaxSurge, before.MaxSurge) {
		own.MaxSurge = wrote.MaxSurge
	}
	if c.Spec.MinReadySeconds != foreverReady {
		own.MinReadySeconds = new(c.Spec.MinReadySeconds)
	}
	saveOriginalCloneSet(c, own)
	wrote.MaxUnavailable, wrote.MaxSurge = copyPointer(before.MaxUnavailable), copyPointer(before.MaxSurge)
	c.Spec.MinReadySeconds = was.Spec.MinReadySeconds
	if !sameWholeTemplate(&was.Spec.Template, &c.Spec.Template) || !sameUnknown(was, c) {
		c.Spec.ScaleStrategy.PodsToDelete = nil // otherwise Kruise would surge for the new template, too
	}
}

// SetTarget implements Adapter. It disables autoscalers before the first new pod.
func (s cloneSetBlueGreen) SetTarget(obj object.Object, owned []object.Object, hold Hold, to planner.SetTarget, owner metav1.OwnerReference) []object.Change {
	v := s.view(obj, owned, hold)
	var changes []object.Change
	if !to.Abort {
		changes = retargetAutoscalers(findAutoscalers(obj.GetName(), cloneSetKind, owned, false), obj.GetName()+disabledSuffix)
	}
	want, aside := v.surgeObjectFor(to.Target)
	v.writeTarget(want, rollouts.StyleBlueGreen, to.Target, aside, owner)
	return append(changes, changesBetween(obj, want)...)
}

// surgeObjectFor returns the CloneSet as a target needs it. An abort uses the partition style: the
// write that sets the stable template also makes pods available again, so that Kruise removes no
// stable pod as surplus. The same applies at size 0, where Kruise would otherwise remove no pod, and
// until stable has all its pods again.
func (v view) surgeObjectFor(to planner.Target) (object.Object, planner.Revision) {
	native := v.withOwnerSurge()
	want := native.obj.(*CloneSet)
	u := &want.Spec.UpdateStrategy
	switch {
	case to.Abort, v.size == 0:
		return native.forTarget(to)
	case v.aside != "" && !v.isStableComplete():
		return want, v.hold.strategy.aside()
	}
	v.setUpdateTemplate(want)
	own := readOriginalCloneSet(want)
	own.MaxUnavailable, own.MaxSurge, own.MinReadySeconds = u.MaxUnavailable, u.MaxSurge, new(want.Spec.MinReadySeconds)
	saveOriginalCloneSet(want, own)
	u.Paused, u.MaxUnavailable, u.Partition = false, new(intstr.FromInt32(0)), new(intstr.FromInt32(0))
	u.MaxSurge, want.Spec.ScaleStrategy.PodsToDelete = v.surgeFor(to.Partition)
	if u.MaxSurge == nil {
		// Kruise refuses a strategy that allows neither surge nor unavailability.
		u.MaxSurge, u.Partition = new(intstr.FromInt32(1)), new(all)
	}
	want.Spec.MinReadySeconds = foreverReady
	return want, planner.Revision{}
}

// surgeFor returns the surge that creates a share of new pods (nil for none), and the old pods that
// are marked for deletion in exchange. Kruise creates surge pods only for pods that it still has to
// update, so it would neither add pods for the next step nor replace a lost new pod. It also creates
// surge pods for pods marked for deletion, and deletes a ready one only if it may be unavailable. So
// some old pods are marked while new pods are missing.
func (v view) surgeFor(share intstr.IntOrString) (*intstr.IntOrString, []string) {
	var old []string
	for _, p := range v.pods {
		if cloneSetRevisionOf(p) != v.live {
			old = append(old, p.Name)
		}
	}
	slices.Sort(old)
	want, have := int(planner.Limit(rollouts.StyleBlueGreen, share, v.size)), len(v.pods)-len(old)
	surge := want
	if missing := int(v.size) - len(old); missing > 0 {
		// New pods must not replace missing stable pods.
		surge -= missing
		share = intstr.FromInt(surge)
	}
	switch {
	case surge <= 0:
		return nil, nil
	case have == 0 || have >= want:
		return &share, nil
	default:
		return &share, old[:min(surge, len(old))]
	}
}

// isStableComplete reports whether all stable pods exist.
func (v view) isStableComplete() bool {
	var n int32
	for _, p := range v.pods {
		if cloneSetRevisionOf(p) == v.stable {
			n++
		}
	}
	return v.isObserved() && v.currentRevision == v.stable && n >= v.size
}

// RestoreStrategy implements Adapter. It enables autoscalers, because an aborted release may stay in
// this state for days.
func (s cloneSetBlueGreen) RestoreStrategy(obj object.Object, owned []object.Object, hold Hold) []object.Change {
	return append(s.partitioned.RestoreStrategy(obj, owned, hold), retargetAutoscalers(findAutoscalers(obj.GetName(), cloneSetKind, owned, true), obj.GetName())...)
}

// Restore implements Adapter. The owner's partition would keep pods of the other version, so it is
// restored when those pods are gone. Autoscalers are enabled last: until Kruise has finished, the
// surge distorts what they measure.
func (s cloneSetBlueGreen) Restore(obj object.Object, owned []object.Object, hold Hold, how planner.RestoreWorkload) []object.Change {
	v := s.view(obj, owned, hold)
	native := v.withOwnerSurge()
	if readOriginalCloneSet(obj.(*CloneSet)).Partition != nil && (how.Wait || v.live == v.stable) && !how.KeepPaused {
		native.obj.(*CloneSet).Spec.UpdateStrategy.Partition = new(intstr.FromInt32(0))
		if changes := changesBetween(obj, native.obj); len(changes) > 0 || v.isRolling() {
			return changes
		}
	}
	changes := changesBetween(obj, native.restoredObject(how))
	if how.Wait && (len(changes) > 0 || v.isRolling()) {
		return changes
	}
	return append(changes, retargetAutoscalers(findAutoscalers(obj.GetName(), cloneSetKind, owned, true), obj.GetName())...)
}
