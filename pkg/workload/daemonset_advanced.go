// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// advancedDaemonSet releases a DaemonSet of Kruise by its partition: Kruise replaces
// the pods of as many nodes as that leaves. A node that joins gets a pod of the live
// template all the same, so that revisions and ways back are those of the native kind.
var advancedDaemonSet = partitioned{&partitionKind{
	kind:               advancedDaemonSetKind.Kind,
	of:                 func(o object.Object) subject { return o.(*AdvancedDaemonSet) },
	name:               hashInName,
	revision:           revisionOf,
	arrange:            byNode,
	unsupported:        selectorUnsupported,
	revisionInStatus:   true,
	newPodsUseTemplate: true,
}}

// selectorUnsupported refuses a selector, with which pods of some nodes are never replaced.
func selectorUnsupported(obj object.Object) string {
	if u := obj.(*AdvancedDaemonSet).Spec.UpdateStrategy.RollingUpdate; u == nil || u.Selector == nil {
		return ""
	}
	return "spec.updateStrategy.rollingUpdate.selector, so that pods of other nodes are never replaced; remove it to release in steps"
}

func (d *AdvancedDaemonSet) fields() fields {
	is := d.strategy()
	f := fields{
		template: &d.Spec.Template, unknown: &d.Unknown, historyLimit: &d.Spec.RevisionHistoryLimit,
		partition: is.Partition, stopped: is.Paused || is.Type != "", unavailable: 1, newest: d.Status.DaemonSetHash,
	}
	if u := d.Spec.UpdateStrategy.RollingUpdate; u != nil {
		f.unavailable = unavailable(u.MaxUnavailable, d.Status.DesiredNumberScheduled, true)
	}
	f.countNodes(&d.Status.DaemonSetStatus)
	return f
}

// strategy is what its strategy says that is ours during a release.
func (d *AdvancedDaemonSet) strategy() ownersStrategy {
	s := ownersStrategy{Type: string(d.Spec.UpdateStrategy.Type)}
	if u := d.Spec.UpdateStrategy.RollingUpdate; u != nil {
		s.Partition, s.Paused = orZero(u.Partition), orZero(u.Paused)
	}
	if s.Type != onDeleteType {
		s.Type = ""
	}
	return s
}

// setStrategy writes all of it, also what would be the default: clients look for it.
func (d *AdvancedDaemonSet) setStrategy(s ownersStrategy) {
	strategy := &d.Spec.UpdateStrategy
	strategy.Type = appsv1.DaemonSetUpdateStrategyType(cmp.Or(s.Type, rollingUpdateType))
	if strategy.RollingUpdate == nil {
		strategy.RollingUpdate = &RollingUpdateAdvancedDaemonSet{}
	}
	strategy.RollingUpdate.Partition, strategy.RollingUpdate.Paused = &s.Partition, &s.Paused
}

func (d *AdvancedDaemonSet) stop(isHeld bool) {
	own := d.strategy()
	if isHeld {
		own = owners(d)
	}
	d.keepOwners(own)
	d.setPartition(frozen)
}

// keepOwners takes no partition of ours for the owner's.
func (d *AdvancedDaemonSet) keepOwners(own ownersStrategy) {
	if own.Partition >= frozen {
		own.Partition = 0
	}
	keepOwners(d, own)
}

// keep has what the owner writes of the strategy given back in the end. Clients write it
// as they once read it together with another template; a partition is then taken for one
// of ours.
func (d *AdvancedDaemonSet) keep(old object.Object, isAnother bool) {
	was := old.(*AdvancedDaemonSet)
	d.Spec.MinReadySeconds = was.Spec.MinReadySeconds
	own, before, wrote := owners(d), was.strategy(), d.strategy()
	if wrote.Type != before.Type {
		own.Type = wrote.Type
	}
	if wrote.Paused != before.Paused {
		own.Paused = wrote.Paused
	}
	if wrote.Partition != before.Partition && (!isAnother || wrote.Partition == 0) {
		own.Partition = wrote.Partition
	}
	if own != owners(d) {
		d.keepOwners(own)
	}
	if isAnother {
		before.Partition = frozen
	}
	d.setStrategy(before)
}

func (d *AdvancedDaemonSet) setPartition(n int32) { d.setStrategy(ownersStrategy{Partition: n}) }

// restore keeps a partition that lets nothing be replaced as long as a pod of a workload
// that stays paused runs another template.
func (d *AdvancedDaemonSet) restore(v view, how planner.RestoreWorkload, isOurs bool) {
	own := owners(d)
	if how.KeepPaused && !v.isStable() {
		own.Partition = frozen
	}
	if isOurs {
		d.setStrategy(own)
	}
}
