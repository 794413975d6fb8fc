// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// advancedDaemonSet releases a DaemonSet of Kruise by its partition: Kruise replaces
// the pods of as many nodes as that leaves. A node that joins gets a pod of the live
// template all the same, so that revisions and ways back are those of the native kind.
type advancedDaemonSet struct{ baseAdapter }

var _ Adapter = advancedDaemonSet{}

func placeAdvanced(d *AdvancedDaemonSet, owned []object.Object) daemonSetView {
	named := ""
	if d.Status.ObservedGeneration >= d.Generation {
		named = d.Status.DaemonSetHash
	}
	return place(d.native(), owned, named)
}

// native is what a native one would say of it.
func (d *AdvancedDaemonSet) native() *appsv1.DaemonSet {
	n := &appsv1.DaemonSet{ObjectMeta: d.ObjectMeta, Status: d.Status.DaemonSetStatus}
	n.Spec.Template = d.Spec.Template
	if u := d.Spec.UpdateStrategy.RollingUpdate; u != nil {
		n.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: u.MaxUnavailable}
	}
	return n
}

// told is what its strategy says that is ours during a release.
func (d *AdvancedDaemonSet) told() ownersStrategy {
	s := ownersStrategy{Type: string(d.Spec.UpdateStrategy.Type)}
	if u := d.Spec.UpdateStrategy.RollingUpdate; u != nil {
		s.Partition, s.Paused = orZero(u.Partition), orZero(u.Paused)
	}
	if s.Type != string(appsv1.OnDeleteDaemonSetStrategyType) {
		s.Type = ""
	}
	return s
}

// tell says all of it, also what would be the default: clients look for it.
func (d *AdvancedDaemonSet) tell(s ownersStrategy) {
	strategy := &d.Spec.UpdateStrategy
	strategy.Type = appsv1.DaemonSetUpdateStrategyType(cmp.Or(s.Type, string(appsv1.RollingUpdateDaemonSetStrategyType)))
	if strategy.RollingUpdate == nil {
		strategy.RollingUpdate = &RollingUpdateAdvancedDaemonSet{}
	}
	strategy.RollingUpdate.Partition, strategy.RollingUpdate.Paused = &s.Partition, &s.Paused
}

func orZero[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

// Observe implements Adapter.
func (advancedDaemonSet) Observe(obj object.Object, owned []object.Object) planner.Workload {
	d := obj.(*AdvancedDaemonSet)
	p := placeAdvanced(d, owned)
	w, is := p.facts(), d.told()
	w.Paused = is.Type != "" || is.Paused || is.Partition >= max(p.size(), 1)
	w.UnsupportedReason = advancedDaemonSet{}.UnsupportedReason(d)
	w.TargetApplied = w.Target != nil && len(change(d, p.aimedAdvanced(d, *w.Target))) == 0
	return w
}

// UnsupportedReason implements Adapter.
func (advancedDaemonSet) UnsupportedReason(obj object.Object) string {
	d := obj.(*AdvancedDaemonSet)
	if u := d.Spec.UpdateStrategy.RollingUpdate; held(d) || u == nil || u.Selector == nil {
		return ""
	}
	return "the DaemonSet has spec.updateStrategy.rollingUpdate.selector, so that pods of other nodes are never replaced; remove it to release in steps"
}

// Changed implements Adapter.
func (a advancedDaemonSet) Changed(oldObj, newObj object.Object) bool {
	was, d := oldObj.(*AdvancedDaemonSet), newObj.(*AdvancedDaemonSet)
	return a.UnsupportedReason(d) == "" && daemonSet{}.Changed(was.native(), d.native())
}

// Rolls implements Adapter.
func (advancedDaemonSet) Rolls(oldObj, newObj object.Object) bool {
	return daemonSet{}.Rolls(oldObj.(*AdvancedDaemonSet).native(), newObj.(*AdvancedDaemonSet).native())
}

// Hold implements Adapter. Of one that is held, as by another door of admission, the
// strategy is not its owner's.
func (advancedDaemonSet) Hold(obj object.Object, by string) {
	d := obj.(*AdvancedDaemonSet)
	own := d.told()
	if held(d) {
		own = owners(d)
	}
	keepAdvanced(d, own)
	d.tell(ownersStrategy{Partition: frozen})
	writeHeld(d, by)
}

// keepAdvanced takes no partition of ours for the owner's.
func keepAdvanced(d *AdvancedDaemonSet, own ownersStrategy) {
	if own.Partition >= frozen {
		own.Partition = 0
	}
	keepOwners(d, own)
}

// Keep implements Adapter. Another template goes nowhere until a step says how
// far, but to nodes that have no pod. What the owner writes of the strategy is
// given back in the end. Clients write it as they once read it together with
// another template; a partition is then taken for one of ours.
func (advancedDaemonSet) Keep(oldObj, newObj object.Object) {
	was, d := oldObj.(*AdvancedDaemonSet), newObj.(*AdvancedDaemonSet)
	KeepRecords(was, d)
	d.Spec.MinReadySeconds = was.Spec.MinReadySeconds
	own, before, wrote, another := owners(d), was.told(), d.told(), !samePods(&was.Spec.Template, &d.Spec.Template)
	if wrote.Type != before.Type {
		own.Type = wrote.Type
	}
	if wrote.Paused != before.Paused {
		own.Paused = wrote.Paused
	}
	if wrote.Partition != before.Partition && (!another || wrote.Partition == 0) {
		own.Partition = wrote.Partition
	}
	if own != owners(d) {
		keepAdvanced(d, own)
	}
	keepLimit(was, d, &d.Spec.RevisionHistoryLimit, was.Spec.RevisionHistoryLimit)
	if another {
		before.Partition = frozen
		setAside(d, "")
	}
	d.tell(before)
}

// SetTarget implements Adapter.
func (advancedDaemonSet) SetTarget(obj object.Object, owned []object.Object, to planner.SetTarget, owner metav1.OwnerReference) []object.Change {
	d := obj.(*AdvancedDaemonSet)
	p := placeAdvanced(d, owned)
	want := p.aimedAdvanced(d, to.Target)
	noteTarget(want, &want.Spec.RevisionHistoryLimit, p.stable, rollouts.StylePartition, to.Target, owner)
	return change(obj, want)
}

// aimedAdvanced is the DaemonSet with the template and the partition that a target
// needs. On the way back the partition says how many pods stay at the update revision.
func (p daemonSetView) aimedAdvanced(d *AdvancedDaemonSet, to planner.Target) *AdvancedDaemonSet {
	want := d.DeepCopyObject().(*AdvancedDaemonSet)
	share := to.Limit(p.size())
	partition := frozen
	switch {
	case !to.Abort:
		p.takeUp(want, &want.Spec.Template)
		partition = p.size() - share
	case p.live == p.stable || p.putAside(want, &want.Spec.Template):
		partition = share
	}
	want.tell(ownersStrategy{Partition: partition})
	return want
}

// RestoreStrategy implements Adapter: the stable template stays.
func (advancedDaemonSet) RestoreStrategy(object.Object, []object.Object) []object.Change { return nil }

// SetStable implements Adapter.
func (advancedDaemonSet) SetStable(obj object.Object, owned []object.Object) []object.Change {
	d := obj.(*AdvancedDaemonSet)
	want := d.DeepCopyObject().(*AdvancedDaemonSet)
	if !placeAdvanced(d, owned).setStable(want, &want.Spec.Template) {
		return nil
	}
	return change(obj, want)
}

// Restore implements Adapter. What stays paused keeps the stable template, and a
// partition that lets nothing be replaced as long as a pod runs another one.
func (advancedDaemonSet) Restore(obj object.Object, owned []object.Object, how planner.RestoreWorkload) []object.Change {
	d := obj.(*AdvancedDaemonSet)
	want := d.DeepCopyObject().(*AdvancedDaemonSet)
	_, controlled := readOwner(want)
	v, _ := readDriving(want)
	own, p := owners(want), placeAdvanced(d, owned)
	switch {
	case !how.KeepPaused:
		p.takeUp(want, &want.Spec.Template)
	case !p.allStable():
		own.Partition = frozen
	}
	if held(want) || controlled {
		want.tell(own)
	}
	restoreLimit(v, &want.Spec.RevisionHistoryLimit)
	want.Annotations = without(want.Annotations, ourAnnotations...)
	want.Labels = without(want.Labels, ourLabels...)
	return change(obj, want)
}
