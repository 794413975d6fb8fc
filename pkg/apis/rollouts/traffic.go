// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

// TrafficRoutingRef names a Service and what routes to it.
type TrafficRoutingRef struct {
	// Service is the stable Service.
	Service string
	// GracePeriodSeconds is how long to wait after a change of the network; at most
	// MaxGracePeriod.
	GracePeriodSeconds int32
	// Ingress in front of the Service.
	Ingress *IngressRef
	// Gateway route in front of the Service.
	Gateway *GatewayRef
	// CustomNetworkRefs are objects that scripts change; at most MaxNetworkRefs.
	CustomNetworkRefs []ObjectRef
}

// MaxGracePeriod is in seconds. It limits how long an abort waits after each change of the network.
const MaxGracePeriod = 600

// MaxNetworkRefs limits how many objects the controller reads in each pass for one object.
const MaxNetworkRefs = 16

// IngressRef names an Ingress and the dialect of its class.
type IngressRef struct {
	// ClassType is the dialect of annotations; none, or an empty one, means nginx.
	ClassType *string
	Name      string
}

// GatewayRef names routes of the Gateway API.
type GatewayRef struct {
	HTTPRouteName *string
}

// RouteMatch selects requests; all of its parts must match. The shapes are
// those of the Gateway API, as the wire has them.
type RouteMatch struct {
	Path        *PathMatch
	Headers     []ValueMatch
	QueryParams []ValueMatch
}

// PathMatch selects requests by path.
type PathMatch struct {
	Type  *string
	Value *string
}

// ValueMatch selects requests by the value of a header or query parameter.
type ValueMatch struct {
	Type  *string
	Name  string
	Value string
}

// HeaderModifier rewrites request headers.
type HeaderModifier struct {
	Set    []Header
	Add    []Header
	Remove []string
}

// Header is a name and its value.
type Header struct {
	Name  string
	Value string
}
