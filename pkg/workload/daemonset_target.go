// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// A node that joins gets a pod of the live template, whatever is held. So an
// abort sets the stable template, and leaves it there: an aborted version comes up
// nowhere, also while nobody here looks. Which template the owner asks for is noted.

// What others of the API keep on a DaemonSet, which may be taken over from them in
// the middle of a release.
const theirType = "rollouts.kruise.io/daemonset-original-update-strategy"

var theirAnnotations = []string{theirType, "rollouts.kruise.io/daemonset-revision", "rollouts.kruise.io/daemonset-advanced-control"}

// SetTarget implements Adapter.
func (daemonSet) SetTarget(obj object.Object, owned []object.Object, to planner.SetTarget, owner metav1.OwnerReference) []object.Change {
	p := place(obj.(*appsv1.DaemonSet), owned, "")
	want := p.aimed(to.Target)
	noteTarget(want, &want.Spec.RevisionHistoryLimit, p.stable, rollouts.StylePartition, to.Target, owner)
	if changes := change(obj, want); len(changes) > 0 {
		return changes
	}
	var changes []object.Change
	for _, pod := range p.due(to.Target) {
		changes = append(changes, object.Change{Base: pod})
	}
	return changes
}

// aimed is the DaemonSet with the template that a target needs.
func (p daemonSetView) aimed(to planner.Target) *appsv1.DaemonSet {
	want := p.set.DeepCopy()
	if !onDelete(want) {
		stop(want)
	}
	switch {
	case !to.Abort:
		p.takeUp(want, &want.Spec.Template)
	case p.live != p.stable:
		p.putAside(want, &want.Spec.Template)
	}
	return want
}

// putAside sets the stable template, and tells whether it is there.
func (p daemonSetView) putAside(want metav1.Object, template *corev1.PodTemplateSpec) bool {
	t := p.history.template(p.stable)
	if t == nil || p.live == "" {
		return false
	}
	*template = *t
	setAside(want, p.live)
	return true
}

// takeUp sets the template that was set aside; the live one stays if it is gone.
func (p daemonSetView) takeUp(want metav1.Object, template *corev1.PodTemplateSpec) {
	if t := p.history.template(p.aside); t != nil {
		*template = *t
	}
	setAside(want, "")
}

// RestoreStrategy implements Adapter: the stable template stays.
func (daemonSet) RestoreStrategy(object.Object, []object.Object) []object.Change { return nil }

// SetStable implements Adapter.
func (daemonSet) SetStable(obj object.Object, owned []object.Object) []object.Change {
	p := place(obj.(*appsv1.DaemonSet), owned, "")
	want := p.set.DeepCopy()
	if !p.setStable(want, &want.Spec.Template) {
		return nil
	}
	return change(obj, want)
}

// setStable sets the stable template for good, and tells whether it is there.
func (p daemonSetView) setStable(want metav1.Object, template *corev1.PodTemplateSpec) bool {
	t := p.history.template(p.stable)
	if t == nil {
		return false
	}
	*template = *t
	setAside(want, "")
	label(want, rollouts.LabelStableRevision, p.stable)
	return true
}

// mayRoll reports whether the owner's strategy releases nothing that is to stay. After
// an abort every pod runs the live template.
func (p daemonSetView) mayRoll(how planner.RestoreWorkload) bool {
	if how.KeepPaused {
		return p.allStable()
	}
	return how.Wait || !p.underway()
}

// Restore implements Adapter. What stays paused keeps the stable template, and OnDelete
// as long as a pod runs another one. What is given back half-way because its Rollout
// leaves keeps OnDelete, too: as other clients of the API expect it, no pod is replaced.
func (daemonSet) Restore(obj object.Object, owned []object.Object, how planner.RestoreWorkload) []object.Change {
	p := place(obj.(*appsv1.DaemonSet), owned, "")
	want := p.set.DeepCopy()
	_, controlled := readOwner(want)
	v, _ := readDriving(want)
	if !how.KeepPaused {
		p.takeUp(want, &want.Spec.Template)
	}
	if (held(want) || controlled) && p.mayRoll(how) {
		own := cmp.Or(owners(want).Type, want.Annotations[theirType], string(appsv1.RollingUpdateDaemonSetStrategyType))
		want.Spec.UpdateStrategy.Type = appsv1.DaemonSetUpdateStrategyType(own)
		if !onDelete(want) && wrongNodes(want.Spec.UpdateStrategy.RollingUpdate) != "" {
			want.Spec.UpdateStrategy.RollingUpdate = nil // kube-apiserver sets its own
		}
	}
	restoreLimit(v, &want.Spec.RevisionHistoryLimit)
	want.Annotations = without(without(want.Annotations, ourAnnotations...), theirAnnotations...)
	want.Labels = without(want.Labels, ourLabels...)
	return change(obj, want)
}
