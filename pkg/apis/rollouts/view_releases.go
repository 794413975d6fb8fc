// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RolloutReleases is the answer of GET …/history: the releases of a Rollout.
type RolloutReleases struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	// Releases are the one under way and those on record, newest first.
	Releases []PastRelease
}

// PastRelease is one release, and what it changed.
type PastRelease struct {
	ReleaseRef
	// RolloutID is the workload's rollout-id, or else the update revision.
	RolloutID string
	// StartTime is when the release began.
	StartTime *metav1.Time
	// EndTime is when it was over; missing while it goes on.
	EndTime *metav1.Time
	// Outcome is how it ended; missing while it goes on, but for an abort.
	Outcome ReleaseOutcome
	// Steps are the visits to steps in their order.
	Steps []StepRecord
	// Decisions of this release, oldest first.
	Decisions []Decision
	// Changes of the pod template, at most 50.
	Changes []Change
	// MoreChanges is how many there are besides.
	MoreChanges int32
	// StableOnRecord reports whether the template that served before this release is on record.
	StableOnRecord bool
	// RestoreStable is a merge patch of the workload that sets the template that served before this release.
	RestoreStable runtime.RawExtension
	// Restore is a merge patch of the workload that sets the template of this release again;
	// only where one release was asked for.
	Restore runtime.RawExtension
}

// Change is one field of the pod template that differs.
type Change struct {
	// Path of the field, with merge keys: spec.containers[app].image.
	Path string
	// From is the value before, as JSON; missing for a field that is new.
	From string
	// To is the value after, as JSON; missing for a field that goes.
	To string
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HistoryOptions are the parameters of GET …/history.
type HistoryOptions struct {
	metav1.TypeMeta

	// Release is the number of one release, which comes with what restores it; 0 for all.
	Release int64
}
