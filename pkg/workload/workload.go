// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload answers what a workload is doing and what must be written to
// it to hold it, to drive it and to give it back, one row per kind and style.
// It is pure: objects in, facts and changes out. It must not know how objects
// are read or written, nor why a release wants what it wants.
package workload

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// Adapter reads and changes workloads of one kind for one style. Methods that
// return changes return what is still to do, in order; nothing when it is done.
type Adapter interface {
	// Observe returns the facts of a workload and of the objects it owns.
	Observe(obj object.Object, owned []object.Object) planner.Workload
	// Held reports whether the workload is taken from its native controller.
	Held(obj object.Object) bool
	// Hold takes it, in place, in the name of a Rollout.
	Hold(obj object.Object, by string)
	// Keep puts back on update what others must not change on a held workload.
	Keep(old, update object.Object)
	// Wrong says what kube-apiserver would refuse, when it is given back, of what an
	// update of a held workload changes; empty if nothing.
	Wrong(old, update object.Object) string
	// Changed reports whether an update asks for another release.
	Changed(old, update object.Object) bool
	// Rolls reports whether the native controller replaces pods for an update.
	Rolls(old, update object.Object) bool
	// UnsupportedReason says why a workload that is not held could not be, or not be released,
	// as it is; empty if it could.
	UnsupportedReason(obj object.Object) string
	// Sized says why another template could not be held in an update that wants
	// another size as well, or could not stay held; empty if it could.
	Sized(old, update object.Object, isHeld bool) string
	// SetTarget tells the workload how far it may go. Owner is the BatchRelease.
	SetTarget(obj object.Object, owned []object.Object, to planner.SetTarget, owner metav1.OwnerReference) []object.Change
	// RestoreStrategy gives the owner's strategy back once an abort is complete. The
	// workload stays held.
	RestoreStrategy(obj object.Object, owned []object.Object) []object.Change
	// Discard removes what was made beside the workload.
	Discard(obj object.Object, owned []object.Object) []object.Change
	// Restore gives the workload back to its native controller.
	Restore(obj object.Object, owned []object.Object, how planner.RestoreWorkload) []object.Change
	// SetStable sets the live template to the stable revision's.
	SetStable(obj object.Object, owned []object.Object) []object.Change
	// File is what is to be put on file of a revision, by the label value of its pods;
	// nil if nothing has its template.
	File(obj object.Object, owned []object.Object, revision string) *File
	// Label makes the workload visible to admission; Unlabel takes that back.
	Label(obj object.Object) []object.Change
	Unlabel(obj object.Object) []object.Change
	// Scaling returns the facts that sizes are decided by, and whether sizes
	// are to be decided here at all.
	Scaling(obj object.Object, owned []object.Object) (sizes.Scaling, bool)
	// Sets turns decided sizes into changes.
	Sets(obj object.Object, owned []object.Object, scale sizes.Scale) ([]object.Change, error)
	// Tell writes to the workload what its status cannot say, for those who drive
	// it by its annotation.
	Tell(obj object.Object, owned []object.Object) []object.Change
}

// File is what is on file of an object: its name, and its spec in JSON.
type File struct {
	Name string
	Spec []byte
}

// Row is one kind of workload released in one style.
type Row struct {
	GVK   schema.GroupVersionKind
	Style rollouts.Style
	// New makes an empty view of the kind: a type in Go that has what matters here.
	// What it lacks is never written.
	New func() object.Object
	// Label is the kind's value of the workload-type label.
	Label string
	// RevisionKey is the pod label that tells revisions apart.
	RevisionKey string
	// Owns lists the kinds between the workload and its pods.
	Owns []schema.GroupVersionKind
	// Scalers reports whether autoscalers of the workload are among what it owns.
	Scalers bool
	// Extra reports whether objects of the workload's own kind are made beside it,
	// and belong to it by a label.
	Extra bool
	// GoesOn says what its owner does to let a native controller go on that is stopped.
	GoesOn string
	// Opens reports that the native controller replaces the pods of a held workload,
	// as far as the workload is told.
	Opens bool
	Adapter
}

// Table is every kind and style that can be released.
var Table = []Row{
	{
		GVK:         deploymentKind,
		New:         func() object.Object { return &appsv1.Deployment{} },
		Style:       rollouts.StylePartition,
		Label:       deploymentLabel,
		GoesOn:      "set spec.paused to false",
		RevisionKey: appsv1.DefaultDeploymentUniqueLabelKey,
		Owns:        []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind("ReplicaSet")},
		Adapter:     deployment{},
	},
	{
		GVK:         deploymentKind,
		New:         func() object.Object { return &appsv1.Deployment{} },
		Style:       rollouts.StyleCanary,
		Label:       deploymentLabel,
		GoesOn:      "set spec.paused to false",
		RevisionKey: appsv1.DefaultDeploymentUniqueLabelKey,
		Owns:        []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind("ReplicaSet")},
		Extra:       true,
		Adapter:     canary{},
	},
	{
		GVK:         deploymentKind,
		New:         func() object.Object { return &appsv1.Deployment{} },
		Style:       rollouts.StyleBlueGreen,
		Label:       deploymentLabel,
		GoesOn:      "set spec.paused to false",
		RevisionKey: appsv1.DefaultDeploymentUniqueLabelKey,
		Owns:        []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind("ReplicaSet")},
		Scalers:     true,
		Opens:       true,
		Adapter:     blueGreen{},
	},
	{
		GVK:         statefulSetKind,
		New:         func() object.Object { return &appsv1.StatefulSet{} },
		Style:       rollouts.StylePartition,
		Label:       statefulSetLabel,
		GoesOn:      "lower spec.updateStrategy.rollingUpdate.partition",
		RevisionKey: appsv1.ControllerRevisionHashLabelKey,
		Owns:        []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind(controllerRevision), corev1.SchemeGroupVersion.WithKind("Pod")},
		Opens:       true,
		Adapter:     statefulSet{statefulSetLabel},
	},
	{
		GVK:         daemonSetKind,
		New:         func() object.Object { return &appsv1.DaemonSet{} },
		Style:       rollouts.StylePartition,
		Label:       daemonSetLabel,
		GoesOn:      "set spec.updateStrategy.type to RollingUpdate",
		RevisionKey: appsv1.DefaultDaemonSetUniqueLabelKey,
		Owns:        []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), corev1.SchemeGroupVersion.WithKind("Pod")},
		Adapter:     daemonSet{daemonSetLabel},
	},
	{
		GVK:         advancedStatefulSetKind,
		New:         func() object.Object { return &AdvancedStatefulSet{} },
		Style:       rollouts.StylePartition,
		Label:       statefulSetLabel,
		GoesOn:      "set spec.updateStrategy.rollingUpdate.paused to false and partition to 0",
		RevisionKey: appsv1.ControllerRevisionHashLabelKey,
		Owns:        []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind(controllerRevision), corev1.SchemeGroupVersion.WithKind("Pod")},
		Opens:       true,
		Adapter:     advancedStatefulSet{statefulSet{statefulSetLabel}},
	},
	{
		GVK:         advancedDaemonSetKind,
		New:         func() object.Object { return &AdvancedDaemonSet{} },
		Style:       rollouts.StylePartition,
		Label:       daemonSetLabel,
		GoesOn:      "set spec.updateStrategy.type to RollingUpdate, rollingUpdate.paused to false and partition to 0",
		RevisionKey: appsv1.DefaultDaemonSetUniqueLabelKey,
		Owns:        []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind(controllerRevision), corev1.SchemeGroupVersion.WithKind("Pod")},
		Opens:       true,
		Adapter:     advancedDaemonSet{daemonSetLabel},
	},
	{
		GVK:         cloneSetKind,
		New:         func() object.Object { return &CloneSet{} },
		Style:       rollouts.StylePartition,
		Label:       cloneSetLabel,
		GoesOn:      "set spec.updateStrategy.paused to false and partition to 0",
		RevisionKey: appsv1.DefaultDeploymentUniqueLabelKey,
		Owns:        []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), corev1.SchemeGroupVersion.WithKind("Pod")},
		Opens:       true,
		Adapter:     cloneSet{cloneSetLabel},
	},
	{
		GVK:         cloneSetKind,
		New:         func() object.Object { return &CloneSet{} },
		Style:       rollouts.StyleBlueGreen,
		Label:       cloneSetLabel,
		GoesOn:      "set spec.updateStrategy.paused to false and partition to 0",
		RevisionKey: appsv1.DefaultDeploymentUniqueLabelKey,
		Owns:        []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), corev1.SchemeGroupVersion.WithKind("Pod")},
		Scalers:     true,
		Opens:       true,
		Adapter:     cloneSetBlueGreen{cloneSet{cloneSetLabel}},
	},
}

// Kinds returns one row of each kind.
func Kinds() []Row {
	var rows []Row
	for _, r := range Table {
		if !slices.ContainsFunc(rows, func(o Row) bool { return o.GVK == r.GVK }) {
			rows = append(rows, r)
		}
	}
	return rows
}

// Find returns the row of a kind, whatever its version, and style.
func Find(apiVersion, kind string, style rollouts.Style) (Row, bool) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return Row{}, false
	}
	for _, r := range Table {
		if r.GVK.GroupKind() == gv.WithKind(kind).GroupKind() && r.Style == style {
			return r, true
		}
	}
	return statefulSetLikeRow(gv.WithKind(kind), style)
}
