// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// gateway writes routes of the Gateway API: a share as weights of the backends
// of each rule that leads to the stable Service, matches as rules before them.
type gateway struct {
	// join is what a request meets that meets both, or nil if none can.
	join func(own map[string]any, m rollouts.RouteMatch) (map[string]any, error)
	// apart reports whether no request meets both.
	apart func(a, b map[string]any) bool
	// beats reports whether a may decide about a request that meets both, if its rule
	// comes first: the Gateway API prefers what says more about a request.
	beats func(a, b map[string]any) bool
}

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
	if !slices.ContainsFunc(rules, func(rule map[string]any) bool { return len(p.stableRefs(rule)) > 0 }) {
		return Data{}, fmt.Errorf("spec.rules: none sends requests to service %s", p.Stable)
	}
	before, err := g.matching(rules, p)
	if err != nil {
		return Data{}, err
	}
	if n := len(before) + len(rules); n > maxRules {
		return Data{}, fmt.Errorf("spec.rules: the matches need %d of them, and there can be %d", n, maxRules)
	}
	if p.Weight != nil {
		for _, rule := range rules {
			weigh(rule, p)
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

// stableRefs are the backends of a rule that get requests for the stable Service.
func (p Params) stableRefs(rule map[string]any) []map[string]any {
	return slices.DeleteFunc(objects(rule["backendRefs"]), func(ref map[string]any) bool {
		return !p.leads(ref, p.Stable) || whole(ref, "weight", 1) == 0
	})
}

// weigh gives the canary Service its part of what the stable one has of a rule.
// What other backends have of it stays as it is.
func weigh(rule map[string]any, p Params) {
	if len(p.stableRefs(rule)) == 0 {
		return
	}
	refs := p.weighted(objects(rule["backendRefs"]), p.isStableRef, func(ref map[string]any) map[string]any {
		canary := p.canaryRef(ref)
		if p.Headers != nil {
			modify(canary, p.Headers)
		}
		return canary
	})
	reduce(refs, maxRuleWeight)
	rule["backendRefs"] = listed(refs)
}

func (p Params) isStableRef(ref map[string]any) bool { return p.leads(ref, p.Stable) }

func (p Params) canaryRef(stable map[string]any) map[string]any {
	canary := runtime.DeepCopyJSON(stable)
	canary["name"] = p.Canary
	return canary
}

// modify adds a change of headers to the filters of a rule or a backend, where
// there can be one of that type.
func modify(of map[string]any, h *rollouts.HeaderModifier) {
	const kind, key = "RequestHeaderModifier", "requestHeaderModifier"
	filters := objects(of["filters"])
	at := slices.IndexFunc(filters, func(f map[string]any) bool { return f["type"] == kind })
	if at < 0 {
		filters, at = append(filters, map[string]any{"type": kind}), len(filters)
	}
	filters[at][key] = modified(within(filters[at], key), h)
	of["filters"] = listed(filters)
}

// matching is the rules for the requests that match, with what rules lead
// elsewhere and would lose requests to them.
func (g gateway) matching(rules []map[string]any, p Params) ([]map[string]any, error) {
	ours, err := g.ours(rules, p)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(ours...)
	var before []map[string]any
	for i, rule := range rules {
		narrow := runtime.DeepCopyJSON(rule)
		matches := ours[i]
		if len(p.stableRefs(rule)) == 0 {
			if matches, err = g.guarding(rule, all, p); err != nil {
				return nil, fmt.Errorf("%w (spec.rules[%d], which leads elsewhere)", err, i)
			}
		} else {
			narrow["backendRefs"] = listed(p.canaryRefs(narrow))
			if p.Headers != nil {
				modify(narrow, p.Headers)
			}
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

func (p Params) canaryRefs(rule map[string]any) []map[string]any {
	var refs []map[string]any
	for _, ref := range p.stableRefs(rule) {
		refs = append(refs, p.canaryRef(ref))
	}
	return refs
}

// ours is, for each rule that leads to the stable Service, what its requests
// meet that are wanted.
func (g gateway) ours(rules []map[string]any, p Params) ([][]map[string]any, error) {
	all := make([][]map[string]any, len(rules))
	for i, m := range p.Matches {
		found := false
		for r, rule := range rules {
			if len(p.stableRefs(rule)) == 0 {
				continue
			}
			joined, err := g.joined(matchesOf(rule), m)
			if err != nil {
				return nil, fmt.Errorf("matches[%d]%w", i, err)
			}
			all[r] = append(all[r], joined...)
			found = found || len(joined) > 0
		}
		if !found {
			return nil, fmt.Errorf("matches[%d]: no such request comes to service %s", i, p.Stable)
		}
	}
	return all, nil
}

func (g gateway) joined(own []map[string]any, m rollouts.RouteMatch) ([]map[string]any, error) {
	var all []map[string]any
	for _, o := range own {
		joined, err := g.join(o, m)
		if err != nil {
			return nil, err
		}
		if joined != nil {
			all = append(all, joined)
		}
	}
	return all, nil
}

// guarding is what keeps the requests of a rule that leads elsewhere: as much
// more specific as the rules are that would win over it.
func (g gateway) guarding(rule map[string]any, ours []map[string]any, p Params) ([]map[string]any, error) {
	var all []map[string]any
	for _, own := range matchesOf(rule) {
		if !slices.ContainsFunc(ours, func(o map[string]any) bool { return !g.apart(o, own) && g.beats(o, own) }) {
			continue
		}
		for i, m := range p.Matches {
			joined, err := g.joined([]map[string]any{own}, m)
			if err != nil {
				return nil, fmt.Errorf("matches[%d]%w", i, err)
			}
			all = append(all, joined...)
		}
	}
	return all, nil
}

// matchesOf are the matches of a rule, of which any is enough.
func matchesOf(rule map[string]any) []map[string]any {
	if all := objects(rule["matches"]); len(all) > 0 {
		return all
	}
	return []map[string]any{{}}
}
