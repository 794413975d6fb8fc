// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package sizes

import "time"

// Scaling is the facts of a held Deployment whose ReplicaSets are scaled here.
type Scaling struct {
	// Replicas is the size that the owner wants.
	Replicas int32
	// Surge and Unavailable are the owner's limits in pods.
	Surge, Unavailable int32
	// Target is how many pods of the update revision are wanted.
	Target int32
	// AllPods reports whether the target is all pods, whatever the size is.
	AllPods bool
	// Abort reports whether the update revision goes away.
	Abort bool
	// OwnerStrategyActive reports whether the owner's strategy is in force, as before the first
	// drive and after an abort: the native controller sizes, we only guard.
	OwnerStrategyActive bool
	// Frozen keeps sizes as they are, as long as they fit: the live template is
	// another one than that of Update.
	Frozen bool
	// ResumesNatively reports whether the native controller sizes the sets again when stable is
	// whole, and has to find its notes on them. Until then no pod is available to it.
	ResumesNatively bool
	// AnnotationDriven reports whether no release drives the Deployment, only its annotation.
	AnnotationDriven bool
	// Update is the set of the live template; nil until it exists.
	Update *Set
	// Stable is the set that served before; nil if it is gone.
	Stable *Set
	// StableEdited reports whether a user has changed the template of Stable during the release.
	// Its pods still run the stable template, but new pods would not, so Stable must not grow.
	StableEdited bool
	// PinnedSet names the set whose pods alone a Service selects; empty if none does. Its
	// last pod stays until the size is 0.
	PinnedSet string
	// Others are sets of neither revision, in any order.
	Others []Set
}

// Set is the facts of one ReplicaSet.
type Set struct {
	Name     string
	Replicas int32
	// Ready and Available never exceed what exists.
	Ready, Available int32
	// HasStaleCounters reports whether the counters may be wrong: the time that pods must be
	// ready was changed a moment ago, or the size more than once.
	HasStaleCounters bool
	// IsShrinking reports whether pods are counted that are to go, or are gone already. Once
	// the set were larger again, nobody could tell them from those that stay.
	IsShrinking bool
	Revision    int64
	Created     time.Time
	// HasSizeAnnotations reports whether the native controller left its size annotations.
	HasSizeAnnotations bool
	// NotedReplicas is the size of the Deployment that the set was sized for, as one of
	// them says; 0 if unknown.
	NotedReplicas int32
}

// Scale is what one pass wants done to the sets, in order.
type Scale struct {
	Steps []Step
	// Rule says why, for logs and transcripts.
	Rule string
	// DesiredAnnotation and NoteMax are the native controller's size annotations to write
	// with every step; at 0 they are removed.
	DesiredAnnotation, MaxAnnotation int32
}

// Step is one write to one set. The update set is created when Name is
// empty.
type Step struct {
	Name     string
	Replicas int32
	Delete   bool
}
