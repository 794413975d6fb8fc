// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Row is one kind of router, or one class of Ingress.
type Row struct {
	Kind  schema.GroupKind
	Class string
	Provider
	// Fixed rows win over a script of the user, as in OpenKruise.
	Fixed bool
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
	// subsetCanary names the pods of the update revision where one Service serves both.
	subsetCanary = "canary"
)

// Table is every kind of router that needs no script.
var Table = []Row{
	{Kind: kindIngress, Class: classNginx, Provider: canaryIngress{nginx.render}},
	{Kind: kindIngress, Class: aliyunALB.name, Provider: canaryIngress{aliyunALB.render}},
	{Kind: kindIngress, Class: mse.name, Provider: canaryIngress{mse.render}},
	{Kind: kindIngress, Class: higress.name, Provider: canaryIngress{higress.render}},
	{Kind: kindIngress, Class: classAWSALB, Provider: inPlace{edit: awsALB, limits: weightsOnly("an ALB of AWS"), annotations: albActions}},
	{Kind: kindHTTPRoute, Provider: inPlace{edit: httpRoute.edit, accepted: accepted, strip: strip}},
	{Kind: kindGRPCRoute, Provider: inPlace{edit: grpcRoute.edit, accepted: accepted}},
	{Kind: kindVirtualService, Fixed: true, Provider: inPlace{edit: virtualService}},
	{Kind: kindDestinationRule, Fixed: true, Provider: inPlace{edit: destinationRule, mark: subsetCanary}},
	{Kind: kindTraefikService, Provider: inPlace{edit: traefikService, limits: weightsOnly("a TraefikService")}},
}

// find returns the provider of a router. The error names the field that asks for
// what cannot be done; the provider can restore then, and no more.
func find(r Router) (Provider, error) {
	provider, err := lookUp(r)
	if err != nil {
		return unable(r, err), err
	}
	return provider, nil
}

func lookUp(r Router) (Provider, error) {
	if r.Absent != "" {
		return nil, fmt.Errorf("%s: %s", r.Field, r.Absent)
	}
	var classes []string
	for _, row := range Table {
		switch {
		case row.Kind != r.Kind:
		case row.Class == r.Class && (row.Fixed || r.Script == ""):
			return row.Provider, nil
		default:
			classes = append(classes, row.Class)
		}
	}
	if r.Script != "" {
		return scripted(r), nil
	}
	if r.Ingress() {
		return nil, fmt.Errorf("%s.classType: %q is not known; use %s, or bring a script as %s", r.Field, r.Class, strings.Join(classes, ", "), r.ScriptKey())
	}
	return nil, fmt.Errorf("%s: %s cannot be routed without a script; bring one as %s", r.Field, r.Kind, r.ScriptKey())
}
