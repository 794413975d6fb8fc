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

// Drift returns the name of a field of spec in which an object differs from its manifest; empty if there is
// none. Empty values count as absent, because servers set defaults. Sequences of white space count as one
// blank, because tools wrap lines.
func Drift(want, have *unstructured.Unstructured) string {
	wanted, _, _ := unstructured.NestedMap(want.Object, "spec")
	found, _, _ := unstructured.NestedMap(have.Object, "spec")
	for _, field := range sets.List(unionKeys(wanted, found)) {
		if !areAlike(wanted[field], found[field]) {
			return "spec." + field
		}
	}
	return ""
}

func unionKeys(a, b map[string]any) sets.Set[string] { return sets.KeySet(a).Union(sets.KeySet(b)) }

func areAlike(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, isMap := b.(map[string]any)
		if !isMap && b != nil {
			return false
		}
		return !slices.ContainsFunc(unionKeys(x, y).UnsortedList(), func(key string) bool { return !areAlike(x[key], y[key]) })
	case []any:
		y, _ := b.([]any)
		return slices.EqualFunc(x, y, areAlike)
	case nil:
		return b == nil || areAlike(b, a)
	default:
		return b != nil && normalizeSpace(x) == normalizeSpace(b) || b == nil && normalizeSpace(x) == ""
	}
}

func normalizeSpace(v any) string { return strings.Join(strings.Fields(fmt.Sprint(v)), " ") }
