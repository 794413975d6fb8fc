// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TrafficRouting routes requests for as long as any of its Rollouts has a
// release in progress. It exists on the wire in v1alpha1 only.
type TrafficRouting struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   TrafficRoutingSpec
	Status TrafficRoutingStatus
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TrafficRoutingList is a list of TrafficRoutings.
type TrafficRoutingList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []TrafficRouting
}

// TrafficRoutingSpec is what is routed, and how.
type TrafficRoutingSpec struct {
	// ObjectRef names Services and their routers; only the first is used.
	ObjectRef []TrafficRoutingRef
	Strategy  TrafficRoutingStrategy
}

// TrafficRoutingStrategy is where requests go during a release.
type TrafficRoutingStrategy struct {
	// Weight is the share sent to the update revision, in percent.
	Weight *int32
	// RequestHeaderModifier rewrites the headers of requests to the update revision.
	RequestHeaderModifier *HeaderModifier
	// Matches sends only matching requests to the update revision.
	Matches []RouteMatch
}

// TrafficRoutingStatus is the state of a TrafficRouting.
type TrafficRoutingStatus struct {
	ObservedGeneration int64
	Phase              Phase
	Message            string
	// LastUpdateTime is when the network was last changed; nil while it is unchanged.
	LastUpdateTime *metav1.Time
	// Routed reports whether the strategy is in effect and its grace period is over.
	Routed bool
}
