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

// ownerData returns the data that the owner wants for the object, and the data that the last route
// wrote. The first is the stored original with the changes that the owner has made since: changes
// of parts that the route does not touch, and parts that the owner rewrote without the canary
// revision.
func (e inPlace) ownerData(o Objects, r Router, obj *unstructured.Unstructured) (original, written Data, err error) {
	now, err := readData(obj)
	if err != nil {
		return Data{}, Data{}, err
	}
	original, routed, err := e.originalOf(o, r, obj)
	if err != nil || !routed || !o.trustsOriginal(r, obj) {
		return original, now, err
	}
	was, ok := recordedRoute(obj)
	if !ok || obj.GetAnnotations()[rollouts.AnnotationRoutedBy] != e.scriptHash {
		// Another script wrote the object. Its output is unknown and could be mistaken for the
		// owner's changes.
		return original, now, nil
	}
	p := o.paramsFor(o.routeForRouter(e, r, was))
	if written, err = e.addRoute(original, p); err != nil {
		// The written data cannot be computed any more, so the current object decides.
		return original, now, nil //nolint:nilerr // see above
	}
	ours := e.namesCanary(p)
	original.Spec = mergeOwnerChanges("", original.Spec, written.Spec, now.Spec, ours)
	if e.annotationPrefix != "" {
		original.Annotations = mergeOwnerChanges(e.annotationPrefix, original.Annotations, written.Annotations, now.Annotations, ours)
	}
	return original, written, nil
}

// mergeOwnerChanges applies the owner's changes to the entries of original whose key has the
// prefix. ours reports whether a part of the object belongs to the route.
func mergeOwnerChanges[V any](prefix string, original, written, now map[string]V, ours func(part any) bool) map[string]V {
	if original == nil {
		original = map[string]V{}
	}
	same := equality.Semantic.DeepEqual
	for _, key := range sortedKeys(original, written, now) {
		theirs, has := now[key]
		touched := !same(original[key], written[key])
		switch {
		case !strings.HasPrefix(key, prefix) || same(theirs, written[key]):
		case touched && ours(theirs):
			if more, ok := mergeAddedElements(original[key], written[key], theirs, ours).(V); ok {
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

// namesCanary returns a function that reports whether a part of a spec, or an annotation, names the
// canary revision.
func (e inPlace) namesCanary(p Params) func(part any) bool {
	mark := p.CanaryService
	switch {
	case e.routeMarker != "":
		mark = e.routeMarker
	case p.CanaryService == p.StableService:
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
		// The name of a Service may be followed by its domain.
		return strings.Contains(text, `"`+mark+`"`) || strings.Contains(text, `"`+mark+"."+p.Namespace)
	}
}

// mergeAddedElements returns a list of the original together with elements that the owner added
// after a route changed the list. It returns nil if the owner made any other change, or if the
// position of the added elements in the original is ambiguous.
func mergeAddedElements(original, written, now any, ours func(part any) bool) any {
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
