// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload answers what a workload is doing and what must be written to
// it to hold it, to drive it and to give it back, one row per kind and style.
// It is pure: objects in, facts and changes out. It must not know how objects
// are read or written, nor why a release wants what it wants.
package workload

import (
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
	Observe(obj object.Object, owned []object.Object, hold Hold) planner.Workload
	// UnholdableReason says why another template cannot be held, or cannot stay held, in an
	// update; empty if it can.
	UnholdableReason(old, update object.Object, isHeld bool) string
	// Hold takes a workload from its native controller, in place, in the name of a Rollout. isHeld
	// reports whether it is held already: then the settings in its spec are Weir's, and those
	// of its owner are on record.
	Hold(obj object.Object, by string, isHeld bool)
	// PreserveHold puts back on update what others must not change on a held workload.
	PreserveHold(old, update object.Object)
	// SetTarget lets the release go as far as a target. owner is the BatchRelease.
	SetTarget(obj object.Object, owned []object.Object, hold Hold, to planner.SetTarget, owner metav1.OwnerReference) []object.Change
	// RestoreStrategy gives the owner's strategy back once an abort is complete. The
	// workload stays held.
	RestoreStrategy(obj object.Object, owned []object.Object, hold Hold) []object.Change
	// Restore gives the workload back to its native controller.
	Restore(obj object.Object, owned []object.Object, hold Hold, how planner.RestoreWorkload) []object.Change
	// SetStable sets the live template to the stable revision's.
	SetStable(obj object.Object, owned []object.Object, hold Hold) []object.Change
}

// RevisionSnapshot is what is on file of an object: its name, and its spec in JSON.
type RevisionSnapshot struct {
	Name string
	Spec []byte
}

// Row is one kind of workload released in one style.
type Row struct {
	// GVK has the version in which the kind is read and written: one that every cluster
	// with the kind serves.
	GVK   schema.GroupVersionKind
	Style rollouts.Style
	// New makes an empty object of the kind. Its Go type needs only the fields that Weir
	// uses. A field that it does not have is never written, except in the pod template
	// (UnknownFields).
	New func() object.Object
	// RevisionKey is the label by whose value pods of two revisions differ. Services are
	// pinned to a revision by it.
	RevisionKey string
	// Owns lists the kinds of what the workload owns and Weir reads: its revisions, and
	// its pods where no ReplicaSet owns them.
	Owns []schema.GroupVersionKind
	// ResumeHint says what the owner changes in the spec so that a controller which Weir
	// stopped continues, as in "set spec.paused to false". A message ends with it when a
	// workload stays stopped after a release.
	ResumeHint string
	// NativeReplacesPods reports whether the native controller itself replaces pods of a held workload,
	// down to a limit that each step sets. It is false where Weir sizes ReplicaSets or
	// deletes pods for a step, so that the controller of a held workload replaces none.
	NativeReplacesPods bool
	// Template is the live template, in place.
	Template func(object.Object) *corev1.PodTemplateSpec
	// Snapshot is what is to be put on file of a revision; nil if nothing has its template. The
	// digest identifies it. Where none is known, the label value of its pods does.
	Snapshot func(obj object.Object, owned []object.Object, revision planner.Revision) *RevisionSnapshot
	// FindRevisionByDigest returns the revision (the value of RevisionKey on its pods) whose template has a
	// digest; empty if the workload has no such revision.
	FindRevisionByDigest func(obj object.Object, owned []object.Object, digest string) string
	Adapter

	// What follows is what only some rows have.

	// OwnsAutoscalers reports whether autoscalers of the workload are among what it owns.
	OwnsAutoscalers bool
	// UsesExtraDeployment reports whether objects of the workload's own kind are made beside it,
	// and belong to it by a label.
	UsesExtraDeployment bool
	// sameTemplates reports whether two templates make one revision; samePods if it is nil.
	sameTemplates func(a, b *corev1.PodTemplateSpec) bool
	// canHold reports whether a workload has anything to hold; nil if each has.
	canHold func(object.Object) bool
	// validate says what kube-apiserver would refuse, when a held workload is given back, of
	// what an update changes; nil where a saved value that cannot be given back is read
	// as the default.
	validate func(old, update object.Object) string
	// applyEdit writes a pending edit into the spec; nil if no policy holds the kind.
	applyEdit func(object.Object, pendingEdit)
	// sizer sizes the ReplicaSets; nil where the native controller sizes them.
	sizer replicaSetSizer
	// updateExtraStatus writes counters to the workload for which its status has no field; clients
	// that drive a Deployment by annotations read them.
	updateExtraStatus func(obj object.Object, owned []object.Object, hold Hold) []object.Change
	// removeExtras removes what was made beside the workload.
	removeExtras func(owned []object.Object) []object.Change
}

// replicaSetSizer decides and writes the sizes of ReplicaSets.
type replicaSetSizer interface {
	// ScalingFacts returns the facts that sizes are decided by, and reports whether sizes
	// are to be decided here at all.
	ScalingFacts(obj object.Object, owned []object.Object, hold Hold) (sizes.Scaling, bool)
	// ResizeReplicaSets turns decided sizes into changes.
	ResizeReplicaSets(obj object.Object, owned []object.Object, hold Hold, scale sizes.Scale) ([]object.Change, error)
}
