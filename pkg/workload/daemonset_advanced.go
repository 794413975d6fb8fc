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
	subjectOf:          func(o object.Object) subject { return o.(*AdvancedDaemonSet) },
	revisionName:       hashInName,
	podRevision:        revisionLabelOf,
	arrangePods:        arrangeByNode,
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
		partition: is.Partition, stopped: is.Paused || is.Type != "", maxUnavailable: 1, updateRevision: d.Status.DaemonSetHash,
	}
	if u := d.Spec.UpdateStrategy.RollingUpdate; u != nil {
		f.maxUnavailable = resolveUnavailable(u.MaxUnavailable, d.Status.DesiredNumberScheduled, true)
	}
	f.countNodes(&d.Status.DaemonSetStatus)
	return f
}

// strategy is what its strategy says that is ours during a release.
func (d *AdvancedDaemonSet) strategy() originalStrategy {
	s := originalStrategy{Type: string(d.Spec.UpdateStrategy.Type)}
	if u := d.Spec.UpdateStrategy.RollingUpdate; u != nil {
		s.Partition, s.Paused = orZero(u.Partition), orZero(u.Paused)
	}
	if s.Type != onDeleteType {
		s.Type = ""
	}
	return s
}

// setStrategy writes all of it, also what would be the default: clients look for it.
func (d *AdvancedDaemonSet) setStrategy(s originalStrategy) {
	strategy := &d.Spec.UpdateStrategy
	strategy.Type = appsv1.DaemonSetUpdateStrategyType(cmp.Or(s.Type, rollingUpdateType))
	if strategy.RollingUpdate == nil {
		strategy.RollingUpdate = &RollingUpdateAdvancedDaemonSet{}
	}
	strategy.RollingUpdate.Partition, strategy.RollingUpdate.Paused = &s.Partition, &s.Paused
}

func (d *AdvancedDaemonSet) stopController(isHeld bool) {
	own := d.strategy()
	if isHeld {
		own = readOriginalStrategy(d)
	}
	d.saveOriginal(own)
	d.setPartition(frozen)
}

// saveOriginal takes no partition of ours for the owner's.
func (d *AdvancedDaemonSet) saveOriginal(own originalStrategy) {
	if own.Partition >= frozen {
		own.Partition = 0
	}
	saveOriginalStrategy(d, own)
}

// preserveStrategy has what the owner writes of the strategy given back in the end. Clients write it
// as they once read it together with another template; a partition is then taken for one
// of ours.
func (d *AdvancedDaemonSet) preserveStrategy(old object.Object, isAnother bool) {
	was := old.(*AdvancedDaemonSet)
	d.Spec.MinReadySeconds = was.Spec.MinReadySeconds
	own, before, wrote := readOriginalStrategy(d), was.strategy(), d.strategy()
	if wrote.Type != before.Type {
		own.Type = wrote.Type
	}
	if wrote.Paused != before.Paused {
		own.Paused = wrote.Paused
	}
	if wrote.Partition != before.Partition && (!isAnother || wrote.Partition == 0) {
		own.Partition = wrote.Partition
	}
	if own != readOriginalStrategy(d) {
		d.saveOriginal(own)
	}
	if isAnother {
		before.Partition = frozen
	}
	d.setStrategy(before)
}

func (d *AdvancedDaemonSet) setPartition(n int32) { d.setStrategy(originalStrategy{Partition: n}) }

// restore keeps a partition that lets nothing be replaced as long as a pod of a workload
// that stays paused runs another template.
func (d *AdvancedDaemonSet) restore(v view, how planner.RestoreWorkload, isOurs bool) {
	own := readOriginalStrategy(d)
	if how.KeepPaused && !v.isStable() {
		own.Partition = frozen
	}
	if isOurs {
		d.setStrategy(own)
	}
}
