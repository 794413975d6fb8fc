// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload adapts the kinds of workloads to the planner. For each kind and style, an adapter
// observes the state of a workload, and returns the changes that hold it, set a target, or give it
// back to its native controller. The package is pure: it takes objects and returns facts and
// changes. It does not know how objects are read or written, or why a release wants a target.
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

// Adapter observes and changes workloads of one kind in one style. A method that returns changes
// returns the changes that can be written now, in order. It returns none if the work is done, and also
// while it waits for the native controller; the facts of Observe tell which.
type Adapter interface {
	// Observe returns the facts of a workload and of the objects it owns.
	Observe(obj object.Object, owned []object.Object, hold Hold) planner.Workload
	// UnholdableReason returns why Weir cannot hold the new template of an update, or cannot keep
	// holding it; empty if it can.
	UnholdableReason(old, update object.Object, isHeld bool) string
	// Hold changes the object in place so that the native controller does not release its template.
	// by is the name of the Rollout. isHeld reports whether the workload is held already. In this
	// case the settings in its spec are Weir's, and the owner's settings are on record.
	Hold(obj object.Object, by string, isHeld bool)
	// PreserveHold reverts the changes of an update that would end the hold, and saves the settings
	// that the owner changed.
	PreserveHold(old, update object.Object)
	// SetTarget lets the release proceed as far as the target. owner refers to the BatchRelease.
	SetTarget(obj object.Object, owned []object.Object, hold Hold, to planner.SetTarget, owner metav1.OwnerReference) []object.Change
	// RestoreStrategy restores the owner's strategy after an abort is complete. The workload stays
	// held.
	RestoreStrategy(obj object.Object, owned []object.Object, hold Hold) []object.Change
	// Restore gives the workload back to its native controller.
	Restore(obj object.Object, owned []object.Object, hold Hold, how planner.RestoreWorkload) []object.Change
	// SetStable replaces the live template by the template of the stable revision.
	SetStable(obj object.Object, owned []object.Object, hold Hold) []object.Change
}

// RevisionSnapshot is the copy of a revision object that a RolloutHistory keeps: its name, and its
// spec in JSON.
type RevisionSnapshot struct {
	Name string
	Spec []byte
}

// Row is one kind of workload released in one style.
type Row struct {
	// GVK has the version with which Weir reads and writes the kind. Every cluster that has the kind
	// serves this version.
	GVK   schema.GroupVersionKind
	Style rollouts.Style
	// New returns an empty object of the kind. Its Go type needs only the fields that Weir uses.
	// Weir never writes a field that the type lacks, except in the pod template (UnknownFields).
	New func() object.Object
	// RevisionKey is the pod label whose value identifies the revision of a pod. A Service is pinned
	// to a revision by this label.
	RevisionKey string
	// Owns lists the kinds of owned objects that Weir reads: revisions, and pods if no ReplicaSet
	// owns them.
	Owns []schema.GroupVersionKind
	// ResumeHint says which field of the spec the owner changes so that a stopped controller
	// continues, as in "set spec.paused to false". Messages about a workload that stays stopped
	// after a release end with it.
	ResumeHint string
	// NativeReplacesPods reports whether the native controller replaces pods of a held workload, up
	// to a limit that each step sets. It is false if Weir sizes ReplicaSets or deletes pods for a
	// step.
	NativeReplacesPods bool
	// Template returns the live template. The result points into the object.
	Template func(object.Object) *corev1.PodTemplateSpec
	// Snapshot returns the copy of a revision that a RolloutHistory keeps; nil if no object has the
	// template. The digest identifies the revision. If the digest is unknown, the label value of its
	// pods does.
	Snapshot func(obj object.Object, owned []object.Object, revision planner.Revision) *RevisionSnapshot
	// FindRevisionByDigest returns the revision (the value of RevisionKey on its pods) whose
	// template has the digest; empty if the workload has no such revision.
	FindRevisionByDigest func(obj object.Object, owned []object.Object, digest string) string
	Adapter

	// Only some rows set the following fields.

	// OwnsAutoscalers reports whether the owned objects include the autoscalers of the workload.
	OwnsAutoscalers bool
	// UsesExtraDeployment reports whether a release creates extra objects of the workload's own
	// kind. The BatchRelease owns them.
	UsesExtraDeployment bool
	// sameTemplates reports whether two templates are one revision. If it is nil, sameWholeTemplate
	// is used.
	sameTemplates func(a, b *corev1.PodTemplateSpec) bool
	// canHold reports whether a workload has pods or settings to hold; nil if every workload has.
	canHold func(object.Object) bool
	// validate returns why kube-apiserver would refuse a setting of an update when the workload is
	// restored. It is nil for kinds that restore the default instead of an invalid setting.
	validate func(old, update object.Object) string
	// applyEdit writes a pending edit into the spec; nil if no policy holds the kind.
	applyEdit func(object.Object, pendingEdit)
	// sizer sizes the ReplicaSets; nil if the native controller sizes them.
	sizer replicaSetSizer
	// updateExtraStatus writes an annotation with counters that the status of the workload lacks.
	// Clients that drive a Deployment by annotations read them.
	updateExtraStatus func(obj object.Object, owned []object.Object, hold Hold) []object.Change
	// removeExtras deletes the extra objects of a release.
	removeExtras func(owned []object.Object) []object.Change
}

// replicaSetSizer reads the facts for sizing ReplicaSets, and writes the sizes.
type replicaSetSizer interface {
	// ScalingFacts returns the facts that decide the sizes, and reports whether Weir sizes the
	// ReplicaSets now.
	ScalingFacts(obj object.Object, owned []object.Object, hold Hold) (sizes.Scaling, bool)
	// ResizeReplicaSets returns the changes that apply the sizes.
	ResizeReplicaSets(obj object.Object, owned []object.Object, hold Hold, scale sizes.Scale) ([]object.Change, error)
}
