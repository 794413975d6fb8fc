// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TrafficRouting routes requests for as long as any of the Rollouts that name
// it has a release in progress.
type TrafficRouting struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is routed, and how.
	// +optional
	Spec TrafficRoutingSpec `json:"spec,omitzero"`
	// Status is written by the controller.
	// +optional
	Status TrafficRoutingStatus `json:"status,omitzero"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TrafficRoutingList is a list of TrafficRoutings.
type TrafficRoutingList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the TrafficRoutings.
	Items []TrafficRouting `json:"items"`
}

// TrafficRoutingSpec is what is routed, and how.
type TrafficRoutingSpec struct {
	// ObjectRef names a Service and what routes to it. At least one entry;
	// only the first is used.
	// +listType=atomic
	ObjectRef []TrafficRoutingRef `json:"objectRef"`
	// Strategy is where requests go during a release.
	Strategy TrafficRoutingStrategy `json:"strategy"`
}

// TrafficRoutingStrategy is where requests go during a release.
type TrafficRoutingStrategy struct {
	// Weight is the share of requests sent to the update revision, in percent.
	// +optional
	Weight *int32 `json:"weight,omitempty"`
	// RequestHeaderModifier rewrites the headers of requests that go to the
	// update revision. Not every router can.
	// +optional
	RequestHeaderModifier *HeaderModifier `json:"requestHeaderModifier,omitempty"`
	// Matches sends requests that satisfy any of the matches to the update
	// revision, and no others. They take precedence over the weight.
	// +optional
	// +listType=atomic
	Matches []RouteMatch `json:"matches,omitzero"`
}

// TrafficRoutingStatus is what is known of a TrafficRouting.
type TrafficRoutingStatus struct {
	// ObservedGeneration is the generation of the spec that was last acted upon.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is Initial, Healthy, Progressing, Finalizing or Terminating.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Message is one sentence for the user.
	// +optional
	Message string `json:"message,omitempty"`
	// LastUpdateTime is when the network was last changed, which its grace
	// period counts from. It is absent while nothing of the network is changed.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
	// Routed reports whether requests go as the strategy says, and that the last
	// change of the network has had its grace period.
	// +optional
	Routed bool `json:"routed,omitempty"`
}
