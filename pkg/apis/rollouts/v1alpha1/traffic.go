// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// TrafficRoutingRef names a Service and what routes to it. At least one of
// ingress, gateway and customNetworkRefs must be set; they may be combined.
type TrafficRoutingRef struct {
	// Service is the name of the stable Service.
	Service string `json:"service"`
	// GracePeriodSeconds is how long to let a change of the network settle.
	// Default: 3.
	// +optional
	// +default=3
	GracePeriodSeconds *int32 `json:"gracePeriodSeconds,omitempty"`
	// Ingress in front of the Service.
	// +optional
	Ingress *IngressRef `json:"ingress,omitempty"`
	// Gateway route in front of the Service.
	// +optional
	Gateway *GatewayRef `json:"gateway,omitempty"`
	// CustomNetworkRefs are further objects, driven by scripts.
	// +optional
	// +listType=atomic
	CustomNetworkRefs []ObjectRef `json:"customNetworkRefs,omitzero"`
}

// IngressRef names an Ingress.
type IngressRef struct {
	// ClassType is the dialect of annotations that the Ingress controller
	// understands, such as nginx, aliyun-alb, higress. Empty means nginx.
	// +optional
	ClassType *string `json:"classType,omitempty"`
	// Name of the Ingress.
	Name string `json:"name"`
}

// GatewayRef names a route of the Gateway API.
type GatewayRef struct {
	// HTTPRouteName is the name of an HTTPRoute.
	// +optional
	HTTPRouteName *string `json:"httpRouteName,omitempty"`
}

// RouteMatch selects requests. The shape is that of a match of an HTTPRoute.
type RouteMatch struct {
	// Headers that a request must have. At most 16.
	// +optional
	// +listType=atomic
	Headers []ValueMatch `json:"headers,omitzero"`
}

// ValueMatch selects requests by the value of a header.
type ValueMatch struct {
	// Type is Exact or RegularExpression. Default: Exact.
	// +optional
	// +default="Exact"
	Type *string `json:"type,omitempty"`
	// Name of the header.
	Name string `json:"name"`
	// Value that it must have.
	Value string `json:"value"`
}

// HeaderModifier rewrites request headers. The shape is that of a header
// filter of an HTTPRoute.
type HeaderModifier struct {
	// Set overwrites headers. At most 16.
	// +optional
	// +listType=map
	// +listMapKey=name
	Set []Header `json:"set,omitzero"`
	// Add adds values to headers. At most 16.
	// +optional
	// +listType=map
	// +listMapKey=name
	Add []Header `json:"add,omitzero"`
	// Remove drops headers. At most 16.
	// +optional
	// +listType=set
	Remove []string `json:"remove,omitzero"`
}

// Header is a name and its value.
type Header struct {
	// Name of the header.
	Name string `json:"name"`
	// Value of the header.
	Value string `json:"value"`
}
