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

// gateway writes routes of the Gateway API: a share as weights of the backends
// of each rule that leads to the stable Service, matches as rules before them.
type gateway struct {
	matcher
	// apart reports whether no request meets both matches.
	apart func(a, b map[string]any) bool
	// beats reports whether a may decide about a request that meets both, if its rule
	// comes first: the Gateway API prefers the more specific match.
	beats func(a, b map[string]any) bool
}

var (
	httpRoute = gateway{matcher{field: "matches", check: checkNotEmpty, path: joinPath, values: joinValues}, apartHTTP, beatsHTTP}
	grpcRoute = gateway{matcher{field: "matches", check: checkGRPC, path: joinNoPath, values: joinValues}, apartGRPC, beatsGRPC}
)

// The limits of the Gateway API.
const (
	maxRules       = 16
	maxRuleMatches = 64
	maxRuleWeight  = 1_000_000
)

var errShared = errors.New("routes of the Gateway API tell revisions apart by their Services; let the canary Service be made")

// edit adds a route to an original.
func (g gateway) edit(d Data, p Params) (Data, error) {
	if p.Stable == p.Canary {
		return Data{}, errShared
	}
	rules := objects(d.Spec["rules"])
	if !slices.ContainsFunc(rules, p.servesBackend) {
		return Data{}, fmt.Errorf("spec.rules: none sends requests to service %s", p.Stable)
	}
	before, err := g.matching(rules, p)
	if err != nil {
		return Data{}, err
	}
	if n := len(before) + len(rules); n > maxRules {
		return Data{}, fmt.Errorf("spec.rules: the matches need %d of them, and there can be %d", n, maxRules)
	}
	for _, rule := range rules {
		if p.Weight != nil && p.servesBackend(rule) {
			refs := p.weighted(objects(rule["backendRefs"]), p.isStableRef, func(ref map[string]any) {
				ref["name"] = p.Canary
				modify(ref, p.Headers)
			})
			reduce(refs, maxRuleWeight)
			rule["backendRefs"] = listed(refs)
		}
	}
	d.Spec["rules"] = listed(append(before, rules...))
	return d, nil
}

// leads reports whether a backend is the Service of that name.
func (p Params) leads(ref map[string]any, service string) bool {
	return ref["name"] == service && str(ref, "kind", "Service") == "Service" && str(ref, "group", "") == "" &&
		str(ref, "namespace", p.Namespace) == p.Namespace
}

func (p Params) isStableRef(ref map[string]any) bool { return p.leads(ref, p.Stable) }

// stableRefs returns the backends of a list that get requests for the stable Service.
func (p Params) stableRefs(list any) []map[string]any {
	return slices.DeleteFunc(objects(list), func(ref map[string]any) bool {
		return !p.isStableRef(ref) || whole(ref, "weight", 1) <= 0
	})
}

func (p Params) servesBackend(rule map[string]any) bool {
	return len(p.stableRefs(rule["backendRefs"])) > 0
}

// modify adds a change of headers to the filters of a rule or a backend, which can
// have one filter of that type.
func modify(of map[string]any, h *rollouts.HeaderModifier) {
	if h == nil {
		return
	}
	const kind, key = "RequestHeaderModifier", "requestHeaderModifier"
	filters := objects(of["filters"])
	at := slices.IndexFunc(filters, func(f map[string]any) bool { return f["type"] == kind })
	if at < 0 {
		filters, at = append(filters, map[string]any{"type": kind}), len(filters)
	}
	filters[at][key] = modified(within(filters[at], key), h)
	of["filters"] = listed(filters)
}

// matching returns the rules for the requests that match. Rules that lead elsewhere
// and would lose requests to them are among them.
func (g gateway) matching(rules []map[string]any, p Params) ([]map[string]any, error) {
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
				ref["name"] = p.Canary
			}
			narrow["backendRefs"] = listed(refs)
			modify(narrow, p.Headers)
		} else if matches, err = g.guarding(rule, all, p); err != nil {
			return nil, fmt.Errorf("%w (spec.rules[%d], which leads elsewhere)", err, i)
		}
		if len(matches) > maxRuleMatches {
			return nil, fmt.Errorf("spec.rules[%d]: with these it would have %d matches, and there can be %d", i, len(matches), maxRuleMatches)
		}
		if len(matches) > 0 {
			delete(narrow, "name") // is unique
			narrow["matches"] = listed(matches)
			before = append(before, narrow)
		}
	}
	return before, nil
}

// guarding returns the matches that keep the requests of a rule that leads elsewhere.
// They are as much more specific as the rules that would win over it.
func (g gateway) guarding(rule map[string]any, ours []map[string]any, p Params) ([]map[string]any, error) {
	var all []map[string]any
	for _, own := range g.matchesOf(rule) {
		if !slices.ContainsFunc(ours, func(o map[string]any) bool { return !g.apart(o, own) && g.beats(o, own) }) {
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

func apartHTTP(a, b map[string]any) bool {
	_, met, known := pathOf(within(a, "path")).and(pathOf(within(b, "path")))
	return known && !met || differ(a, b, "method")
}

// differ reports whether both want another value of a field.
func differ(a, b map[string]any, key string) bool {
	x, y := str(a, key, ""), str(b, key, "")
	return x != "" && y != "" && x != y
}

// beatsHTTP follows the order of the Gateway API: an exact path, the longest
// prefix, a method, the most headers, the most parameters. Where patterns
// stand in it is left to implementations.
func beatsHTTP(a, b map[string]any) bool {
	x, y := pathOf(within(a, "path")), pathOf(within(b, "path"))
	if x.kind == matchPattern || y.kind == matchPattern {
		return true
	}
	return slices.Compare(x.rank(a), y.rank(b)) >= 0
}

func (a path) rank(match map[string]any) []int {
	exact, method := 0, 0
	if a.kind == matchExact {
		exact = 1
	}
	if str(match, "method", "") != "" {
		method = 1
	}
	return []int{exact, len(a.value), method, len(objects(match["headers"])), len(objects(match["queryParams"]))}
}

// checkGRPC: a GRPCRoute knows methods and headers only.
func checkGRPC(m rollouts.RouteMatch) error {
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

func joinNoPath(map[string]any, *rollouts.PathMatch) (met bool, err error) { return true, nil }

func apartGRPC(a, b map[string]any) bool {
	x, y := within(a, "method"), within(b, "method")
	if x["type"] == matchPattern || y["type"] == matchPattern {
		return false
	}
	return differ(x, y, "service") || differ(x, y, "method")
}

// beatsGRPC follows the order of the Gateway API: the longest service, the longest
// method, the most headers.
func beatsGRPC(a, b map[string]any) bool {
	rank := func(m map[string]any) []int {
		of := within(m, "method")
		return []int{len(str(of, "service", "")), len(str(of, "method", "")), len(objects(m["headers"]))}
	}
	return slices.Compare(rank(a), rank(b)) >= 0
}

// strip removes the canary Service from an HTTPRoute, as OpenKruise does at the
// end of a release: rules that lead only there go, and the stable Service gets
// weight 1, since its original weight is not on record.
func strip(d Data, p Params) (stripped Data, found bool) {
	var rules []map[string]any
	for _, rule := range objects(d.Spec["rules"]) {
		refs := objects(rule["backendRefs"])
		kept := slices.DeleteFunc(slices.Clone(refs), func(ref map[string]any) bool { return p.leads(ref, p.Canary) })
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
		if rule["backendRefs"] = listed(kept); len(kept) > 0 {
			rules = append(rules, rule)
		}
	}
	if found {
		d.Spec["rules"] = listed(rules)
	}
	return d, found
}

// wantedStatus are the conditions by which a gateway accepts a route.
var wantedStatus = map[string]string{"Accepted": "True", "ResolvedRefs": "True", "PartiallyInvalid": "False"}

// accepted reads the conditions that gateways put on a route of the Gateway API.
// There may be none. A condition of an older generation is not about this route.
func accepted(obj *unstructured.Unstructured) (pending, refused string) {
	wanted := objects(within(obj.Object, "spec")["parentRefs"])
	for _, parent := range objects(within(obj.Object, "status")["parents"]) {
		ref := within(parent, "parentRef")
		if !slices.ContainsFunc(wanted, func(w map[string]any) bool { return sameParent(w, ref) }) {
			continue // the route was detached from it
		}
		name := str(ref, "name", "")
		for _, c := range objects(parent["conditions"]) {
			good, known := wantedStatus[str(c, "type", "")]
			status := str(c, "status", "")
			says := fmt.Sprintf("%s: %s is %s: %s: %s", name, c["type"], c["status"], str(c, "reason", ""), str(c, "message", ""))
			switch seen := whole(c, "observedGeneration", obj.GetGeneration()); {
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

func sameParent(a, b map[string]any) bool {
	return a["name"] == b["name"] && a["sectionName"] == b["sectionName"] && a["port"] == b["port"]
}
