// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// advancedDaemonSet releases a DaemonSet of Kruise by its partition: Kruise replaces the pods of all
// other nodes. A node that joins gets a pod of the live template, as with the native kind. So
// revisions and aborts work as for the native kind.
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

// strategy returns those parts of the update strategy that Weir changes during a release.
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

// setStrategy writes all these parts, even defaults, because clients expect them.
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

// saveOriginal saves the owner's strategy. It replaces a partition that Weir wrote by 0.
func (d *AdvancedDaemonSet) saveOriginal(own originalStrategy) {
	if own.Partition >= frozen {
		own.Partition = 0
	}
	saveOriginalStrategy(d, own)
}

// preserveStrategy implements subject. Clients may write a whole object that they read earlier,
// together with a new template. So a partition other than 0 that changes with the template is
// considered Weir's.
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

// restore implements subject. It keeps a partition that allows no replacement while a workload that
// stays paused has pods of another template.
func (d *AdvancedDaemonSet) restore(v view, how planner.RestoreWorkload, isOurs bool) {
	own := readOriginalStrategy(d)
	if how.KeepPaused && !v.isStable() {
		own.Partition = frozen
	}
	if isOurs {
		d.setStrategy(own)
	}
}
