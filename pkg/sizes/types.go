// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package sizes

import "time"

// Scaling has the facts of a held Deployment whose ReplicaSets Weir sizes.
type Scaling struct {
	// Replicas is the size that the owner wants.
	Replicas int32
	// Surge and Unavailable are the owner's limits in pods.
	Surge, Unavailable int32
	// Target is the desired number of pods of the update revision.
	Target int32
	// AllPods reports whether the target is all pods, at any size.
	AllPods bool
	// Abort reports whether the pods of the update revision are to be removed.
	Abort bool
	// OwnerStrategyActive reports whether the spec has the owner's strategy, as before the first
	// target and after an abort. The native controller then sizes the ReplicaSets, and Weir only
	// prevents it from preferring the wrong one later.
	OwnerStrategyActive bool
	// Frozen keeps the sizes as long as they fit the Deployment, because the live template is not
	// that of Update.
	Frozen bool
	// ResumesNatively reports whether the native controller continues to size the ReplicaSets when
	// stable has all its pods, and needs its size annotations for that. Until then no pod counts as
	// available for it.
	ResumesNatively bool
	// AnnotationDriven reports whether only an annotation sets the target, and no release.
	AnnotationDriven bool
	// Update is the ReplicaSet of the live template; nil until it exists.
	Update *Set
	// Stable is the ReplicaSet that served before the release; nil if it is gone.
	Stable *Set
	// StableEdited reports whether a user has changed the template of Stable during the release.
	// Its pods still run the stable template, but new pods would not, so Stable must not grow.
	StableEdited bool
	// PinnedSet is the name of the only ReplicaSet whose pods a Service selects; empty if there is
	// none. Its last pod stays until the size is 0.
	PinnedSet string
	// Others are the ReplicaSets of other revisions, in any order.
	Others []Set
}

// Set has the facts of one ReplicaSet.
type Set struct {
	Name     string
	Replicas int32
	// Ready and Available never exceed what exists.
	Ready, Available int32
	// HasStaleCounters reports whether the counters may be wrong: minReadySeconds was changed a
	// moment ago, or the size changed more than once.
	HasStaleCounters bool
	// IsShrinking reports whether the status still counts pods that are being deleted or are gone.
	// If the ReplicaSet grew now, nobody could distinguish these pods from those that stay.
	IsShrinking bool
	Revision    int64
	Created     time.Time
	// HasSizeAnnotations reports whether the ReplicaSet has the native controller's size
	// annotations.
	HasSizeAnnotations bool
	// NotedReplicas is the size of the Deployment in these annotations; 0 if unknown.
	NotedReplicas int32
}

// Scale has the writes of one pass, in order.
type Scale struct {
	Steps []Step
	// Rule names the rule that decided, for logs and transcripts.
	Rule string
	// DesiredAnnotation and MaxAnnotation are the values of the native controller's size
	// annotations, which every step writes. If they are 0, every step removes the annotations.
	DesiredAnnotation, MaxAnnotation int32
}

// Step is one write to one ReplicaSet. If Name is empty, the step creates the update ReplicaSet.
type Step struct {
	Name     string
	Replicas int32
	Delete   bool
}
