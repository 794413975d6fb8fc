// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// These are the API versions of the supported routers.
const (
	istio   = "networking.istio.io/v1"
	traefik = "traefik.io/v1alpha1"
	gateway = "gateway.networking.k8s.io/v1"
)

// unroutedBlueGreen is the hint about a blue-green release that switches the selector of a Service.
const unroutedBlueGreen = "without trafficRoutings, new pods get requests as soon as they are ready, also before an approval"

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
		r.addNote(0, "Ingress %s: a Rollout routes by one Ingress, which is %s", name, r.ref.Ingress.Name)
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
		r.addNote(0, "HTTPRoute %s: a Rollout routes by one HTTPRoute, which is %s", name, *r.ref.Gateway.HTTPRouteName)
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
		r.addNote(0, "trafficRouting: %s: the source names no stable Service; add trafficRoutings with the Service and these routers", strings.Join(r.listRouters(), ", "))
	case r.hasRouters():
		release.TrafficRoutings = []v1beta1.TrafficRoutingRef{r.ref}
		return true
	case r.ref.Service != "":
		r.addNote(0, "Service %s: the source names no router; add trafficRoutings with the Service and the Ingress, HTTPRoute or VirtualService in front of it", r.ref.Service)
	}
	return false
}

// noteCanaryService adds a note about the canary Service. Weir creates its own for each release, and the release
// cannot start while a Service of that name exists.
func (r *trafficRoutes) noteCanaryService(canary string, isRouted bool) {
	switch {
	case canary == "":
	case isRouted && canary == r.canaryService():
		r.addHint(0, "Service %s: Weir creates a Service of this name for each release: delete this one before the first release, or the release cannot start", canary)
	case isRouted:
		r.addHint(0, "Service %s: Weir does not use it, and creates %s for each release: delete this one when Argo Rollouts is gone", canary, r.canaryService())
	default:
		r.addHint(0, "Service %s: Weir does not use it: delete it when Argo Rollouts is gone", canary)
	}
}

// canaryService returns the name of the Service that Weir creates for a release.
func (r *trafficRoutes) canaryService() string { return r.ref.Service + "-canary" }

// canaryServices maps the canary Services of Argo's Rollouts, as namespace/name, to those that Weir creates.
type canaryServices map[string]string

// collect adds the canary Service of a Rollout.
func (c canaryServices) collect(rollout *unstructured.Unstructured) {
	strategy := getChild(rollout.DeepCopy().Object, "spec", "strategy")
	for _, fields := range [][]string{{"canary", "canaryService", "stableService"}, {"blueGreen", "previewService", "activeService"}} {
		of := getChild(strategy, fields[0])
		canary, stable := takeText(of, fields[1]), takeText(of, fields[2])
		if canary != "" && stable != "" {
			c[rollout.GetNamespace()+"/"+canary] = stable + "-canary"
		}
	}
}

// rename replaces the names of Argo's canary Services in a text. It returns the names that it replaced.
func (c canaryServices) rename(namespace, text string) (renamed string, names []string) {
	for _, key := range sortedKeys(c) {
		of, name, _ := strings.Cut(key, "/")
		if of != namespace || name == c[key] {
			continue
		}
		if changed := replaceName(text, name, c[key]); changed != text {
			text, names = changed, append(names, name)
		}
	}
	return text, names
}

// replaceName replaces the name of an object in a text, but no part of a longer name.
func replaceName(text, name, by string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, name)
		if !found {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(before)
		if isInName(lastByte(b.String())) || after != "" && isInName(after[0]) {
			b.WriteString(name)
		} else {
			b.WriteString(by)
		}
		text = after
	}
}

// lastByte returns the last byte of a text; a space if it is empty.
func lastByte(text string) byte {
	if text == "" {
		return ' '
	}
	return text[len(text)-1]
}

// isInName reports whether a byte may be in the name of a Service.
func isInName(b byte) bool {
	return b == '-' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
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
	canaryService := takeText(canary, "canaryService")
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
	isRouted := r.setRouting(release)
	r.noteCanaryService(canaryService, isRouted)
	return isRouted
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
	s.addHint(0, "Service %s and its routes: Flagger created them, and they go when the Canary goes: write manifests of them before", service)
	if !r.hasRouters() {
		return
	}
	r.setRouting(release)
	clash := "Service " + r.canaryService()
	if r.ref.Ingress != nil {
		clash += ", Ingress " + r.ref.Ingress.Name + "-canary"
	}
	s.addHint(0, "%s: Weir creates objects of these names for each release: those of Flagger must be gone before the first release, or it cannot start", clash)
}
