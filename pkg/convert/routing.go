// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// These are the API versions of the supported routers.
const (
	istio   = "networking.istio.io/v1"
	traefik = "traefik.io/v1alpha1"
	gateway = "gateway.networking.k8s.io/v1"
)

// trafficRoutes collects the Service and its routers from a source.
type trafficRoutes struct {
	*manifestSource
	ref v1beta1.TrafficRoutingRef
}

// addIngress adds the Ingress in front of the Service.
func (r *trafficRoutes) addIngress(class, name string) {
	switch {
	case name == "":
	case r.ref.Ingress != nil:
		r.addNote(0, "a second Ingress: %s", name)
	default:
		r.ref.Ingress = &v1beta1.IngressRef{Name: name}
		if class != "nginx" {
			r.ref.Ingress.ClassType = &class
		}
	}
}

// addHTTPRoute adds the HTTPRoute.
func (r *trafficRoutes) addHTTPRoute(name string) {
	switch {
	case name == "":
	case r.ref.Gateway != nil:
		r.addNote(0, "a second HTTPRoute: %s", name)
	default:
		r.ref.Gateway = &v1beta1.GatewayRef{HTTPRouteName: &name}
	}
}

// addCustomRouter adds a router of another kind.
func (r *trafficRoutes) addCustomRouter(apiVersion, kind, name string) {
	ref := v1beta1.ObjectRef{APIVersion: apiVersion, Kind: kind, Name: name}
	if name != "" && !slices.Contains(r.ref.CustomNetworkRefs, ref) {
		r.ref.CustomNetworkRefs = append(r.ref.CustomNetworkRefs, ref)
	}
}

// listRouters returns the kinds and names of the routers.
func (r *trafficRoutes) listRouters() []string {
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

// hasRouters reports whether there is at least one router.
func (r *trafficRoutes) hasRouters() bool {
	return len(r.listRouters()) > 0
}

// setRouting sets the traffic routing of a release, and reports whether the release has any.
func (r *trafficRoutes) setRouting(release *v1beta1.Release) bool {
	switch {
	case r.hasRouters() && r.ref.Service == "":
		r.addNote(0, "trafficRouting: %s: name the Service, too, in trafficRoutings", strings.Join(r.listRouters(), ", "))
	case r.hasRouters():
		release.TrafficRoutings = []v1beta1.TrafficRoutingRef{r.ref}
		return true
	case r.ref.Service != "":
		r.addNote(0, "Service %s: name what routes to it in trafficRoutings", r.ref.Service)
	}
	return false
}

// noteCanaryService adds a note about the canary Service, which Weir creates itself.
func (r *trafficRoutes) noteCanaryService(canary string) {
	if canary != "" && canary != r.ref.Service+"-canary" {
		r.addNote(0, "Service %s: Weir makes %s-canary itself; delete this one", canary, r.ref.Service)
	}
}

// argoRouters are the fields of trafficRouting that name routers.
var argoRouters = []struct {
	path []string
	add  func(r *trafficRoutes, name string)
}{
	{[]string{"nginx", "stableIngress"}, addIngressOfClass("nginx")},
	{[]string{"nginx", "stableIngresses"}, addIngressOfClass("nginx")},
	{[]string{"alb", "ingress"}, addIngressOfClass("aws-alb")},
	{[]string{"alb", "ingresses"}, addIngressOfClass("aws-alb")},
	{[]string{"istio", "virtualService"}, addCustomOfKind(istio, "VirtualService")},
	{[]string{"istio", "virtualServices"}, addCustomOfKind(istio, "VirtualService")},
	{[]string{"istio", "destinationRule"}, addCustomOfKind(istio, "DestinationRule")},
	{[]string{"traefik", "weightedTraefikServiceName"}, addCustomOfKind(traefik, "TraefikService")},
	{[]string{"plugins", "argoproj-labs/gatewayAPI", "httpRoute"}, (*trafficRoutes).addHTTPRoute},
	{[]string{"plugins", "argoproj-labs/gatewayAPI", "httpRoutes"}, (*trafficRoutes).addHTTPRoute},
	{[]string{"plugins", "argoproj-labs/gatewayAPI", "grpcRoute"}, addCustomOfKind(gateway, "GRPCRoute")},
	{[]string{"plugins", "argoproj-labs/gatewayAPI", "grpcRoutes"}, addCustomOfKind(gateway, "GRPCRoute")},
	{[]string{"managedRoutes"}, func(*trafficRoutes, string) {}}, // the routes that setHeaderRoute creates
}

func addIngressOfClass(class string) func(*trafficRoutes, string) {
	return func(r *trafficRoutes, name string) { r.addIngress(class, name) }
}

func addCustomOfKind(apiVersion, kind string) func(*trafficRoutes, string) {
	return func(r *trafficRoutes, name string) { r.addCustomRouter(apiVersion, kind, name) }
}

// convertArgoRouting converts the Services and routers of Argo, and reports whether requests are routed.
func convertArgoRouting(s *manifestSource, canary map[string]any, release *v1beta1.Release) bool {
	r := &trafficRoutes{manifestSource: s}
	r.ref.Service = takeText(canary, "stableService")
	r.noteCanaryService(takeText(canary, "canaryService"))
	routing := getChild(canary, "trafficRouting")
	if r.ref.Service == "" {
		r.ref.Service = takeText(routing, "alb", "rootService")
	}
	for _, router := range argoRouters {
		for _, name := range s.takeNames("spec.strategy.canary.trafficRouting", routing, router.path...) {
			router.add(r, name)
		}
	}
	takeText(routing, "plugins", "argoproj-labs/gatewayAPI", "namespace") // Weir supports only routes in the Rollout's namespace
	return r.setRouting(release)
}

// convertFlaggerRouting converts the Service and its routers, which Flagger creates itself.
func convertFlaggerRouting(s *manifestSource, spec map[string]any, workload string, release *v1beta1.Release) {
	r := &trafficRoutes{manifestSource: s}
	service := cmp.Or(takeText(spec, "service", "name"), workload)
	r.ref.Service = service
	r.addIngress("nginx", takeText(spec, "ingressRef", "name"))
	delete(getChild(spec, "ingressRef"), "apiVersion") // always that of Ingresses
	delete(getChild(spec, "ingressRef"), "kind")
	provider := takeText(spec, "provider")
	switch kind, _, _ := strings.Cut(provider, ":"); kind {
	case "gatewayapi":
		r.addHTTPRoute(service)
	case "istio":
		r.addCustomRouter(istio, "VirtualService", service)
	case "traefik":
		r.addCustomRouter(traefik, "TraefikService", service)
	case "", "nginx", "kubernetes":
	default:
		s.addNote(0, "spec.provider: %s", provider)
	}
	s.addNote(0, "spec.service: Flagger makes Services and routes of %s; write them down before it is removed", service)
	if r.hasRouters() {
		r.setRouting(release)
	}
}
