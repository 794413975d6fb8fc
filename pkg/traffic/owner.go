// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// owners returns what the owner wants of the object, and what a route has made of
// it. It is the original on record, but for the parts of its spec that the owner has
// changed since: parts that no route touches, and parts that were written anew
// without the update revision.
func (e inPlace) owners(o Objects, r Router, obj *unstructured.Unstructured) (original, written Data, err error) {
	now, err := dataOf(obj)
	if err != nil {
		return Data{}, Data{}, err
	}
	original, routed, err := e.originalOf(o, r, obj)
	if err != nil || !routed || !o.believes(r, obj) {
		return original, now, err
	}
	was, ok := recorded(obj)
	if !ok || obj.GetAnnotations()[rollouts.AnnotationRoutedBy] != e.script {
		// What another script has written is not known, and may look like the owner's.
		return original, now, nil
	}
	p := o.params(o.partOf(e, r, was))
	if written, err = e.routed(original, p); err != nil {
		// What was written is not known any more; the object decides.
		return original, now, nil //nolint:nilerr // see above
	}
	ours := e.mentions(p)
	original.Spec = ownersOf("", original.Spec, written.Spec, now.Spec, ours)
	if e.annotations != "" {
		original.Annotations = ownersOf(e.annotations, original.Annotations, written.Annotations, now.Annotations, ours)
	}
	return original, written, nil
}

// ownersOf returns what the owner wants of the keys with a prefix. ours reports
// whether a part belongs to the route.
func ownersOf[V any](prefix string, original, written, now map[string]V, ours func(part any) bool) map[string]V {
	if original == nil {
		original = map[string]V{}
	}
	same := equality.Semantic.DeepEqual
	for _, key := range keysOf(original, written, now) {
		theirs, has := now[key]
		touched := !same(original[key], written[key])
		switch {
		case !strings.HasPrefix(key, prefix) || same(theirs, written[key]):
		case touched && ours(theirs):
			if more, ok := withAdded(original[key], written[key], theirs, ours).(V); ok {
				original[key] = more
			}
		case has:
			original[key] = theirs
		default:
			delete(original, key)
		}
	}
	return original
}

// mentions returns a function that reports whether a part of a spec, or an
// annotation, names the update revision.
func (e inPlace) mentions(p Params) func(part any) bool {
	mark := p.Canary
	switch {
	case e.mark != "":
		mark = e.mark
	case p.Canary == p.Stable:
		mark = subsetCanary
	}
	return func(part any) bool {
		text, ok := part.(string)
		if !ok {
			data, err := json.Marshal(part)
			if err != nil {
				return false
			}
			text = string(data)
		}
		// Where the word is the name of a Service, its domain may follow.
		return strings.Contains(text, `"`+mark+`"`) || strings.Contains(text, `"`+mark+"."+p.Namespace)
	}
}

// withAdded returns a list of the original with the elements that its owner has
// added to the list that a route has made of it. It returns nil where the owner did
// anything else, and where the place among the rules of the route is not known.
func withAdded(original, written, now any, ours func(part any) bool) any {
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
