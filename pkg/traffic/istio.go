// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Istio evaluates the rules of a VirtualService in order, and the first rule that matches decides.
// A route distinguishes revisions by the destination Service or, if one Service serves both
// revisions, by a subset of its pods.

// The subset selects pods by the label that OpenKruise sets on pods of the canary revision.
const (
	labelSubset      = "istio.service.tag"
	labelSubsetValue = "gray"
)

var virtualMatcher = matcher{field: "match", check: checkNotEmpty, path: joinURI, values: joinNamedValues}

// istioTypes are Istio's fields for matching a string, by the match types of a step.
var istioTypes = map[string]string{matchPrefix: "prefix", matchExact: "exact", matchPattern: "regex"}

// addVirtualServiceRoute adds a route to the original of a VirtualService.
func addVirtualServiceRoute(d Data, p Params) (Data, error) {
	found := false
	for _, key := range []string{"http", "tcp", "tls"} {
		rules := mapElements(d.Spec[key])
		if !slices.ContainsFunc(rules, p.routesToStable) {
			continue
		}
		found = true
		all, err := p.virtualServiceRules(key, rules)
		if err != nil {
			return Data{}, err
		}
		d.Spec[key] = toAnySlice(all)
	}
	switch {
	case !found:
		return Data{}, fmt.Errorf("no rule of spec has Service %s as destination; add one, or correct trafficRoutings", p.StableService)
	case len(p.Matches) > 0 && !slices.ContainsFunc(mapElements(d.Spec["http"]), p.routesToStable):
		return Data{}, errors.New("no rule of spec.http has the Service as destination, and matches apply to http only")
	}
	return d, nil
}

// virtualServiceRules returns the rules of a protocol with their weights. The additional rules for
// matches precede the rule that they are derived from. Only http rules support matches. The last
// match of the step comes first, as in OpenKruise.
func (p Params) virtualServiceRules(key string, rules []map[string]any) (all []map[string]any, err error) {
	matches := make([][][]map[string]any, len(rules))
	if key == "http" {
		matches, err = virtualMatcher.joinRules(p, rules, p.routesToStable, slices.Backward(p.Matches))
	} else if p.Headers != nil && p.Weight != nil {
		err = fmt.Errorf("requestHeaderModifier: rules of spec.%s have no headers", key)
	}
	if err != nil {
		return nil, err
	}
	for i, rule := range rules {
		for _, m := range matches[i] {
			all = append(all, p.canaryMatchRule(rule, m))
		}
		if p.Weight != nil && p.routesToStable(rule) {
			p.splitRouteWeight(rule)
		}
		all = append(all, rule)
	}
	return all, nil
}

// routesToStable reports whether a rule sends requests to the stable Service.
func (p Params) routesToStable(rule map[string]any) bool {
	return slices.ContainsFunc(mapElements(rule["route"]), p.isStableDestination)
}

func (p Params) isStableDestination(route map[string]any) bool {
	host := stringField(childMap(route, "destination"), "host", "")
	own := p.StableService + "." + p.Namespace
	return host == p.StableService || host == own || strings.HasPrefix(host, own+".")
}

// canaryRoute returns a copy of a rule's first destination with the stable Service, changed to the
// canary revision.
func (p Params) canaryRoute(routes []map[string]any) map[string]any {
	route := runtime.DeepCopyJSON(routes[slices.IndexFunc(routes, p.isStableDestination)])
	to := childMap(route, "destination")
	to["host"] = p.CanaryService + strings.TrimPrefix(stringField(to, "host", ""), p.StableService)
	delete(to, "subset")
	if p.CanaryService == p.StableService {
		to["subset"] = subsetCanary
	}
	delete(route, "weight")
	return route
}

// splitRouteWeight moves the canary weight from the stable destinations of a rule to the canary
// one. The weights of other destinations keep their proportions. Weights are divided by 100 at the
// end if all of them stay whole numbers.
func (p Params) splitRouteWeight(rule map[string]any) {
	routes := mapElements(rule["route"])
	without := !slices.ContainsFunc(routes, func(r map[string]any) bool { return intField(r, "weight", 0) > 0 })
	canary := p.canaryRoute(routes)
	addIstioHeaders(canary, p.Headers)
	var part int64
	for _, route := range routes {
		parts := intField(route, "weight", 0)
		if len(routes) == 1 {
			parts = 100
		} else if without {
			parts = 1
		}
		route["weight"] = parts * 100
		if p.isStableDestination(route) {
			route["weight"] = parts * (100 - int64(*p.Weight))
			part += parts * int64(*p.Weight)
		}
	}
	canary["weight"] = part
	routes = append(routes, canary)
	if !slices.ContainsFunc(routes, func(r map[string]any) bool { return intField(r, "weight", 0)%100 != 0 }) {
		for _, route := range routes {
			route["weight"] = intField(route, "weight", 0) / 100
		}
	}
	rule["route"] = toAnySlice(routes)
}

// canaryMatchRule returns a copy of a rule that sends matching requests to the canary revision
// only.
func (p Params) canaryMatchRule(rule map[string]any, matches []map[string]any) map[string]any {
	narrow := runtime.DeepCopyJSON(rule)
	delete(narrow, "name")
	narrow["match"] = toAnySlice(matches)
	narrow["route"] = []any{p.canaryRoute(mapElements(narrow["route"]))}
	addIstioHeaders(narrow, p.Headers)
	return narrow
}

// addIstioHeaders adds a change of request headers to a rule or to one of its destinations.
func addIstioHeaders(of map[string]any, h *rollouts.HeaderModifier) {
	if h == nil {
		return
	}
	headers := childMap(of, "headers")
	if headers == nil {
		headers = map[string]any{}
	}
	request, names := childMap(headers, "request"), headerNames(h)
	next := map[string]any{}
	for key, ours := range map[string][]rollouts.Header{"set": h.Set, "add": h.Add} {
		values := map[string]any{}
		for name, value := range childMap(request, key) {
			if !names.Has(strings.ToLower(name)) {
				values[name] = value
			}
		}
		for _, header := range ours {
			values[header.Name] = header.Value
		}
		if len(values) > 0 {
			next[key] = values
		}
	}
	if remove := append(removeHeaders(request["remove"], names), toAnySlice(h.Remove)...); len(remove) > 0 {
		next["remove"] = remove
	}
	headers["request"] = next
	of["headers"] = headers
}

// joinURI adds a path to a match. In Istio a prefix is a string prefix: it may end within a path
// element.
func joinURI(match map[string]any, want *rollouts.PathMatch) (met bool, err error) {
	if want == nil {
		return true, nil
	}
	wanted := stepPath(want)
	wanted.isStringPrefix = true
	both, met, known := istioPath(childMap(match, "uri")).intersect(wanted)
	if !known {
		return false, fmt.Errorf(".path: %s cannot be matched together with what the rule matches already", wanted.value)
	}
	match["uri"] = map[string]any{istioTypes[both.kind]: both.value}
	return met, nil
}

func istioPath(m map[string]any) path {
	for _, kind := range []string{matchPattern, matchExact, matchPrefix} {
		if value, ok := m[istioTypes[kind]].(string); ok {
			return path{kind: kind, value: value, isStringPrefix: true}
		}
	}
	return path{kind: matchPrefix, value: "/", isStringPrefix: true}
}

// joinNamedValues adds headers or query parameters to a match, in which each name occurs once.
// Istio requires lower-case header names.
func joinNamedValues(match map[string]any, field string, want []rollouts.ValueMatch) (met bool, err error) {
	if len(want) == 0 {
		return true, nil
	}
	all := childMap(match, field)
	if all == nil {
		all = map[string]any{}
	}
	for i, v := range want {
		name := v.Name
		if field == "headers" {
			name = strings.ToLower(name)
		}
		next := map[string]any{istioTypes[ptr.Deref(v.Type, matchExact)]: v.Value}
		was, has := all[name]
		switch {
		case !has || equality.Semantic.DeepEqual(was, next):
			all[name] = next
		case next["exact"] != nil && childMap(all, name)["exact"] != nil:
			return false, nil
		default:
			return false, fmt.Errorf(".%s[%d]: the rule matches %s already; one name cannot be matched twice", field, i, v.Name)
		}
	}
	match[field] = all
	return true, nil
}

// addCanarySubset adds a subset with the pods of the canary revision to a DestinationRule. A
// VirtualService sends requests to this subset.
func addCanarySubset(d Data, _ Params) (Data, error) {
	subsets := mapElements(d.Spec["subsets"])
	if !slices.ContainsFunc(subsets, func(s map[string]any) bool { return s["name"] == subsetCanary }) {
		subsets = append(subsets, map[string]any{
			"name": subsetCanary, "labels": map[string]any{labelSubset: labelSubsetValue},
		})
	}
	if d.Spec == nil {
		d.Spec = map[string]any{}
	}
	d.Spec["subsets"] = toAnySlice(subsets)
	return d, nil
}
