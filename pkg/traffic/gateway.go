// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// gateway writes routes of the Gateway API. A weight becomes weights of the backends in each rule
// that sends requests to the stable Service. Matches become additional rules before these rules.
type gateway struct {
	matcher
	// areDisjoint reports whether no request can satisfy both matches.
	areDisjoint func(a, b map[string]any) bool
	// takesPrecedence reports whether a request that satisfies both matches may be routed by a, if
	// the rule of a comes first. The Gateway API prefers the more specific match.
	takesPrecedence func(a, b map[string]any) bool
}

var (
	httpRoute = gateway{matcher{field: "matches", check: checkNotEmpty, path: joinPath, values: joinValues}, areHTTPMatchesDisjoint, httpMatchTakesPrecedence}
	grpcRoute = gateway{matcher{field: "matches", check: checkGRPCMatch, path: ignorePath, values: joinValues}, areGRPCMatchesDisjoint, grpcMatchTakesPrecedence}
)

// The limits of the Gateway API.
const (
	maxRules       = 16
	maxRuleMatches = 64
	maxRuleWeight  = 1_000_000
)

var errSharedService = errors.New("routes of the Gateway API tell revisions apart by their Services; let the canary Service be made")

// edit adds a route to the original of an HTTPRoute or GRPCRoute.
func (g gateway) edit(d Data, p Params) (Data, error) {
	if p.StableService == p.CanaryService {
		return Data{}, errSharedService
	}
	rules := mapElements(d.Spec["rules"])
	if !slices.ContainsFunc(rules, p.servesBackend) {
		return Data{}, fmt.Errorf("no rule of spec.rules has Service %s as backend; add one, or correct trafficRoutings", p.StableService)
	}
	before, err := g.matchRules(rules, p)
	if err != nil {
		return Data{}, err
	}
	if n := len(before) + len(rules); n > maxRules {
		return Data{}, fmt.Errorf("spec.rules: the matches need %d of them, and there can be %d", n, maxRules)
	}
	for _, rule := range rules {
		if p.Weight != nil && p.servesBackend(rule) {
			refs := p.splitStableWeight(mapElements(rule["backendRefs"]), p.isStableRef, func(ref map[string]any) {
				ref["name"] = p.CanaryService
				addHeaderFilter(ref, p.Headers)
			})
			scaleWeights(refs, maxRuleWeight)
			rule["backendRefs"] = toAnySlice(refs)
		}
	}
	d.Spec["rules"] = toAnySlice(append(before, rules...))
	return d, nil
}

// isServiceRef reports whether a backend reference names the given Service.
func (p Params) isServiceRef(ref map[string]any, service string) bool {
	return ref["name"] == service && stringField(ref, "kind", "Service") == "Service" && stringField(ref, "group", "") == "" &&
		stringField(ref, "namespace", p.Namespace) == p.Namespace
}

func (p Params) isStableRef(ref map[string]any) bool { return p.isServiceRef(ref, p.StableService) }

// stableRefs returns the backends of a list that refer to the stable Service and have a weight
// above 0.
func (p Params) stableRefs(list any) []map[string]any {
	return slices.DeleteFunc(mapElements(list), func(ref map[string]any) bool {
		return !p.isStableRef(ref) || intField(ref, "weight", 1) <= 0
	})
}

func (p Params) servesBackend(rule map[string]any) bool {
	return len(p.stableRefs(rule["backendRefs"])) > 0
}

// addHeaderFilter adds a change of request headers to the filters of a rule or a backend. The
// Gateway API allows one filter of this type, so an existing filter is extended.
func addHeaderFilter(of map[string]any, h *rollouts.HeaderModifier) {
	if h == nil {
		return
	}
	const kind, key = "RequestHeaderModifier", "requestHeaderModifier"
	filters := mapElements(of["filters"])
	at := slices.IndexFunc(filters, func(f map[string]any) bool { return f["type"] == kind })
	if at < 0 {
		filters, at = append(filters, map[string]any{"type": kind}), len(filters)
	}
	filters[at][key] = mergeHeaderModifiers(childMap(filters[at], key), h)
	of["filters"] = toAnySlice(filters)
}

// matchRules returns the additional rules that send matching requests to the canary Service. It
// also returns rules that protect other Services: a rule of the owner that sends requests to
// another Service must not lose them to the additional rules.
func (g gateway) matchRules(rules []map[string]any, p Params) ([]map[string]any, error) {
	ours, err := g.joinRules(p, rules, p.servesBackend, slices.All(p.Matches))
	if err != nil {
		return nil, err
	}
	all := slices.Concat(slices.Concat(ours...)...)
	var before []map[string]any
	for i, rule := range rules {
		narrow := runtime.DeepCopyJSON(rule)
		matches := slices.Concat(ours[i]...)
		if refs := p.stableRefs(narrow["backendRefs"]); len(refs) > 0 {
			for _, ref := range refs {
				ref["name"] = p.CanaryService
			}
			narrow["backendRefs"] = toAnySlice(refs)
			addHeaderFilter(narrow, p.Headers)
		} else if matches, err = g.guardMatches(rule, all, p); err != nil {
			return nil, fmt.Errorf("%w (spec.rules[%d], which leads elsewhere)", err, i)
		}
		if len(matches) > maxRuleMatches {
			return nil, fmt.Errorf("spec.rules[%d]: with these it would have %d matches, and there can be %d", i, len(matches), maxRuleMatches)
		}
		if len(matches) > 0 {
			delete(narrow, "name") // is unique
			narrow["matches"] = toAnySlice(matches)
			before = append(before, narrow)
		}
	}
	return before, nil
}

// guardMatches returns matches for a rule that does not send requests to the stable Service. With
// them the rule is as specific as the additional rules that would otherwise take its requests.
func (g gateway) guardMatches(rule map[string]any, ours []map[string]any, p Params) ([]map[string]any, error) {
	var all []map[string]any
	for _, own := range g.matchesOf(rule) {
		if !slices.ContainsFunc(ours, func(o map[string]any) bool { return !g.areDisjoint(o, own) && g.takesPrecedence(o, own) }) {
			continue
		}
		for i, m := range p.Matches {
			joined, err := g.joinAll([]map[string]any{own}, m)
			if err != nil {
				return nil, fmt.Errorf("matches[%d]%w", i, err)
			}
			all = append(all, joined...)
		}
	}
	return all, nil
}

func areHTTPMatchesDisjoint(a, b map[string]any) bool {
	_, met, known := gatewayPath(childMap(a, "path")).intersect(gatewayPath(childMap(b, "path")))
	return known && !met || fieldsDiffer(a, b, "method")
}

// fieldsDiffer reports whether both matches require a value for the field, and the values differ.
func fieldsDiffer(a, b map[string]any, key string) bool {
	x, y := stringField(a, key, ""), stringField(b, key, "")
	return x != "" && y != "" && x != y
}

// httpMatchTakesPrecedence compares two matches by the order of the Gateway API: an exact path, the
// longest prefix, a method, the most headers, the most query parameters. The API leaves the
// precedence of regular expressions to implementations, so they count as taking precedence.
func httpMatchTakesPrecedence(a, b map[string]any) bool {
	x, y := gatewayPath(childMap(a, "path")), gatewayPath(childMap(b, "path"))
	if x.kind == matchPattern || y.kind == matchPattern {
		return true
	}
	return slices.Compare(x.precedence(a), y.precedence(b)) >= 0
}

func (a path) precedence(match map[string]any) []int {
	exact, method := 0, 0
	if a.kind == matchExact {
		exact = 1
	}
	if stringField(match, "method", "") != "" {
		method = 1
	}
	return []int{exact, len(a.value), method, len(mapElements(match["headers"])), len(mapElements(match["queryParams"]))}
}

// checkGRPCMatch returns an error for matches that a GRPCRoute does not support. It supports
// headers only.
func checkGRPCMatch(m rollouts.RouteMatch) error {
	switch {
	case m.Path != nil:
		return errors.New(".path: a GRPCRoute matches headers only")
	case len(m.QueryParams) > 0:
		return errors.New(".queryParams: a GRPCRoute matches headers only")
	case len(m.Headers) == 0:
		return errors.New(".headers: a GRPCRoute needs a header to match")
	}
	return nil
}

func ignorePath(map[string]any, *rollouts.PathMatch) (met bool, err error) { return true, nil }

func areGRPCMatchesDisjoint(a, b map[string]any) bool {
	x, y := childMap(a, "method"), childMap(b, "method")
	if x["type"] == matchPattern || y["type"] == matchPattern {
		return false
	}
	return fieldsDiffer(x, y, "service") || fieldsDiffer(x, y, "method")
}

// grpcMatchTakesPrecedence compares two matches by the order of the Gateway API: the longest
// service name, the longest method name, the most headers.
func grpcMatchTakesPrecedence(a, b map[string]any) bool {
	rank := func(m map[string]any) []int {
		of := childMap(m, "method")
		return []int{len(stringField(of, "service", "")), len(stringField(of, "method", "")), len(mapElements(m["headers"]))}
	}
	return slices.Compare(rank(a), rank(b)) >= 0
}

// stripCanaryBackends removes the canary Service from an HTTPRoute, as OpenKruise does at the end
// of a release. It removes rules without another backend. The stable Service gets weight 1, because
// its original weight was not stored.
func stripCanaryBackends(d Data, p Params) (stripped Data, found bool) {
	var rules []map[string]any
	for _, rule := range mapElements(d.Spec["rules"]) {
		refs := mapElements(rule["backendRefs"])
		kept := slices.DeleteFunc(slices.Clone(refs), func(ref map[string]any) bool { return p.isServiceRef(ref, p.CanaryService) })
		if len(kept) == len(refs) {
			rules = append(rules, rule)
			continue
		}
		found = true
		for _, ref := range kept {
			if p.isStableRef(ref) {
				ref["weight"] = int64(1)
			}
		}
		if rule["backendRefs"] = toAnySlice(kept); len(kept) > 0 {
			rules = append(rules, rule)
		}
	}
	if found {
		d.Spec["rules"] = toAnySlice(rules)
	}
	return d, found
}

// healthyConditions are the status values of an accepted route, by the type of the condition.
var healthyConditions = map[string]string{"Accepted": "True", "ResolvedRefs": "True", "PartiallyInvalid": "False"}

// readRouteConditions reads the conditions that gateways write to the status of a route of the
// Gateway API. A gateway may write none. Conditions for an older generation do not describe the
// current route.
func readRouteConditions(obj *unstructured.Unstructured) (pending, refused string) {
	wanted := mapElements(childMap(obj.Object, "spec")["parentRefs"])
	for _, parent := range mapElements(childMap(obj.Object, "status")["parents"]) {
		ref := childMap(parent, "parentRef")
		if !slices.ContainsFunc(wanted, func(w map[string]any) bool { return isSameParent(w, ref) }) {
			continue // the route was detached from it
		}
		name := stringField(ref, "name", "")
		for _, c := range mapElements(parent["conditions"]) {
			good, known := healthyConditions[stringField(c, "type", "")]
			status := stringField(c, "status", "")
			says := fmt.Sprintf("%s: %s is %s: %s: %s", name, c["type"], c["status"], stringField(c, "reason", ""), stringField(c, "message", ""))
			switch seen := intField(c, "observedGeneration", obj.GetGeneration()); {
			case !known:
			case seen < obj.GetGeneration():
				pending = cmp.Or(pending, name+" has not seen it yet")
			case status == "Unknown":
				pending = cmp.Or(pending, says)
			case status != good:
				refused = cmp.Or(refused, says)
			}
		}
	}
	return pending, refused
}

func isSameParent(a, b map[string]any) bool {
	return a["name"] == b["name"] && a["sectionName"] == b["sectionName"] && a["port"] == b["port"]
}
