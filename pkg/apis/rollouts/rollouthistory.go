// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RolloutHistory is the record of one release, with copies of the objects that took
// part. On the wire, it exists in v1alpha1 only.
type RolloutHistory struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   RolloutHistorySpec
	Status RolloutHistoryStatus
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RolloutHistoryList is a list of RolloutHistories.
type RolloutHistoryList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []RolloutHistory
}

// RolloutHistorySpec holds copies of the objects that took part.
type RolloutHistorySpec struct {
	Rollout        *RolloutInfo
	Workload       *WorkloadInfo
	Service        *ObjectInfo
	TrafficRouting *TrafficRoutingInfo
	// Stable is what has the template of the stable revision.
	Stable *ObjectInfo
	// Source is what the owner of the workload says about the content of the release.
	Source *ReleaseSource
}

// RolloutInfo is a copy of the Rollout.
type RolloutInfo struct {
	RolloutID string
	ObjectInfo
}

// WorkloadInfo is a copy of the workload.
type WorkloadInfo struct {
	APIVersion string
	Kind       string
	ObjectInfo
}

// TrafficRoutingInfo holds copies of what routed.
type TrafficRoutingInfo struct {
	Ingress   *ObjectInfo
	HTTPRoute *ObjectInfo
}

// ObjectInfo is the name of an object and a copy of its spec.
type ObjectInfo struct {
	Name string
	Data RawJSON
}

// RawJSON is any JSON value, or none.
type RawJSON struct {
	Raw []byte
}

// RolloutHistoryStatus is how the release went.
type RolloutHistoryStatus struct {
	// Phase is empty or PhaseHistoryCompleted.
	Phase       string
	CanarySteps []HistoryStep

	StableRevision string
	UpdateRevision string
	// StableTemplate and UpdateTemplate are the SHA-256 digests of their templates.
	StableTemplate string
	UpdateTemplate string
	StartTime      *metav1.Time
	EndTime        *metav1.Time
	Outcome        ReleaseOutcome
	// Decisions of this release, oldest first.
	Decisions []Decision
}

// PhaseHistoryCompleted is the phase of a history that is complete.
const PhaseHistoryCompleted = "completed"

// HistoryStep is one visit to a step.
type HistoryStep struct {
	// CanaryStepIndex is 1-based.
	CanaryStepIndex int32
	Pods            []HistoryPod
	StepTimes
}

// HistoryPod is one pod of the update revision.
type HistoryPod struct {
	Name     string
	IP       string
	NodeName string
}
