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
	// Status is which pods each step had.
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

// RolloutHistoryStatus is which pods each step had.
type RolloutHistoryStatus struct {
	// Phase is completed once the release has ended, and empty before.
	// +optional
	Phase string `json:"phase,omitempty"`
	// CanarySteps are the steps in their order.
	// +optional
	// +listType=atomic
	CanarySteps []HistoryStep `json:"canarySteps,omitzero"`
}

// HistoryStep is the pods of one step.
type HistoryStep struct {
	// CanaryStepIndex is the step, counted from 1.
	// +optional
	CanaryStepIndex int32 `json:"canaryStepIndex,omitempty"`
	// Pods of the update revision that the step had.
	// +optional
	// +listType=atomic
	Pods []HistoryPod `json:"pods,omitzero"`
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
