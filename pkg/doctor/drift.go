// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Drift names a field of spec in which an object is not as it was shipped; empty if
// none is. What is empty counts as absent, and white space as one blank: servers
// fill in defaults, and tools break lines of their own.
func Drift(want, have *unstructured.Unstructured) string {
	wanted, _, _ := unstructured.NestedMap(want.Object, "spec")
	found, _, _ := unstructured.NestedMap(have.Object, "spec")
	for _, field := range sets.List(keys(wanted, found)) {
		if !alike(wanted[field], found[field]) {
			return "spec." + field
		}
	}
	return ""
}

func keys(a, b map[string]any) sets.Set[string] { return sets.KeySet(a).Union(sets.KeySet(b)) }

func alike(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, isMap := b.(map[string]any)
		if !isMap && b != nil {
			return false
		}
		return !slices.ContainsFunc(keys(x, y).UnsortedList(), func(key string) bool { return !alike(x[key], y[key]) })
	case []any:
		y, _ := b.([]any)
		return slices.EqualFunc(x, y, alike)
	case nil:
		return b == nil || alike(b, a)
	default:
		return b != nil && words(x) == words(b) || b == nil && words(x) == ""
	}
}

func words(v any) string { return strings.Join(strings.Fields(fmt.Sprint(v)), " ") }
