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

// matcher narrows the matches of rules by those of a step. A request must meet what
// the rule matches already and what the step wants.
type matcher struct {
	// field is the field of a rule that lists its matches.
	field string
	// check returns why no rule of the kind can match as the step wants.
	check func(rollouts.RouteMatch) error
	// path and values narrow a match by a path, and by headers or query parameters.
	// met reports whether any request can meet the result.
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

// join returns a match narrowed by one of the step; nil if no request meets both.
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

// joinRules returns, for each rule that serves the stable Service, one list of
// narrowed matches for each match of the step that its requests can meet.
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
			return nil, fmt.Errorf("matches[%d]: no such request comes to service %s", i, p.Stable)
		}
	}
	return all, nil
}

// matchesOf returns the matches of a rule, of which any is enough.
func (j matcher) matchesOf(rule map[string]any) []map[string]any {
	if all := objects(rule[j.field]); len(all) > 0 {
		return all
	}
	return []map[string]any{{}}
}

// The types of matches. A value is never matched by a prefix.
const (
	matchPrefix  = "PathPrefix"
	matchExact   = "Exact"
	matchPattern = "RegularExpression"
)

type path struct {
	kind, value string
	// byLetter reports whether a prefix may end inside an element.
	byLetter bool
}

// pathOf reads a path of the Gateway API.
func pathOf(m map[string]any) path {
	return path{kind: str(m, "type", matchPrefix), value: str(m, "value", "/")}
}

func pathOfStep(m *rollouts.PathMatch) path {
	if m == nil {
		m = &rollouts.PathMatch{}
	}
	return path{kind: ptr.Deref(m.Type, matchPrefix), value: ptr.Deref(m.Value, "/")}
}

// match is the path as the Gateway API and scripts spell it.
func (a path) match() map[string]any { return map[string]any{"type": a.kind, "value": a.value} }

func (a path) every() bool { return a.kind == matchPrefix && a.value == "/" }

// covers reports whether another path is below a prefix.
func (a path) covers(value string) bool {
	prefix := strings.TrimSuffix(a.value, "/")
	switch {
	case a.kind != matchPrefix:
		return false
	case a.byLetter:
		return strings.HasPrefix(value, a.value)
	default:
		return strings.TrimSuffix(value, "/") == prefix || strings.HasPrefix(value, prefix+"/")
	}
}

// and returns the path of requests that meet both. met reports whether there are
// any, and known is false where a pattern leaves that open.
func (a path) and(b path) (both path, met, known bool) {
	switch {
	case a == b || b.every():
		return a, true, true
	case a.every():
		return b, true, true
	case a.kind == matchPattern || b.kind == matchPattern:
		return path{}, false, false
	case a.covers(b.value):
		return b, true, true
	default:
		return a, b.covers(a.value), true
	}
}

func joinPath(match map[string]any, want *rollouts.PathMatch) (met bool, err error) {
	has, wanted := pathOf(within(match, "path")), pathOfStep(want)
	both, met, known := has.and(wanted)
	if !known {
		return false, fmt.Errorf(".path: %s cannot be matched together with %s, which the route matches already", wanted.value, has.value)
	}
	match["path"] = both.match()
	return met, nil
}

// joinValues adds to a list of values. The names of headers are the same in any case.
func joinValues(match map[string]any, field string, want []rollouts.ValueMatch) (met bool, err error) {
	values := objects(match[field])
	for i, v := range want {
		at := slices.IndexFunc(values, func(o map[string]any) bool {
			name := str(o, "name", "")
			return name == v.Name || field == "headers" && strings.EqualFold(name, v.Name)
		})
		if at < 0 {
			values = append(values, valueOf(v))
			continue
		}
		was, wantExact := values[at], ptr.Deref(v.Type, matchExact) == matchExact
		same, exact := was["value"] == v.Value, str(was, "type", matchExact) == matchExact
		switch {
		case same && exact == wantExact:
		case exact && wantExact:
			return false, nil
		default:
			return false, fmt.Errorf(".%s[%d]: the route matches %s already, as %v; one name cannot be matched twice", field, i, v.Name, was["value"])
		}
	}
	if len(values) > 0 {
		match[field] = listed(values)
	}
	return true, nil
}

// valueOf is a header or a query parameter as the Gateway API and scripts spell it.
func valueOf(v rollouts.ValueMatch) map[string]any {
	return map[string]any{"type": ptr.Deref(v.Type, matchExact), "name": v.Name, "value": v.Value}
}
