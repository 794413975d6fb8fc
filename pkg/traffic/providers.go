// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ProviderEntry is the provider for one kind of router, or for one class of Ingress.
type ProviderEntry struct {
	Kind  schema.GroupKind
	Class string
	Provider
	// IgnoresScripts reports whether the provider takes precedence over a user's script, as in
	// OpenKruise.
	IgnoresScripts bool
}

var (
	kindIngress   = schema.GroupKind{Group: "networking.k8s.io", Kind: "Ingress"}
	kindHTTPRoute = schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute"}
	kindGRPCRoute = schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: "GRPCRoute"}

	kindVirtualService  = schema.GroupKind{Group: "networking.istio.io", Kind: "VirtualService"}
	kindDestinationRule = schema.GroupKind{Group: "networking.istio.io", Kind: "DestinationRule"}

	kindTraefikService = schema.GroupKind{Group: "traefik.io", Kind: "TraefikService"}
)

const (
	classNginx  = "nginx"
	classAWSALB = "aws-alb"
	// subsetCanary is the name of the subset with the pods of the canary revision. It is used if
	// one Service serves both revisions.
	subsetCanary = "canary"
)

// Providers are the built-in providers, which need no script.
var Providers = []ProviderEntry{
	{Kind: kindIngress, Class: classNginx, Provider: canaryIngress{nginx.render}},
	{Kind: kindIngress, Class: aliyunALB.name, Provider: canaryIngress{aliyunALB.render}},
	{Kind: kindIngress, Class: mse.name, Provider: canaryIngress{mse.render}},
	{Kind: kindIngress, Class: higress.name, Provider: canaryIngress{higress.render}},
	{Kind: kindIngress, Class: classAWSALB, Provider: inPlace{edit: addALBRoute, checkKind: checkWeightsOnly("an ALB of AWS"), annotationPrefix: albActions}},
	{Kind: kindHTTPRoute, Provider: inPlace{edit: httpRoute.edit, readStatus: readRouteConditions, stripLegacyRoute: stripCanaryBackends}},
	{Kind: kindGRPCRoute, Provider: inPlace{edit: grpcRoute.edit, readStatus: readRouteConditions}},
	{Kind: kindVirtualService, IgnoresScripts: true, Provider: inPlace{edit: addVirtualServiceRoute}},
	{Kind: kindDestinationRule, IgnoresScripts: true, Provider: inPlace{edit: addCanarySubset, routeMarker: subsetCanary}},
	{Kind: kindTraefikService, Provider: inPlace{edit: addTraefikWeights, checkKind: checkWeightsOnly("a TraefikService")}},
}

// findProvider returns the provider of a router. If there is an error, it names the field that asks
// for an unsupported router, and the provider can only restore.
func findProvider(r Router) (Provider, error) {
	provider, err := lookUpProvider(r)
	if err != nil {
		return restoreOnlyProvider(r, err), err
	}
	return provider, nil
}

func lookUpProvider(r Router) (Provider, error) {
	if r.Unavailable != "" {
		return nil, fmt.Errorf("%s: %s", r.Field, r.Unavailable)
	}
	var classes []string
	for _, row := range Providers {
		switch {
		case row.Kind != r.Kind:
		case row.Class == r.Class && (row.IgnoresScripts || r.Script == ""):
			return row.Provider, nil
		default:
			classes = append(classes, row.Class)
		}
	}
	if r.Script != "" {
		return scriptProvider(r), nil
	}
	if r.IsIngress() {
		return nil, fmt.Errorf("%s.classType: %q is not known; use %s, or add a Lua script under the key %s", r.Field, r.Class, strings.Join(classes, ", "), r.ScriptKey())
	}
	return nil, fmt.Errorf("%s: Weir has no built-in support for %s; add a Lua script under the key %s", r.Field, r.Kind, r.ScriptKey())
}
