// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// matcher combines the matches of a router's rules with the matches of a step. A request must
// satisfy both the match that the rule already has and a match of the step.
type matcher struct {
	// field is the field of a rule that lists its matches.
	field string
	// check returns why rules of the kind cannot match as the step requires.
	check func(rollouts.RouteMatch) error
	// path and values add a path, and headers or query parameters, to a match. met reports whether
	// any request can satisfy the result.
	path   func(match map[string]any, want *rollouts.PathMatch) (met bool, err error)
	values func(match map[string]any, field string, want []rollouts.ValueMatch) (met bool, err error)
}

var errNoMatch = errors.New(": it says nothing about requests; use path, headers or queryParams")

func checkNotEmpty(m rollouts.RouteMatch) error {
	if m.Path == nil && len(m.Headers) == 0 && len(m.QueryParams) == 0 {
		return errNoMatch
	}
	return nil
}

// join returns a match of a rule combined with a match of the step; nil if no request satisfies
// both.
func (j matcher) join(own map[string]any, m rollouts.RouteMatch) (map[string]any, error) {
	if err := j.check(m); err != nil {
		return nil, err
	}
	joined := runtime.DeepCopyJSON(own)
	met, err := j.path(joined, m.Path)
	if met && err == nil {
		met, err = j.values(joined, "headers", m.Headers)
	}
	if met && err == nil {
		met, err = j.values(joined, "queryParams", m.QueryParams)
	}
	if err != nil || !met {
		return nil, err
	}
	return joined, nil
}

func (j matcher) joinAll(own []map[string]any, m rollouts.RouteMatch) ([]map[string]any, error) {
	var all []map[string]any
	for _, o := range own {
		joined, err := j.join(o, m)
		if err != nil {
			return nil, err
		}
		if joined != nil {
			all = append(all, joined)
		}
	}
	return all, nil
}

// joinRules returns the combined matches for each rule that serves the stable Service: one list for
// each match of the step that requests of the rule can satisfy.
func (j matcher) joinRules(p Params, rules []map[string]any, serves func(rule map[string]any) bool, wanted iter.Seq2[int, rollouts.RouteMatch]) ([][][]map[string]any, error) {
	all := make([][][]map[string]any, len(rules))
	for i, m := range wanted {
		found := false
		for r, rule := range rules {
			if !serves(rule) {
				continue
			}
			joined, err := j.joinAll(j.matchesOf(rule), m)
			if err != nil {
				return nil, fmt.Errorf("matches[%d]%w", i, err)
			}
			if len(joined) > 0 {
				found = true
				all[r] = append(all[r], joined)
			}
		}
		if !found {
			return nil, fmt.Errorf("matches[%d]: no such request comes to service %s", i, p.StableService)
		}
	}
	return all, nil
}

// matchesOf returns the matches of a rule. A request must satisfy one of them.
func (j matcher) matchesOf(rule map[string]any) []map[string]any {
	if all := mapElements(rule[j.field]); len(all) > 0 {
		return all
	}
	return []map[string]any{{}}
}

// The match types of the Gateway API. Headers and query parameters do not support PathPrefix.
const (
	matchPrefix  = "PathPrefix"
	matchExact   = "Exact"
	matchPattern = "RegularExpression"
)

type path struct {
	kind, value string
	// isStringPrefix reports whether the prefix may end within a path element.
	isStringPrefix bool
}

// gatewayPath returns the path of a match of the Gateway API.
func gatewayPath(m map[string]any) path {
	return path{kind: stringField(m, "type", matchPrefix), value: stringField(m, "value", "/")}
}

func stepPath(m *rollouts.PathMatch) path {
	if m == nil {
		m = &rollouts.PathMatch{}
	}
	return path{kind: ptr.Deref(m.Type, matchPrefix), value: ptr.Deref(m.Value, "/")}
}

// toMap returns the path in the format of the Gateway API and of scripts.
func (a path) toMap() map[string]any { return map[string]any{"type": a.kind, "value": a.value} }

func (a path) matchesEverything() bool { return a.kind == matchPrefix && a.value == "/" }

// includes reports whether a prefix includes a path.
func (a path) includes(value string) bool {
	prefix := strings.TrimSuffix(a.value, "/")
	switch {
	case a.kind != matchPrefix:
		return false
	case a.isStringPrefix:
		return strings.HasPrefix(value, a.value)
	default:
		return strings.TrimSuffix(value, "/") == prefix || strings.HasPrefix(value, prefix+"/")
	}
}

// intersect returns the path of requests that satisfy both paths. met reports whether such requests
// exist. known is false if a regular expression makes this undecidable.
func (a path) intersect(b path) (both path, met, known bool) {
	switch {
	case a == b || b.matchesEverything():
		return a, true, true
	case a.matchesEverything():
		return b, true, true
	case a.kind == matchPattern || b.kind == matchPattern:
		return path{}, false, false
	case a.includes(b.value):
		return b, true, true
	default:
		return a, b.includes(a.value), true
	}
}

func joinPath(match map[string]any, want *rollouts.PathMatch) (met bool, err error) {
	has, wanted := gatewayPath(childMap(match, "path")), stepPath(want)
	both, met, known := has.intersect(wanted)
	if !known {
		return false, fmt.Errorf(".path: %s cannot be matched together with %s, which the route matches already", wanted.value, has.value)
	}
	match["path"] = both.toMap()
	return met, nil
}

// joinValues adds headers or query parameters to a match. Header names are not case-sensitive.
func joinValues(match map[string]any, field string, want []rollouts.ValueMatch) (met bool, err error) {
	values := mapElements(match[field])
	for i, v := range want {
		at := slices.IndexFunc(values, func(o map[string]any) bool {
			name := stringField(o, "name", "")
			return name == v.Name || field == "headers" && strings.EqualFold(name, v.Name)
		})
		if at < 0 {
			values = append(values, valueMatchMap(v))
			continue
		}
		was, wantExact := values[at], ptr.Deref(v.Type, matchExact) == matchExact
		same, exact := was["value"] == v.Value, stringField(was, "type", matchExact) == matchExact
		switch {
		case same && exact == wantExact:
		case exact && wantExact:
			return false, nil
		default:
			return false, fmt.Errorf(".%s[%d]: the route matches %s already, as %v; one name cannot be matched twice", field, i, v.Name, was["value"])
		}
	}
	if len(values) > 0 {
		match[field] = toAnySlice(values)
	}
	return true, nil
}

// valueMatchMap returns a header or a query parameter in the format of the Gateway API and of
// scripts.
func valueMatchMap(v rollouts.ValueMatch) map[string]any {
	return map[string]any{"type": ptr.Deref(v.Type, matchExact), "name": v.Name, "value": v.Value}
}
