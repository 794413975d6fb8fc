// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// The versions of routers that are named.
const (
	istio   = "networking.istio.io/v1"
	traefik = "traefik.io/v1alpha1"
	gateway = "gateway.networking.k8s.io/v1"
)

// routes are a Service and what routes to it, as they are found in a source.
type routes struct {
	*source
	ref v1beta1.TrafficRoutingRef
}

// ingress names the Ingress in front of the Service.
func (r *routes) ingress(class, name string) {
	switch {
	case name == "":
	case r.ref.Ingress != nil:
		r.note(0, "a second Ingress: %s", name)
	default:
		r.ref.Ingress = &v1beta1.IngressRef{Name: name}
		if class != "nginx" {
			r.ref.Ingress.ClassType = &class
		}
	}
}

// route names a route of the Gateway API.
func (r *routes) route(kind, name string) {
	switch {
	case name == "":
	case kind != "HTTPRoute":
		r.custom(gateway, kind, name)
	case r.ref.Gateway != nil:
		r.note(0, "a second HTTPRoute: %s", name)
	default:
		r.ref.Gateway = &v1beta1.GatewayRef{HTTPRouteName: &name}
	}
}

// custom names a router that is no Ingress and no HTTPRoute.
func (r *routes) custom(apiVersion, kind, name string) {
	ref := v1beta1.ObjectRef{APIVersion: apiVersion, Kind: kind, Name: name}
	if name != "" && !slices.Contains(r.ref.CustomNetworkRefs, ref) {
		r.ref.CustomNetworkRefs = append(r.ref.CustomNetworkRefs, ref)
	}
}

// found reports whether anything routes to the Service.
func (r *routes) found() bool {
	return r.ref.Ingress != nil || r.ref.Gateway != nil || len(r.ref.CustomNetworkRefs) > 0
}

// into sets the routes of a release, and reports whether it has any.
func (r *routes) into(release *v1beta1.Release) bool {
	switch {
	case r.found() && r.ref.Service == "":
		r.note(0, "trafficRouting: no Service is named: add trafficRoutings with that of the stable pods")
	case r.found():
		release.TrafficRoutings = []v1beta1.TrafficRoutingRef{r.ref}
		return true
	case r.ref.Service != "":
		r.note(0, "Service %s: name what routes to it in trafficRoutings", r.ref.Service)
	}
	return false
}

// replaced says of the Service of new pods that Weir makes one itself.
func (r *routes) replaced(canary string) {
	if canary != "" && canary != r.ref.Service+"-canary" {
		r.note(0, "Service %s: Weir makes %s-canary itself; delete this one", canary, r.ref.Service)
	}
}

// argoRouting takes Services and routers, and reports whether requests are routed.
func argoRouting(s *source, canary map[string]any, release *v1beta1.Release) bool {
	r := &routes{source: s}
	r.ref.Service = text(canary, "stableService")
	r.replaced(text(canary, "canaryService"))
	routing := child(canary, "trafficRouting")
	if r.ref.Service == "" {
		r.ref.Service = text(routing, "alb", "rootService")
	}
	r.ingress("nginx", text(routing, "nginx", "stableIngress"))
	for _, name := range list(routing, "nginx", "stableIngresses") {
		r.ingress("nginx", name)
	}
	r.ingress("aws-alb", text(routing, "alb", "ingress"))
	for _, name := range list(routing, "alb", "ingresses") {
		r.ingress("aws-alb", name)
	}
	r.custom(istio, "VirtualService", text(routing, "istio", "virtualService", "name"))
	for _, service := range objects(routing, "istio", "virtualServices") {
		r.custom(istio, "VirtualService", text(service, "name"))
		s.left(0, "spec.strategy.canary.trafficRouting.istio.virtualServices", service)
	}
	r.custom(istio, "DestinationRule", text(routing, "istio", "destinationRule", "name"))
	r.custom(traefik, "TraefikService", text(routing, "traefik", "weightedTraefikServiceName"))
	plugin := child(routing, "plugins", "argoproj-labs/gatewayAPI")
	text(plugin, "namespace") // that of the Rollout, or none can be named
	for _, kind := range []string{"HTTPRoute", "GRPCRoute"} {
		field := strings.ToLower(kind[:4]) + kind[4:]
		r.route(kind, text(plugin, field))
		for _, route := range objects(plugin, field+"s") {
			r.route(kind, text(route, "name"))
			s.left(0, "spec.strategy.canary.trafficRouting.plugins", route)
		}
	}
	for _, route := range objects(routing, "managedRoutes") {
		text(route, "name") // of what setHeaderRoute makes
		s.left(0, "spec.strategy.canary.trafficRouting.managedRoutes", route)
	}
	return r.into(release)
}

// flaggerRouting names the Service, and what routes to it. Both are made by Flagger.
func flaggerRouting(s *source, spec map[string]any, workload string, release *v1beta1.Release) {
	r := &routes{source: s}
	service := cmp.Or(text(spec, "service", "name"), workload)
	r.ref.Service = service
	r.ingress("nginx", text(spec, "ingressRef", "name"))
	delete(child(spec, "ingressRef"), "apiVersion") // of an Ingress
	delete(child(spec, "ingressRef"), "kind")
	provider := text(spec, "provider")
	switch kind, _, _ := strings.Cut(provider, ":"); kind {
	case "gatewayapi":
		r.route("HTTPRoute", service)
	case "istio":
		r.custom(istio, "VirtualService", service)
	case "traefik":
		r.custom(traefik, "TraefikService", service)
	case "", "nginx", "kubernetes":
	default:
		s.note(0, "spec.provider: %s", provider)
	}
	s.note(0, "spec.service: Flagger makes Services and routes of %s; write them down before it is removed", service)
	if r.found() {
		r.into(release)
	}
}
