// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RolloutReleases is the answer of GET …/history: the releases of a Rollout.
type RolloutReleases struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata: that of the Rollout.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Releases are the one under way and those on record, newest first.
	// +optional
	// +listType=atomic
	Releases []PastRelease `json:"releases,omitzero"`
}

// PastRelease is one release, and what it changed.
type PastRelease struct {
	ReleaseRef `json:",inline"`
	// RolloutID is the workload's rollout-id, or else the update revision.
	// +optional
	RolloutID string `json:"rolloutID,omitempty"`
	// StartTime is when the release began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// EndTime is when it was over; missing while it goes on.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// Outcome is how it ended; missing while it goes on, but for an abort.
	// +optional
	Outcome ReleaseOutcome `json:"outcome,omitempty"`
	// Steps are the visits to steps in their order.
	// +optional
	// +listType=atomic
	Steps []StepRecord `json:"steps,omitzero"`
	// Decisions of this release, oldest first.
	// +optional
	// +listType=atomic
	Decisions []Decision `json:"decisions,omitzero"`
	// Changes of the pod template, at most 50.
	// +optional
	// +listType=atomic
	Changes []Change `json:"changes,omitzero"`
	// MoreChanges is how many there are besides.
	// +optional
	MoreChanges int32 `json:"moreChanges,omitempty"`
	// StableOnRecord reports whether the template that served before this release is on record, so that
	// the answer about this release alone has restoreStable.
	// +optional
	StableOnRecord bool `json:"stableOnRecord,omitempty"`
	// RestoreStable is a merge patch of the workload that sets the template that served before this
	// release; only where one release was asked for.
	// +optional
	RestoreStable runtime.RawExtension `json:"restoreStable,omitzero"`
	// Restore is a merge patch of the workload that sets the template of this release again;
	// only where one release was asked for.
	// +optional
	Restore runtime.RawExtension `json:"restore,omitzero"`
}

// Change is one field of the pod template that differs.
type Change struct {
	// Path of the field, with merge keys: spec.containers[app].image.
	Path string `json:"path"`
	// From is the value before, as JSON; missing for a field that is new.
	// +optional
	From string `json:"from,omitempty"`
	// To is the value after, as JSON; missing for a field that goes.
	// +optional
	To string `json:"to,omitempty"`
}

// +k8s:conversion-gen:explicit-from=net/url.Values
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HistoryOptions are the parameters of GET …/history.
type HistoryOptions struct {
	metav1.TypeMeta `json:",inline"`

	// Release is the number of one release, which comes with what restores it; 0 for all.
	// +optional
	Release int64 `json:"release,omitempty"`
}
