// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
)

// withAdded is a list of the original with what its owner has added to the one
// that a route has made of it. It is nil where anything else was done, and where
// the place among the rules of the route cannot be told.
func withAdded(original, written, now any, ours func(any) bool) any {
	own, isList := original.([]any)
	was, _ := written.([]any)
	is, _ := now.([]any)
	at := 0
	for at < min(len(was), len(is)) && equality.Semantic.DeepEqual(was[at], is[at]) {
		at++
	}
	more := len(is) - len(was)
	if !isList || more <= 0 || !equality.Semantic.DeepEqual(was[at:], is[at+more:]) {
		return nil
	}
	added := is[at : at+more]
	switch {
	case ours(added):
		return nil
	case len(was) == len(own):
		return slices.Insert(slices.Clone(own), at, added...)
	case at == len(was):
		return slices.Concat(own, added)
	case at == 0:
		return slices.Concat(added, own)
	default:
		return nil
	}
}
