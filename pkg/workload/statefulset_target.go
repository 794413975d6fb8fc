// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// A partition does not lead back: pods below it keep whatever version they run.
// So to go back the stable template is set, and the native controller replaces
// pods by that; which template the owner asks for is noted. The same at size 0,
// where the native controller takes the live template for the stable one, and
// would make every later pod from it.

// SetTarget implements Adapter.
func (statefulSet) SetTarget(obj object.Object, owned []object.Object, to planner.SetTarget, owner metav1.OwnerReference) []object.Change {
	o := sortOut(obj.(*appsv1.StatefulSet), owned)
	want := o.aimed(to.Target)
	noteTarget(want, &want.Spec.RevisionHistoryLimit, o.stable, rollouts.StylePartition, to.Target, owner)
	if changes := change(obj, want); len(changes) > 0 {
		return changes
	}
	var changes []object.Change
	for _, p := range o.stuck() {
		changes = append(changes, object.Change{Base: p})
	}
	return changes
}

// aimed is the StatefulSet with the template and the partition that a drive needs.
func (o statefulSetView) aimed(to planner.Target) *appsv1.StatefulSet {
	want := o.set.DeepCopy()
	switch back := o.goesBack(to); {
	case back && o.putAside(want):
		setPartition(&want.Spec, o.keeping(to.Limit(o.replicas())))
	case back || to.Abort:
		setPartition(&want.Spec, frozen)
	case o.aside == "":
		setPartition(&want.Spec, o.partition(to))
	case o.settled() && o.set.Status.CurrentRevision == o.stable:
		o.takeUp(want)
		setPartition(&want.Spec, o.partition(to))
	}
	return want
}

// putAside sets the stable template, and tells whether it is there.
func (o statefulSetView) putAside(want *appsv1.StatefulSet) bool {
	if o.live == o.stable {
		return true
	}
	t := o.history.template(o.stable)
	if t == nil || o.live == "" {
		return false
	}
	want.Spec.Template = *t
	setAside(want, o.live)
	return true
}

// takeUp sets the template that was set aside; the live one stays if it is gone.
func (o statefulSetView) takeUp(want *appsv1.StatefulSet) {
	if t := o.history.template(o.aside); t != nil {
		want.Spec.Template = *t
	}
	setAside(want, "")
}

// setAside says which revision is set aside.
func setAside(want metav1.Object, aside string) {
	if v, _ := readDriving(want); v.SetAsideRevision != aside {
		v.SetAsideRevision = aside
		writeDriving(want, v)
	}
}

// goesBack reports whether the stable template has to be the live one.
func (o statefulSetView) goesBack(to planner.Target) bool {
	if o.replicas() == 0 {
		return o.update != o.stable
	}
	if !to.Abort {
		return false
	}
	if o.set.Status.CurrentRevision != o.stable || o.aside != "" {
		return true
	}
	for _, p := range o.pods {
		if p != nil && revisionOf(p) != o.stable {
			return true
		}
	}
	return false
}

// keeping is the partition with which the native controller leaves that many pods
// of the update revision: those of the lowest ordinals.
func (o statefulSetView) keeping(n int32) int32 {
	if n == 0 {
		return 0
	}
	for i, p := range o.pods {
		if p != nil && revisionOf(p) == o.update {
			return int32(i) + n //nolint:gosec // of the size of a workload
		}
	}
	return 0
}

// partition is the one with which as many pods run the update revision as is told.
// Those below it that run it already count: on the way back in batches, which the
// lowest ordinals have never left, and where the size has grown. Where there are as many
// without one above it, or too many, nothing more is let through, however the pods move.
func (o statefulSetView) partition(to planner.Target) int32 {
	var n int32
	for _, p := range o.pods {
		n += o.runs(p)
	}
	share := to.LimitOf(&planner.Workload{Replicas: o.replicas(), LastStays: o.lastStays()})
	from := o.replicas()
	for ; from > 0; from-- {
		n += 1 - o.runs(o.pods[from-1])
		if n > share {
			break
		}
	}
	if from == o.replicas() {
		return frozen
	}
	return from
}

// runs is 1 for a pod of the update revision.
func (o statefulSetView) runs(p *corev1.Pod) int32 {
	if p != nil && revisionOf(p) == o.update {
		return 1
	}
	return 0
}

// RestoreStrategy implements Adapter: the owner's template is back in its place, and held,
// once the native controller takes the stable one for the current one.
func (statefulSet) RestoreStrategy(obj object.Object, owned []object.Object) []object.Change {
	o := sortOut(obj.(*appsv1.StatefulSet), owned)
	if !o.settled() || o.replicas() == 0 || o.set.Status.CurrentRevision != o.stable {
		return nil
	}
	want := o.set.DeepCopy()
	o.takeUp(want)
	setPartition(&want.Spec, frozen)
	return change(obj, want)
}

// SetStable implements Adapter.
func (statefulSet) SetStable(obj object.Object, owned []object.Object) []object.Change {
	o := sortOut(obj.(*appsv1.StatefulSet), owned)
	t := o.history.template(o.stable)
	if t == nil {
		return nil
	}
	want := o.set.DeepCopy()
	want.Spec.Template = *t
	setAside(want, "")
	label(want, rollouts.LabelStableRevision, o.stable)
	return change(obj, want)
}

// Restore implements Adapter. What stays paused keeps a partition that lets
// nothing be replaced.
func (statefulSet) Restore(obj object.Object, owned []object.Object, how planner.RestoreWorkload) []object.Change {
	o := sortOut(obj.(*appsv1.StatefulSet), owned)
	want := o.set.DeepCopy()
	_, controlled := readOwner(want)
	v, _ := readDriving(want)
	o.takeUp(want)
	switch own := owners(want); {
	case how.KeepPaused:
		setPartition(&want.Spec, frozen)
	case own.Type != "":
		want.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.StatefulSetUpdateStrategyType(own.Type)}
	case held(want) || controlled:
		setPartition(&want.Spec, own.Partition)
	}
	restoreLimit(v, &want.Spec.RevisionHistoryLimit)
	want.Annotations = without(want.Annotations, ourAnnotations...)
	want.Labels = without(want.Labels, ourLabels...)
	return change(obj, want)
}
