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

// daemonSet releases a DaemonSet with the update strategy OnDelete: the native controller replaces
// no pod, but creates one of the live template on each node without a pod. So Weir deletes old pods,
// as many as a step asks for. An abort keeps the stable template, so that a node that joins never
// gets the aborted version.
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

// OpenKruise Rollouts stores these annotations on a DaemonSet during its releases. Weir may take
// over such a release half-way.
const kruiseTypeAnnotation = "rollouts.kruise.io/daemonset-original-update-strategy"

var kruiseAnnotations = []string{kruiseTypeAnnotation, "rollouts.kruise.io/daemonset-revision", "rollouts.kruise.io/daemonset-advanced-control"}

// hashInName names a revision by the label value of its pods. The name of a ControllerRevision
// ends in that value. Its label has the same value, but users can change labels.
func hashInName(cr *appsv1.ControllerRevision) string { return hashSuffix(cr.Name) }

// surgeUnsupported refuses a surge, with which the new pod of a node starts before the old one
// stops. Weir deletes the old pod first, which would break that guarantee.
func surgeUnsupported(obj object.Object) string {
	d := obj.(*appsv1.DaemonSet)
	u := d.Spec.UpdateStrategy.RollingUpdate
	if u == nil || u.MaxSurge == nil || onDelete(d) || *u.MaxSurge == intstr.FromInt32(0) || *u.MaxSurge == intstr.FromString("0%") {
		return ""
	}
	return "spec.updateStrategy.rollingUpdate.maxSurge, so that no node is ever without its pod, " +
		"and to release in steps pods are deleted before new ones start; set maxSurge to 0 and maxUnavailable to how many nodes may be without one"
}

// validateDaemonSet returns why kube-apiserver would refuse the settings when Weir restores them. It
// ignores the limits if the owner's strategy is OnDelete.
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

// stopController implements subject. It saves the strategy type. The owner's limit of missing pods
// stays in the spec and in force.
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

// preserveStrategy implements subject. A new template reaches only nodes without a pod. It also
// keeps minReadySeconds: an abort waits for available pods, so the definition of available must not
// change.
func (d nativeDaemonSet) preserveStrategy(old object.Object, _ bool) {
	d.Spec.MinReadySeconds = old.(*appsv1.DaemonSet).Spec.MinReadySeconds
	d.setPartition(frozen)
}

// setPartition implements subject. It sets OnDelete for every number, because Weir deletes the pods.
func (d nativeDaemonSet) setPartition(int32) {
	if !onDelete(d.DaemonSet) {
		d.stopController(true)
	}
}

// restore implements subject. It keeps OnDelete while a workload that stays paused has pods of
// another template. It also keeps OnDelete if the Rollout is deleted half-way: no pod is replaced
// then, as OpenKruise clients expect.
func (d nativeDaemonSet) restore(v view, how planner.RestoreWorkload, isOurs bool) {
	if isOurs && v.mayRestoreType(how) {
		own := cmp.Or(readOriginalStrategy(d).Type, d.Annotations[kruiseTypeAnnotation], rollingUpdateType)
		d.Spec.UpdateStrategy.Type = appsv1.DaemonSetUpdateStrategyType(own)
		if !onDelete(d.DaemonSet) && validateDaemonSetUpdate(d.Spec.UpdateStrategy.RollingUpdate) != "" {
			d.Spec.UpdateStrategy.RollingUpdate = nil // kube-apiserver sets the defaults
		}
	}
	d.Annotations = withoutKeys(d.Annotations, kruiseAnnotations...)
}
