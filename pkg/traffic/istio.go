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

// Istio goes through the rules of a VirtualService in their order, and the first
// rule that matches decides. It tells revisions apart by the Service that requests
// are for or, where one serves both revisions, by a subset of its pods.

// The subset has the label by which OpenKruise marks pods of the update revision.
const (
	labelSubset      = "istio.service.tag"
	labelSubsetValue = "gray"
)

var virtualMatcher = matcher{field: "match", check: checkNotEmpty, path: joinURI, values: joinNamed}

// istioTypes are the fields of Istio that match a text, by the types of a step.
var istioTypes = map[string]string{matchPrefix: "prefix", matchExact: "exact", matchPattern: "regex"}

// virtualService adds a route to an original.
func virtualService(d Data, p Params) (Data, error) {
	sends := false
	for _, key := range []string{"http", "tcp", "tls"} {
		rules := objects(d.Spec[key])
		if !slices.ContainsFunc(rules, p.serves) {
			continue
		}
		sends = true
		all, err := p.virtualRules(key, rules)
		if err != nil {
			return Data{}, err
		}
		d.Spec[key] = listed(all)
	}
	switch {
	case !sends:
		return Data{}, fmt.Errorf("spec: no rule sends requests to service %s", p.Stable)
	case len(p.Matches) > 0 && !slices.ContainsFunc(objects(d.Spec["http"]), p.serves):
		return Data{}, errors.New("spec.http: no rule sends requests to the service, and matches are for http only")
	}
	return d, nil
}

// virtualRules returns the rules of a protocol with their shares, each after the
// rules for matches, which are for http only. The last match comes first, as in
// OpenKruise.
func (p Params) virtualRules(key string, rules []map[string]any) (all []map[string]any, err error) {
	matches := make([][][]map[string]any, len(rules))
	if key == "http" {
		matches, err = virtualMatcher.joinRules(p, rules, p.serves, slices.Backward(p.Matches))
	} else if p.Headers != nil && p.Weight != nil {
		err = fmt.Errorf("requestHeaderModifier: rules of spec.%s have no headers", key)
	}
	if err != nil {
		return nil, err
	}
	for i, rule := range rules {
		for _, m := range matches[i] {
			all = append(all, p.virtualMatch(rule, m))
		}
		if p.Weight != nil && p.serves(rule) {
			p.divide(rule)
		}
		all = append(all, rule)
	}
	return all, nil
}

// serves reports whether a rule sends requests to the stable Service.
func (p Params) serves(rule map[string]any) bool {
	return slices.ContainsFunc(objects(rule["route"]), p.isStable)
}

func (p Params) isStable(route map[string]any) bool {
	host := str(within(route, "destination"), "host", "")
	own := p.Stable + "." + p.Namespace
	return host == p.Stable || host == own || strings.HasPrefix(host, own+".")
}

// canaryRoute copies the first way of a rule to the stable Service, leading to the
// update revision.
func (p Params) canaryRoute(routes []map[string]any) map[string]any {
	route := runtime.DeepCopyJSON(routes[slices.IndexFunc(routes, p.isStable)])
	to := within(route, "destination")
	to["host"] = p.Canary + strings.TrimPrefix(str(to, "host", ""), p.Stable)
	delete(to, "subset")
	if p.Canary == p.Stable {
		to["subset"] = subsetCanary
	}
	delete(route, "weight")
	return route
}

// divide gives the update revision its part of what the stable Service has of a
// rule. The weights of others stay. The sum stays too where whole numbers allow it.
func (p Params) divide(rule map[string]any) {
	routes := objects(rule["route"])
	without := !slices.ContainsFunc(routes, func(r map[string]any) bool { return whole(r, "weight", 0) > 0 })
	canary := p.canaryRoute(routes)
	requestHeaders(canary, p.Headers)
	var part int64
	for _, route := range routes {
		parts := whole(route, "weight", 0)
		if len(routes) == 1 {
			parts = 100
		} else if without {
			parts = 1
		}
		route["weight"] = parts * 100
		if p.isStable(route) {
			route["weight"] = parts * (100 - int64(*p.Weight))
			part += parts * int64(*p.Weight)
		}
	}
	canary["weight"] = part
	routes = append(routes, canary)
	if !slices.ContainsFunc(routes, func(r map[string]any) bool { return whole(r, "weight", 0)%100 != 0 }) {
		for _, route := range routes {
			route["weight"] = whole(route, "weight", 0) / 100
		}
	}
	rule["route"] = listed(routes)
}

// virtualMatch is a rule that sends what matches to the update revision only.
func (p Params) virtualMatch(rule map[string]any, matches []map[string]any) map[string]any {
	narrow := runtime.DeepCopyJSON(rule)
	delete(narrow, "name")
	narrow["match"] = listed(matches)
	narrow["route"] = []any{p.canaryRoute(objects(narrow["route"]))}
	requestHeaders(narrow, p.Headers)
	return narrow
}

// requestHeaders changes headers of requests by a rule or on one of its ways.
func requestHeaders(of map[string]any, h *rollouts.HeaderModifier) {
	if h == nil {
		return
	}
	headers := within(of, "headers")
	if headers == nil {
		headers = map[string]any{}
	}
	request, names := within(headers, "request"), namesOf(h)
	next := map[string]any{}
	for key, ours := range map[string][]rollouts.Header{"set": h.Set, "add": h.Add} {
		values := map[string]any{}
		for name, value := range within(request, key) {
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
	if remove := append(without(request["remove"], names), listed(h.Remove)...); len(remove) > 0 {
		next["remove"] = remove
	}
	headers["request"] = next
	of["headers"] = headers
}

// joinURI adds a path. A prefix of Istio does not end at a slash.
func joinURI(match map[string]any, want *rollouts.PathMatch) (met bool, err error) {
	if want == nil {
		return true, nil
	}
	wanted := pathOfStep(want)
	wanted.byLetter = true
	both, met, known := uriOf(within(match, "uri")).and(wanted)
	if !known {
		return false, fmt.Errorf(".path: %s cannot be matched together with what the rule matches already", wanted.value)
	}
	match["uri"] = map[string]any{istioTypes[both.kind]: both.value}
	return met, nil
}

func uriOf(m map[string]any) path {
	for _, kind := range []string{matchPattern, matchExact, matchPrefix} {
		if value, ok := m[istioTypes[kind]].(string); ok {
			return path{kind: kind, value: value, byLetter: true}
		}
	}
	return path{kind: matchPrefix, value: "/", byLetter: true}
}

// joinNamed adds headers or parameters to a match, which has each name once.
// Istio knows headers by their names in lower case.
func joinNamed(match map[string]any, field string, want []rollouts.ValueMatch) (met bool, err error) {
	if len(want) == 0 {
		return true, nil
	}
	all := within(match, field)
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
		case next["exact"] != nil && within(all, name)["exact"] != nil:
			return false, nil
		default:
			return false, fmt.Errorf(".%s[%d]: the rule matches %s already; one name cannot be matched twice", field, i, v.Name)
		}
	}
	match[field] = all
	return true, nil
}

// destinationRule names the pods of the update revision. Another router sends
// requests to them.
func destinationRule(d Data, _ Params) (Data, error) {
	subsets := objects(d.Spec["subsets"])
	if !slices.ContainsFunc(subsets, func(s map[string]any) bool { return s["name"] == subsetCanary }) {
		subsets = append(subsets, map[string]any{
			"name": subsetCanary, "labels": map[string]any{labelSubset: labelSubsetValue},
		})
	}
	if d.Spec == nil {
		d.Spec = map[string]any{}
	}
	d.Spec["subsets"] = listed(subsets)
	return d, nil
}
