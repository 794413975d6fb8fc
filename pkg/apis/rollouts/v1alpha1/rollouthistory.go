// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RolloutHistory is what one release was made of: copies of the objects that
// took part, and the pods of each step.
type RolloutHistory struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec holds copies of the objects that took part.
	// +optional
	Spec RolloutHistorySpec `json:"spec,omitzero"`
	// Status is how the release went.
	// +optional
	Status RolloutHistoryStatus `json:"status,omitzero"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RolloutHistoryList is a list of RolloutHistories.
type RolloutHistoryList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the RolloutHistories.
	Items []RolloutHistory `json:"items"`
}

// RolloutHistorySpec holds copies of the objects that took part.
type RolloutHistorySpec struct {
	// Rollout that released.
	// +optional
	Rollout *RolloutInfo `json:"rollout,omitempty"`
	// Workload that was released.
	// +optional
	Workload *WorkloadInfo `json:"workload,omitempty"`
	// Service of the workload.
	// +optional
	Service *ObjectInfo `json:"service,omitempty"`
	// TrafficRouting is what routed to the Service.
	// +optional
	TrafficRouting *TrafficRoutingInfo `json:"trafficRouting,omitempty"`
	// Stable is what ran the stable revision when the release began, such as a
	// ReplicaSet, so that its template can be set again.
	// +optional
	Stable *ObjectInfo `json:"stable,omitempty"`
	// Source is what the owner of the workload says about the content of the release, in
	// annotations such as org.opencontainers.image.revision. Weir does not verify it.
	// +optional
	Source *ReleaseSource `json:"source,omitempty"`
}

// ReleaseSource says what was built into a release. The texts are cleaned and at most 256
// characters long; addresses are http or https, and at most 1024 characters long.
type ReleaseSource struct {
	// Version of the software.
	// +optional
	Version string `json:"version,omitempty"`
	// Commit is the revision in the source code repository.
	// +optional
	Commit string `json:"commit,omitempty"`
	// Author is who made the release.
	// +optional
	Author string `json:"author,omitempty"`
	// Repository is the address of the source code.
	// +optional
	Repository string `json:"repository,omitempty"`
	// Link is an address with more about the release.
	// +optional
	Link string `json:"link,omitempty"`
}

// RolloutInfo is a copy of the Rollout.
type RolloutInfo struct {
	// RolloutID identifies the release.
	RolloutID  string `json:"rolloutID"`
	ObjectInfo `json:",inline"`
}

// WorkloadInfo is a copy of the workload.
type WorkloadInfo struct {
	// APIVersion of the workload, such as apps/v1.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the workload, such as Deployment.
	// +optional
	Kind       string `json:"kind,omitempty"`
	ObjectInfo `json:",inline"`
}

// TrafficRoutingInfo holds copies of what routed.
type TrafficRoutingInfo struct {
	// Ingress in front of the Service.
	// +optional
	Ingress *ObjectInfo `json:"ingress,omitempty"`
	// HTTPRoute in front of the Service.
	// +optional
	HTTPRoute *ObjectInfo `json:"httpRoute,omitempty"`
}

// ObjectInfo is the name of an object and a copy of its spec.
type ObjectInfo struct {
	// Name of the object.
	Name string `json:"name"`
	// Data is the spec of the object, as it was.
	// +optional
	Data RawJSON `json:"data,omitzero"`
}

// RolloutHistoryStatus is how the release went.
type RolloutHistoryStatus struct {
	// Phase is completed once the release has ended, and empty before.
	// +optional
	Phase string `json:"phase,omitempty"`
	// CanarySteps are the visits to steps in their order. A step that was
	// visited again, as after a jump, is there again.
	// +optional
	// +listType=atomic
	CanarySteps []HistoryStep `json:"canarySteps,omitzero"`
	// StableRevision is the revision that served before the release.
	// +optional
	StableRevision string `json:"stableRevision,omitempty"`
	// UpdateRevision is the revision that was released.
	// +optional
	UpdateRevision string `json:"canaryRevision,omitempty"`
	// StableTemplate is the SHA-256 digest of the template of the stable revision.
	// +optional
	StableTemplate string `json:"stableTemplate,omitempty"`
	// UpdateTemplate is the SHA-256 digest of the template that was released.
	// +optional
	UpdateTemplate string `json:"updateTemplate,omitempty"`
	// StartTime is when the release began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// EndTime is when it was over.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// Outcome is succeeded, cancelled, aborted, superseded, disabled, deleted or bypassed.
	// +optional
	Outcome ReleaseOutcome `json:"outcome,omitempty"`
	// Decisions are the uses of verbs in this release, oldest first.
	// +optional
	// +listType=atomic
	Decisions []Decision `json:"decisions,omitempty"`
}

// HistoryStep is one visit to a step.
type HistoryStep struct {
	// CanaryStepIndex is the step, counted from 1.
	// +optional
	CanaryStepIndex int32 `json:"canaryStepIndex,omitempty"`
	// Pods of the update revision that the step had.
	// +optional
	// +listType=atomic
	Pods      []HistoryPod `json:"pods,omitzero"`
	StepTimes `json:",inline"`
}

// HistoryPod is one pod of the update revision.
type HistoryPod struct {
	// Name of the pod.
	// +optional
	Name string `json:"name,omitempty"`
	// IP of the pod.
	// +optional
	IP string `json:"ip,omitempty"`
	// NodeName is the node that the pod ran on.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
}
