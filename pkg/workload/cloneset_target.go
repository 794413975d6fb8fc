// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// A partition does not lead back here either: Kruise takes no pod from the live
// template. So to go back the stable template is set, as for StatefulSets; the
// partition says then how many pods of the update revision stay.

// SetTarget implements Adapter.
func (cloneSet) SetTarget(obj object.Object, owned []object.Object, to planner.SetTarget, owner metav1.OwnerReference) []object.Change {
	o := sortClones(obj.(*CloneSet), owned)
	want := o.aimed(to.Target)
	noteTarget(want, &want.Spec.RevisionHistoryLimit, o.stable, rollouts.StylePartition, to.Target, owner)
	return change(obj, want)
}

// aimed is the CloneSet with the template and the partition that a drive needs.
func (o cloneSetView) aimed(to planner.Target) *CloneSet {
	want := o.set.DeepCopyObject().(*CloneSet)
	want.Spec.UpdateStrategy.Paused = false
	share := to.LimitOf(&planner.Workload{Replicas: o.replicas(), LastStays: o.lastStays()})
	switch back := o.goesBack(to); {
	case back && o.putAside(want):
		o.leave(want, share)
	case back || to.Abort:
		want.Spec.UpdateStrategy.Partition = new(all)
	case o.aside == "":
		o.leave(want, o.replicas()-share)
	case o.settled() && short(o.set.Status.CurrentRevision) == o.stable:
		o.takeUp(want)
		o.leave(want, o.replicas()-share)
	}
	return want
}

// leave sets the partition that leaves n pods, unless the one that is there does.
func (o cloneSetView) leave(want *CloneSet, n int32) {
	p := &want.Spec.UpdateStrategy.Partition
	if *p == nil || leaves(*p, o.replicas()) != n || (**p == all) != (n >= o.replicas()) {
		*p = new(keeps(n, o.replicas()))
	}
}

// putAside sets the stable template, and tells whether it is there.
func (o cloneSetView) putAside(want *CloneSet) bool {
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
func (o cloneSetView) takeUp(want *CloneSet) {
	if t := o.history.template(o.aside); t != nil {
		want.Spec.Template = *t
	}
	setAside(want, "")
}

// goesBack reports whether the stable template has to be the live one.
func (o cloneSetView) goesBack(to planner.Target) bool {
	switch {
	case o.replicas() == 0:
		return o.update != o.stable
	case !to.Abort:
		return false
	case short(o.set.Status.CurrentRevision) != o.stable || o.aside != "":
		return true
	}
	for _, p := range o.pods {
		if cloneOf(p) != o.stable {
			return true
		}
	}
	return false
}

// back reports whether nothing is left to do of an abort. Without pods the stable
// template has to stay.
func (o cloneSetView) back(to planner.Target) bool {
	return to.Abort && (!o.goesBack(to) || o.replicas() == 0 && o.live == o.stable)
}

// RestoreStrategy implements Adapter: the owner's template is back in its place, and held,
// once Kruise takes the stable one for the current one.
func (cloneSet) RestoreStrategy(obj object.Object, owned []object.Object) []object.Change {
	o := sortClones(obj.(*CloneSet), owned)
	if !o.settled() || o.replicas() == 0 || short(o.set.Status.CurrentRevision) != o.stable {
		return nil
	}
	want := o.set.DeepCopyObject().(*CloneSet)
	o.takeUp(want)
	want.Spec.UpdateStrategy.Partition = new(all)
	return change(obj, want)
}

// SetStable implements Adapter.
func (cloneSet) SetStable(obj object.Object, owned []object.Object) []object.Change {
	o := sortClones(obj.(*CloneSet), owned)
	t := o.history.template(o.stable)
	if t == nil {
		return nil
	}
	want := o.set.DeepCopyObject().(*CloneSet)
	want.Spec.Template = *t
	setAside(want, "")
	label(want, rollouts.LabelStableRevision, o.stable)
	return change(obj, want)
}

// Restore implements Adapter.
func (cloneSet) Restore(obj object.Object, owned []object.Object, how planner.RestoreWorkload) []object.Change {
	return change(obj, sortClones(obj.(*CloneSet), owned).restored(how))
}

// restored is the CloneSet as its owner wants it. What stays paused keeps a
// partition that lets nothing be replaced.
func (o cloneSetView) restored(how planner.RestoreWorkload) *CloneSet {
	want := o.set.DeepCopyObject().(*CloneSet)
	_, controlled := readOwner(want)
	v, _ := readDriving(want)
	o.takeUp(want)
	if own := clonesOwner(want); held(want) || controlled {
		want.Spec.UpdateStrategy.Paused = own.Paused
		want.Spec.UpdateStrategy.Partition = own.Partition
		if own.Partition == nil {
			want.Spec.UpdateStrategy.Partition = new(intstr.FromInt32(0))
		}
	}
	if how.KeepPaused {
		want.Spec.UpdateStrategy.Partition = new(all)
	}
	restoreLimit(v, &want.Spec.RevisionHistoryLimit)
	want.Annotations = without(want.Annotations, ourAnnotations...)
	want.Labels = without(want.Labels, ourLabels...)
	return want
}

// lastStays reports whether Kruise would take the update revision for the current one as
// soon as every pod runs it, and make all that come of it.
func (o cloneSetView) lastStays() bool { return o.update != o.stable }
