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

// httpRoute names the HTTPRoute.
func (r *routes) httpRoute(name string) {
	switch {
	case name == "":
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

// routers are those that were found, by kind and name.
func (r *routes) routers() []string {
	var all []string
	if r.ref.Ingress != nil {
		all = append(all, "Ingress "+r.ref.Ingress.Name)
	}
	if r.ref.Gateway != nil {
		all = append(all, "HTTPRoute "+*r.ref.Gateway.HTTPRouteName)
	}
	for _, ref := range r.ref.CustomNetworkRefs {
		all = append(all, ref.Kind+" "+ref.Name)
	}
	return all
}

// found reports whether anything routes to the Service.
func (r *routes) found() bool {
	return len(r.routers()) > 0
}

// into sets the routes of a release, and reports whether it has any.
func (r *routes) into(release *v1beta1.Release) bool {
	switch {
	case r.found() && r.ref.Service == "":
		r.note(0, "trafficRouting: %s: name the Service, too, in trafficRoutings", strings.Join(r.routers(), ", "))
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

// argoRouters are the fields of trafficRouting that name routers.
var argoRouters = []struct {
	path []string
	add  func(r *routes, name string)
}{
	{[]string{"nginx", "stableIngress"}, ingressOf("nginx")},
	{[]string{"nginx", "stableIngresses"}, ingressOf("nginx")},
	{[]string{"alb", "ingress"}, ingressOf("aws-alb")},
	{[]string{"alb", "ingresses"}, ingressOf("aws-alb")},
	{[]string{"istio", "virtualService"}, customOf(istio, "VirtualService")},
	{[]string{"istio", "virtualServices"}, customOf(istio, "VirtualService")},
	{[]string{"istio", "destinationRule"}, customOf(istio, "DestinationRule")},
	{[]string{"traefik", "weightedTraefikServiceName"}, customOf(traefik, "TraefikService")},
	{[]string{"plugins", "argoproj-labs/gatewayAPI", "httpRoute"}, (*routes).httpRoute},
	{[]string{"plugins", "argoproj-labs/gatewayAPI", "httpRoutes"}, (*routes).httpRoute},
	{[]string{"plugins", "argoproj-labs/gatewayAPI", "grpcRoute"}, customOf(gateway, "GRPCRoute")},
	{[]string{"plugins", "argoproj-labs/gatewayAPI", "grpcRoutes"}, customOf(gateway, "GRPCRoute")},
	{[]string{"managedRoutes"}, func(*routes, string) {}}, // what setHeaderRoute makes
}

func ingressOf(class string) func(*routes, string) {
	return func(r *routes, name string) { r.ingress(class, name) }
}

func customOf(apiVersion, kind string) func(*routes, string) {
	return func(r *routes, name string) { r.custom(apiVersion, kind, name) }
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
	for _, router := range argoRouters {
		for _, name := range s.names("spec.strategy.canary.trafficRouting", routing, router.path...) {
			router.add(r, name)
		}
	}
	text(routing, "plugins", "argoproj-labs/gatewayAPI", "namespace") // that of the Rollout, or none can be named
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
		r.httpRoute(service)
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
