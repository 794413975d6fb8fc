// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Objects of other projects are read as JSON, so that unknown fields are kept.

// mapElements returns the elements of a list that are objects.
func mapElements(list any) []map[string]any {
	var all []map[string]any
	elements, _ := list.([]any)
	for _, e := range elements {
		if m, ok := e.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

func toAnySlice[T any](all []T) []any {
	list := make([]any, 0, len(all))
	for _, e := range all {
		list = append(list, e)
	}
	return list
}

// childMap returns an object within another one; nil if it does not exist.
func childMap(m map[string]any, key string) map[string]any {
	inner, _ := m[key].(map[string]any)
	return inner
}

// stringField returns a string field of an object, or a default value if the field is missing or
// empty.
func stringField(m map[string]any, key, otherwise string) string {
	if s, ok := m[key].(string); ok && s != "" {
		return s
	}
	return otherwise
}

// intField returns an integer field of an object, or a default value if the field is missing.
func intField(m map[string]any, key string, otherwise int64) int64 {
	switch n := m[key].(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	default:
		return otherwise
	}
}

// headerModifierMap returns a change of request headers in the format of the Gateway API and of
// scripts.
func headerModifierMap(h *rollouts.HeaderModifier) map[string]any {
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
		m["remove"] = toAnySlice(h.Remove)
	}
	return m
}

// mergeHeaderModifiers returns an owner's change of request headers, overridden by the change of a
// step.
func mergeHeaderModifiers(theirs map[string]any, h *rollouts.HeaderModifier) map[string]any {
	both := headerModifierMap(h)
	for _, key := range []string{"set", "add", "remove"} {
		ours, _ := both[key].([]any)
		if all := append(removeHeaders(theirs[key], headerNames(h)), ours...); len(all) > 0 {
			both[key] = all
		}
	}
	return both
}

// headerNames returns the lower-case names of the headers that a change affects.
func headerNames(h *rollouts.HeaderModifier) sets.Set[string] {
	names := sets.New[string]()
	for _, header := range slices.Concat(h.Set, h.Add) {
		names.Insert(strings.ToLower(header.Name))
	}
	for _, name := range h.Remove {
		names.Insert(strings.ToLower(name))
	}
	return names
}

// removeHeaders returns a list of headers, or of header names, without the given names.
func removeHeaders(list any, names sets.Set[string]) []any {
	all, _ := list.([]any)
	return slices.DeleteFunc(slices.Clone(all), func(e any) bool {
		name, _ := e.(string)
		if header, ok := e.(map[string]any); ok {
			name = stringField(header, "name", "")
		}
		return names.Has(strings.ToLower(name))
	})
}
