// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

var httpRoute = gateway{join: joinHTTP, apart: apartHTTP, beats: beatsHTTP}

var errNoMatch = errors.New(": it says nothing about requests; use path, headers or queryParams")

// joinHTTP narrows a match of an HTTPRoute.
func joinHTTP(own map[string]any, m rollouts.RouteMatch) (map[string]any, error) {
	if m.Path == nil && len(m.Headers) == 0 && len(m.QueryParams) == 0 {
		return nil, errNoMatch
	}
	joined := runtime.DeepCopyJSON(own)
	path, met, err := pathOf(within(own, "path")).and(pathOfStep(m.Path))
	if err != nil || !met {
		return nil, err
	}
	joined["path"] = map[string]any{"type": path.kind, "value": path.value}
	for _, part := range []struct {
		key  string
		more []rollouts.ValueMatch
		fold bool
	}{{"headers", m.Headers, true}, {"queryParams", m.QueryParams, false}} {
		values, met, err := joinValues(objects(joined[part.key]), part.more, part.fold)
		if err != nil {
			return nil, fmt.Errorf(".%s%w", part.key, err)
		}
		if !met {
			return nil, nil
		}
		if len(values) > 0 {
			joined[part.key] = listed(values)
		}
	}
	return joined, nil
}

// joinValues adds values to those that a request must have, or tells that no
// request can have all of them. The names of headers are the same in any case.
func joinValues(own []map[string]any, more []rollouts.ValueMatch, fold bool) (values []map[string]any, met bool, err error) {
	values = own
	for i, v := range more {
		kind := matchExact
		if v.Type != nil {
			kind = *v.Type
		}
		next := map[string]any{"type": kind, "name": v.Name, "value": v.Value}
		at := slices.IndexFunc(values, func(o map[string]any) bool {
			name := str(o, "name", "")
			return name == v.Name || fold && strings.EqualFold(name, v.Name)
		})
		if at < 0 {
			values = append(values, next)
			continue
		}
		was := values[at]
		same, exact := was["value"] == v.Value, str(was, "type", matchExact) == matchExact
		switch {
		case same && exact == (kind == matchExact):
		case exact && kind == matchExact:
			return nil, false, nil
		default:
			return nil, false, fmt.Errorf("[%d]: the route matches %s already, as %v; one name cannot be matched twice", i, v.Name, was["value"])
		}
	}
	return values, true, nil
}

const (
	pathPrefix  = "PathPrefix"
	pathExact   = "Exact"
	pathPattern = "RegularExpression"
)

type path struct{ kind, value string }

func pathOf(m map[string]any) path {
	return path{str(m, "type", pathPrefix), str(m, "value", "/")}
}

func pathOfStep(m *rollouts.PathMatch) path {
	p := path{pathPrefix, "/"}
	if m != nil && m.Type != nil {
		p.kind = *m.Type
	}
	if m != nil && m.Value != nil {
		p.value = *m.Value
	}
	return p
}

func (a path) every() bool { return a == path{pathPrefix, "/"} }

// covers reports whether a prefix has another path below it: whole elements count.
func (a path) covers(value string) bool {
	prefix := strings.TrimSuffix(a.value, "/")
	return a.kind == pathPrefix && (strings.TrimSuffix(value, "/") == prefix || strings.HasPrefix(value, prefix+"/"))
}

// and is the path of requests that meet both; met is false where there are none.
func (a path) and(b path) (both path, met bool, err error) {
	switch {
	case a == b || b.every():
		return a, true, nil
	case a.every():
		return b, true, nil
	case a.kind == pathPattern || b.kind == pathPattern:
		return path{}, false, fmt.Errorf(".path: %s cannot be matched together with %s, which the route matches already", b.value, a.value)
	case a.covers(b.value):
		return b, true, nil
	case b.covers(a.value):
		return a, true, nil
	default:
		return path{}, false, nil
	}
}

func apartHTTP(a, b map[string]any) bool {
	_, met, err := pathOf(within(a, "path")).and(pathOf(within(b, "path")))
	return err == nil && !met || differ(a, b, "method")
}

// differ reports whether both want another value of a field.
func differ(a, b map[string]any, key string) bool {
	x, y := str(a, key, ""), str(b, key, "")
	return x != "" && y != "" && x != y
}

// beatsHTTP goes by the order of the Gateway API: an exact path, the longest
// prefix, a method, the most headers, the most parameters. Where patterns
// stand in it is left to implementations.
func beatsHTTP(a, b map[string]any) bool {
	x, y := pathOf(within(a, "path")), pathOf(within(b, "path"))
	if x.kind == pathPattern || y.kind == pathPattern {
		return true
	}
	return slices.Compare(x.rank(a), y.rank(b)) >= 0
}

func (a path) rank(match map[string]any) []int {
	exact, method := 0, 0
	if a.kind == pathExact {
		exact = 1
	}
	if str(match, "method", "") != "" {
		method = 1
	}
	return []int{exact, len(a.value), method, len(objects(match["headers"])), len(objects(match["queryParams"]))}
}
