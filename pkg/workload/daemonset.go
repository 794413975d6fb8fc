// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

var daemonSetKind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

// daemonSet releases a DaemonSet by its update strategy OnDelete: its native
// controller replaces no pod, but makes one of the live template on each node that
// has none. So old pods are deleted here, as many as a step asks for. An abort leaves
// the stable template: an aborted version comes up on no node that joins.
var daemonSet = partitioned{&partitionKind{
	kind:               daemonSetKind.Kind,
	subjectOf:          func(o object.Object) subject { return nativeDaemonSet{o.(*appsv1.DaemonSet)} },
	revisionName:       hashInName,
	podRevision:        revisionLabelOf,
	arrangePods:        arrangeByNode,
	unsupported:        surgeUnsupported,
	selectDeletions:    podsToReplace,
	newPodsUseTemplate: true,
}}

// What others of the API keep on a DaemonSet, which may be taken over from them in
// the middle of a release.
const kruiseTypeAnnotation = "rollouts.kruise.io/daemonset-original-update-strategy"

var kruiseAnnotations = []string{kruiseTypeAnnotation, "rollouts.kruise.io/daemonset-revision", "rollouts.kruise.io/daemonset-advanced-control"}

// hashInName names a revision by the label value of its pods. The name of a ControllerRevision
// ends in that value. Its label has the same value, but users can change labels.
func hashInName(cr *appsv1.ControllerRevision) string { return hashSuffix(cr.Name) }

// surgeUnsupported refuses a surge, with which the new pod of a node starts before the
// old one stops. Weir deletes the old pod first, which would break that promise.
func surgeUnsupported(obj object.Object) string {
	d := obj.(*appsv1.DaemonSet)
	u := d.Spec.UpdateStrategy.RollingUpdate
	if u == nil || u.MaxSurge == nil || onDelete(d) || *u.MaxSurge == intstr.FromInt32(0) || *u.MaxSurge == intstr.FromString("0%") {
		return ""
	}
	return "spec.updateStrategy.rollingUpdate.maxSurge, so that no node is ever without its pod, " +
		"and to release in steps pods are deleted before new ones start; set maxSurge to 0 and maxUnavailable to how many nodes may be without one"
}

// validateDaemonSet says what kube-apiserver would refuse at the give-back. Of an owner's
// OnDelete the limits do not count.
func validateDaemonSet(old, update object.Object) string {
	was, d := old.(*appsv1.DaemonSet), update.(*appsv1.DaemonSet).DeepCopy()
	same := equality.Semantic.DeepEqual(was.Spec.UpdateStrategy, d.Spec.UpdateStrategy)
	daemonSet.PreserveHold(was, d)
	if same || readOriginalStrategy(d).Type == onDeleteType {
		return ""
	}
	return validateDaemonSetUpdate(d.Spec.UpdateStrategy.RollingUpdate)
}

// nativeDaemonSet is the subject of a DaemonSet of apps/v1.
type nativeDaemonSet struct{ *appsv1.DaemonSet }

func (d nativeDaemonSet) fields() fields {
	f := fields{template: &d.Spec.Template, historyLimit: &d.Spec.RevisionHistoryLimit, maxUnavailable: 1, stopped: onDelete(d.DaemonSet)}
	if u := d.Spec.UpdateStrategy.RollingUpdate; u != nil {
		f.maxUnavailable = resolveUnavailable(u.MaxUnavailable, d.Status.DesiredNumberScheduled, true)
	}
	f.countNodes(&d.Status)
	return f
}

func (f *fields) countNodes(st *appsv1.DaemonSetStatus) {
	f.observedGeneration, f.total, f.updated = st.ObservedGeneration, st.DesiredNumberScheduled, st.UpdatedNumberScheduled
}

// stopController keeps what the owner wrote of the type for the end. How many pods may be missing
// is left where it is, and goes on to count.
func (d nativeDaemonSet) stopController(isHeld bool) {
	own := originalStrategy{}
	if onDelete(d.DaemonSet) && (!isHeld || readOriginalStrategy(d).Type == onDeleteType) {
		own.Type = onDeleteType
	}
	saveOriginalStrategy(d, own)
	d.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
}

func onDelete(d *appsv1.DaemonSet) bool {
	return d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType
}

// preserveStrategy lets another template go nowhere, but to nodes that have no pod. An abort waits
// for available pods, so that when they count as that is settled before.
func (d nativeDaemonSet) preserveStrategy(old object.Object, _ bool) {
	d.Spec.MinReadySeconds = old.(*appsv1.DaemonSet).Spec.MinReadySeconds
	d.setPartition(frozen)
}

// setPartition is OnDelete, whatever stays: Weir deletes the pods.
func (d nativeDaemonSet) setPartition(int32) {
	if !onDelete(d.DaemonSet) {
		d.stopController(true)
	}
}

// restore keeps OnDelete for a workload that stays paused as long as a pod runs another
// template. What is given back half-way because its Rollout leaves keeps OnDelete, too:
// as other clients of the API expect it, no pod is replaced.
func (d nativeDaemonSet) restore(v view, how planner.RestoreWorkload, isOurs bool) {
	if isOurs && v.mayRestoreType(how) {
		own := cmp.Or(readOriginalStrategy(d).Type, d.Annotations[kruiseTypeAnnotation], rollingUpdateType)
		d.Spec.UpdateStrategy.Type = appsv1.DaemonSetUpdateStrategyType(own)
		if !onDelete(d.DaemonSet) && validateDaemonSetUpdate(d.Spec.UpdateStrategy.RollingUpdate) != "" {
			d.Spec.UpdateStrategy.RollingUpdate = nil // kube-apiserver sets its own
		}
	}
	d.Annotations = withoutKeys(d.Annotations, kruiseAnnotations...)
}
