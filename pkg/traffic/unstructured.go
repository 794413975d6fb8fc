// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Objects of other projects are read as JSON, so that fields which are not
// known here are kept.

// objects are the elements of a list.
func objects(list any) []map[string]any {
	var all []map[string]any
	elements, _ := list.([]any)
	for _, e := range elements {
		if m, ok := e.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

func listed[T any](all []T) []any {
	list := make([]any, 0, len(all))
	for _, e := range all {
		list = append(list, e)
	}
	return list
}

// within is an object inside another, nil if it is not there.
func within(m map[string]any, key string) map[string]any {
	inner, _ := m[key].(map[string]any)
	return inner
}

// str is a string inside an object.
func str(m map[string]any, key, otherwise string) string {
	if s, ok := m[key].(string); ok && s != "" {
		return s
	}
	return otherwise
}

// whole is an integer inside an object.
func whole(m map[string]any, key string, otherwise int64) int64 {
	switch n := m[key].(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	default:
		return otherwise
	}
}

// modifier is a change of request headers as the Gateway API and scripts spell it.
func modifier(h *rollouts.HeaderModifier) map[string]any {
	m := map[string]any{}
	for key, headers := range map[string][]rollouts.Header{"set": h.Set, "add": h.Add} {
		var list []any
		for _, header := range headers {
			list = append(list, map[string]any{"name": header.Name, "value": header.Value})
		}
		if len(list) > 0 {
			m[key] = list
		}
	}
	if len(h.Remove) > 0 {
		m["remove"] = listed(h.Remove)
	}
	return m
}

// modified returns an owner's change of request headers with ours on top of it.
func modified(theirs map[string]any, h *rollouts.HeaderModifier) map[string]any {
	both := modifier(h)
	for _, key := range []string{"set", "add", "remove"} {
		ours, _ := both[key].([]any)
		if all := append(without(theirs[key], namesOf(h)), ours...); len(all) > 0 {
			both[key] = all
		}
	}
	return both
}

// namesOf are the headers that a change is about, in lower case.
func namesOf(h *rollouts.HeaderModifier) sets.Set[string] {
	names := sets.New[string]()
	for _, header := range slices.Concat(h.Set, h.Add) {
		names.Insert(strings.ToLower(header.Name))
	}
	for _, name := range h.Remove {
		names.Insert(strings.ToLower(name))
	}
	return names
}

// without returns a list of headers, or of their names, without some of them.
func without(list any, names sets.Set[string]) []any {
	all, _ := list.([]any)
	return slices.DeleteFunc(slices.Clone(all), func(e any) bool {
		name, _ := e.(string)
		if header, ok := e.(map[string]any); ok {
			name = str(header, "name", "")
		}
		return names.Has(strings.ToLower(name))
	})
}
