// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/traffic"
)

// Routers that Weir edits in place.

const (
	kindHTTPRoute      kind = "httproute"
	kindVirtualService kind = "virtualservice"
	kindGRPCRoute      kind = "grpcroute"
	kindTraefikService kind = "traefikservice"
)

func kindOf(name string) kind { return kind(strings.ToLower(name)) }

// inPlaceRouter is a kind of router that Weir edits in place.
type inPlaceRouter struct {
	api, kind string
	// rulesField and backendsField are the field names of the rules, and of the backends of a rule.
	rulesField, backendsField string
	// newBackend returns a backend for a Service.
	newBackend func(service string) map[string]any
	// otherFields returns the other fields of the spec.
	otherFields func() map[string]any
}

var inPlaceRouters = map[kind]inPlaceRouter{
	kindHTTPRoute: {
		"gateway.networking.k8s.io/v1", "HTTPRoute", "rules", "backendRefs",
		func(service string) map[string]any { return map[string]any{"name": service, "port": int64(80)} },
		func() map[string]any {
			return map[string]any{"parentRefs": []any{map[string]any{"name": "edge"}}}
		},
	},
	kindGRPCRoute: {
		"gateway.networking.k8s.io/v1", "GRPCRoute", "rules", "backendRefs",
		func(service string) map[string]any { return map[string]any{"name": service, "port": int64(80)} },
		func() map[string]any {
			return map[string]any{"parentRefs": []any{map[string]any{"name": "edge"}}}
		},
	},
	kindTraefikService: {
		"traefik.io/v1alpha1", "TraefikService", "weighted", "services",
		func(service string) map[string]any { return map[string]any{"name": service, "port": int64(80)} },
		func() map[string]any { return map[string]any{} },
	},
	kindVirtualService: {
		"networking.istio.io/v1", "VirtualService", "http", "route",
		func(service string) map[string]any {
			return map[string]any{"destination": map[string]any{"host": service}}
		},
		func() map[string]any { return map[string]any{"hosts": []any{"*"}} },
	},
}

// spec returns the spec that the owner writes: one rule for each Service.
func (p inPlaceRouter) spec(services ...string) map[string]any {
	spec := p.otherFields()
	var rules []any
	for _, service := range services {
		rules = append(rules, map[string]any{p.backendsField: []any{p.newBackend(service)}})
	}
	if spec[p.rulesField] = rules; p.rulesField == "weighted" {
		spec[p.rulesField] = rules[0] // a TraefikService has one rule instead of a list
	}
	return spec
}

// routingBy returns a reference to a router with the name of the Service.
func routingBy(k kind, service string, grace time.Duration) []rollouts.TrafficRoutingRef {
	ref := rollouts.TrafficRoutingRef{Service: service, GracePeriodSeconds: int32(grace / time.Second)}
	switch p := inPlaceRouters[k]; k {
	case kindIngress:
		ref.Ingress = &rollouts.IngressRef{Name: service}
	case kindHTTPRoute:
		ref.Gateway = &rollouts.GatewayRef{HTTPRouteName: &service}
	default:
		ref.CustomNetworkRefs = []rollouts.ObjectRef{{APIVersion: p.api, Kind: p.kind, Name: service}}
	}
	return []rollouts.TrafficRoutingRef{ref}
}

// createRouter creates a router in front of a Service.
func (w *world) createRouter(k kind, name string) {
	p := inPlaceRouters[k]
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": p.api, "kind": p.kind, "spec": p.spec(name)}}
	u.SetName(name)
	w.runAs("user", func() error { return w.store.create(u) })
}

// cachedRouter returns a router from the cache.
func (w *world) cachedRouter(r *traffic.Router) *unstructured.Unstructured {
	k := kindOf(r.Kind.Kind)
	return find[*unstructured.Unstructured](w.view(k), k, r.Name)
}

// typedIngress converts an unstructured Ingress to the typed Ingress that the world stores.
func typedIngress(o object.Object) object.Object {
	u, ok := o.(*unstructured.Unstructured)
	if !ok || keyOf(u).kind != kindIngress {
		return o
	}
	in := &networkingv1.Ingress{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, in); err != nil {
		panic(err)
	}
	return in
}

func setStatus(o, from *unstructured.Unstructured) {
	if status, has := from.Object["status"]; has {
		o.Object["status"] = status
	} else {
		delete(o.Object, "status")
	}
}

// routersInPlace returns the routers that Weir edits in place, optionally only those with a name.
func (w *world) routersInPlace(name string) []*unstructured.Unstructured {
	return slices.DeleteFunc(listOf[*unstructured.Unstructured](w.store.objects), func(u *unstructured.Unstructured) bool {
		return name != "" && u.GetName() != name
	})
}

// backend is one destination of a rule: a Service and its weight.
type backend struct {
	at     map[string]any
	to     string
	weight int64
	// first reports whether it is the first backend of its rule.
	first bool
}

// listBackends returns the backends of all rules in order.
func (p inPlaceRouter) listBackends(u *unstructured.Unstructured) []backend {
	var all []backend
	rules, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", p.rulesField)
	if rule, one := rules.(map[string]any); one {
		rules = []any{rule}
	}
	for _, rule := range rules.([]any) {
		ways, _ := rule.(map[string]any)[p.backendsField].([]any)
		for i, e := range ways {
			at := e.(map[string]any)
			to, _ := at["name"].(string)
			if d, ok := at["destination"].(map[string]any); ok {
				to = fmt.Sprint(d["host"])
				if subset, ok := d["subset"]; ok {
					to += " " + fmt.Sprint(subset)
				}
			}
			weight, has := at["weight"].(int64)
			if !has && len(ways) == 1 {
				weight = 1
			}
			all = append(all, backend{at, to, weight, i == 0})
		}
	}
	return all
}

// listRouterTargets returns the revisions that routers edited in place send requests to.
func (c *invariants) listRouterTargets() []routeTarget {
	var out []routeTarget
	for _, u := range c.w.routersInPlace("") {
		for _, way := range inPlaceRouters[keyOf(u).kind].listBackends(u) {
			service, _, subset := strings.Cut(way.to, " ")
			hash := c.revisionUnderRelease()
			switch svc := find[*corev1.Service](c.w.store.objects, kindService, service); {
			case way.weight == 0, !subset && service != canaryName(service):
				continue
			case !subset && svc == nil:
				hash = ""
			case !subset:
				hash = pinnedRevision(svc)
			}
			out = append(out, routeTarget{fmt.Sprintf("%s sends requests to %s, revision %q", u.GetKind(), way.to, hash), hash, c.countReadyPodsOf(hash)})
		}
	}
	return out
}

func (t *transcript) showRoutes() {
	for _, u := range t.w.routersInPlace("") {
		var words []string
		for _, way := range inPlaceRouters[keyOf(u).kind].listBackends(u) {
			word := way.to
			if _, has := way.at["weight"]; has {
				word += fmt.Sprintf(" %d", way.weight)
			}
			if way.first && len(words) > 0 {
				word = "| " + word
			}
			words = append(words, word)
		}
		line := strings.ReplaceAll(strings.Join(words, ", "), ", |", " |")
		if owner := u.GetLabels()["owner"]; owner != "" {
			line += ", label " + owner
		}
		t.printUnder("route", "%s to %s", u.GetName(), line)
	}
}
