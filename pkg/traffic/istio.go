// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// Istio goes through the rules of a VirtualService in their order, and the
// first that matches decides. Requests are told apart by the Service that they
// are for or, where one serves both revisions, by a subset of its pods.

// The subset has the label by which OpenKruise tells pods of the update revision.
const (
	labelSubset      = "istio.service.tag"
	labelSubsetValue = "gray"
)

var errNoHTTP = errors.New("spec.http: no rule sends requests to the service, and matches are for http only")

// virtualService adds a route to an original.
func virtualService(d Data, p Params) (Data, error) {
	sends := false
	for _, key := range []string{"http", "tcp", "tls"} {
		rules := objects(d.Spec[key])
		if !slices.ContainsFunc(rules, p.serves) {
			continue
		}
		sends = true
		before, err := p.virtualBefore(key, rules)
		if err != nil {
			return Data{}, err
		}
		d.Spec[key] = listed(p.virtualRules(rules, before))
	}
	switch {
	case !sends:
		return Data{}, fmt.Errorf("spec: no rule sends requests to service %s", p.Stable)
	case len(p.Matches) > 0 && !slices.ContainsFunc(objects(d.Spec["http"]), p.serves):
		return Data{}, errNoHTTP
	}
	return d, nil
}

// virtualBefore are the rules for matches, which only rules of http have.
func (p Params) virtualBefore(key string, rules []map[string]any) ([][]map[string]any, error) {
	switch {
	case key == "http":
		return p.virtualMatches(rules)
	case p.Headers != nil && p.Weight != nil:
		return nil, fmt.Errorf("requestHeaderModifier: rules of spec.%s have no headers", key)
	default:
		return nil, nil
	}
}

// virtualRules are the rules with their shares, each after those for matches.
func (p Params) virtualRules(rules []map[string]any, before [][]map[string]any) []map[string]any {
	var all []map[string]any
	for i, rule := range rules {
		if before != nil {
			all = append(all, before[i]...)
		}
		if p.Weight != nil && p.serves(rule) {
			p.divide(rule)
		}
		all = append(all, rule)
	}
	return all
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

// canaryRoute is the way to the update revision like one to the stable.
func (p Params) canaryRoute(stable map[string]any) map[string]any {
	route := runtime.DeepCopyJSON(stable)
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
// rule. What others have of it stays. The sum stays too where whole numbers do.
func (p Params) divide(rule map[string]any) {
	routes := objects(rule["route"])
	without := !slices.ContainsFunc(routes, func(r map[string]any) bool { return whole(r, "weight", 0) > 0 })
	var canary map[string]any
	var part int64
	for _, route := range routes {
		parts := whole(route, "weight", 0)
		if len(routes) == 1 {
			parts = 100
		} else if without {
			parts = 1
		}
		route["weight"] = parts * 100
		if !p.isStable(route) {
			continue
		}
		if canary == nil {
			canary = p.canaryRoute(route)
		}
		route["weight"] = parts * (100 - int64(*p.Weight))
		part += parts * int64(*p.Weight)
	}
	canary["weight"] = part
	if p.Headers != nil {
		requestHeaders(canary, p)
	}
	routes = append(routes, canary)
	whole100 := !slices.ContainsFunc(routes, func(r map[string]any) bool { return whole(r, "weight", 0)%100 != 0 })
	for _, route := range routes {
		if whole100 {
			route["weight"] = whole(route, "weight", 0) / 100
		}
	}
	rule["route"] = listed(routes)
}

// virtualMatches are, for each rule, those before it. The last match is the
// first, as OpenKruise has it.
func (p Params) virtualMatches(rules []map[string]any) ([][]map[string]any, error) {
	before := make([][]map[string]any, len(rules))
	for i, m := range slices.Backward(p.Matches) {
		found := false
		for r, rule := range rules {
			if !p.serves(rule) {
				continue
			}
			var matches []map[string]any
			own := objects(rule["match"])
			if len(own) == 0 {
				own = []map[string]any{{}}
			}
			for _, o := range own {
				joined, err := joinVirtual(o, m)
				if err != nil {
					return nil, fmt.Errorf("matches[%d]%w", i, err)
				}
				if joined != nil {
					matches = append(matches, joined)
				}
			}
			if len(matches) > 0 {
				found = true
				before[r] = append(before[r], p.virtualMatch(rule, matches))
			}
		}
		if !found {
			return nil, fmt.Errorf("matches[%d]: no such request comes to service %s", i, p.Stable)
		}
	}
	return before, nil
}

// virtualMatch is a rule that sends what matches to the update revision only.
func (p Params) virtualMatch(rule map[string]any, matches []map[string]any) map[string]any {
	narrow := runtime.DeepCopyJSON(rule)
	delete(narrow, "name")
	narrow["match"] = listed(matches)
	routes := objects(narrow["route"])
	stable := routes[slices.IndexFunc(routes, p.isStable)]
	narrow["route"] = []any{p.canaryRoute(stable)}
	if p.Headers != nil {
		requestHeaders(narrow, p)
	}
	return narrow
}

// requestHeaders changes headers of requests by a rule or on one of its ways.
func requestHeaders(of map[string]any, p Params) {
	headers := within(of, "headers")
	if headers == nil {
		headers = map[string]any{}
	}
	request := within(headers, "request")
	theirs := map[string]any{"remove": request["remove"]}
	for _, key := range []string{"set", "add"} {
		var list []any
		for _, name := range keysOf(within(request, key)) {
			list = append(list, map[string]any{"name": name, "value": within(request, key)[name]})
		}
		theirs[key] = list
	}
	next := modified(theirs, p.Headers)
	for _, key := range []string{"set", "add"} {
		values := map[string]any{}
		for _, h := range objects(next[key]) {
			values[str(h, "name", "")] = h["value"]
		}
		if delete(next, key); len(values) > 0 {
			next[key] = values
		}
	}
	headers["request"] = next
	of["headers"] = headers
}

// destinationRule names the pods of the update revision. Whoever sends requests
// to them is another router.
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
