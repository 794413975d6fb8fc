// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// inPlace routes by the owner's object itself, whose original is kept on it.
type inPlace struct {
	edit Edit
	// limits tells what no object of the kind can do; nil where that is for each
	// of them to say.
	limits func(Params) error
	// annotations is how the keys of those begin that route, as the spec does.
	annotations string
	// strip takes off what OpenKruise has put on an object without keeping its
	// original, and tells whether there is any. Nil where it keeps that.
	strip func(Data, Params) (stripped Data, found bool)
	// script tells the user's script that edits from others; empty for a row.
	script string
	// accepted tells what the router says of the object: why it has not taken it
	// up yet, or why it never will. Nil where it says nothing.
	accepted func(*unstructured.Unstructured) (pending, refused string)
	// mark is a word that only a route puts into a spec, where that is not the
	// name of the canary Service. Such a router names pods for others and sends
	// no requests itself, so that it cannot tell matches.
	mark string
}

// Data is what of an object routes, in the words of users' scripts.
type Data struct {
	Spec        map[string]any    `json:"spec,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Edit adds a route to an original. The data is its own.
type Edit func(original Data, p Params) (Data, error)

var _ Provider = inPlace{}

// Observe implements Provider.
func (e inPlace) Observe(o Objects, r Router) planner.Route {
	obj, err := o.routable(r)
	if err != nil {
		return planner.Route{Trouble: fmt.Sprintf("%s: %s", r.Field, err)}
	}
	was, ok := recorded(obj)
	if _, routed, err := e.originalOf(o, r, obj); !routed || err != nil {
		return planner.Route{}
	}
	seen := planner.Route{Routed: true}
	next, err := e.render(o, r, was, o.mine(e, r, was))
	seen.Weight, seen.Matches, seen.Headers = was.Weight, was.Matches, was.Headers
	seen.Edited = ok && (err != nil || !equality.Semantic.DeepEqual(obj, next))
	if e.accepted != nil {
		var refused string
		if seen.Pending, refused = e.accepted(obj); refused != "" {
			seen.Refused = fmt.Sprintf("%s: %s", r.Field, refused)
		}
	}
	return seen
}

// Can implements Provider.
func (e inPlace) Can(o Objects, r Router, want planner.Route) error {
	if e.mark != "" && len(want.Matches) > 0 {
		return fmt.Errorf("%s sends no requests", r.path())
	}
	obj, err := o.routable(r)
	if err != nil {
		return err
	}
	// What the owner has changed since is not asked for: that is told by what
	// each router took of the route on record, and so by what it can do.
	original, _, err := e.originalOf(o, r, obj)
	if err != nil {
		return err
	}
	_, err = e.routed(original, o.params(want))
	return err
}

// Supports implements Provider.
func (e inPlace) Supports(p Params) error {
	if e.limits == nil {
		return nil
	}
	return e.limits(p)
}

// routed is an original with a route.
func (e inPlace) routed(original Data, p Params) (Data, error) {
	if err := e.Supports(p); err != nil {
		return Data{}, err
	}
	return e.edit(original.copied(), p)
}

// Route implements Provider. A share of nothing is not begun with.
func (e inPlace) Route(o Objects, r Router, want planner.Route) ([]object.Change, error) {
	if want.Weight == nil && len(want.Matches) == 0 {
		return e.Restore(o, r)
	}
	obj, err := o.routable(r)
	if err != nil {
		return nil, err
	}
	next, err := e.render(o, r, want, o.mine(e, r, want))
	if err != nil || want.Nothing() && !e.Observe(o, r).Routed {
		return nil, err
	}
	return change(obj, next), nil
}

// Restore implements Provider.
func (e inPlace) Restore(o Objects, r Router) ([]object.Change, error) {
	obj, err := readable(r)
	if err != nil || !e.Observe(o, r).Routed {
		return nil, err
	}
	original, written, err := e.owners(o, r, obj)
	if err != nil {
		return nil, err
	}
	return change(obj, respelled(obj, original, written, original)), nil
}

// render is the object as it should be with a route on record of which this
// router does its part.
func (e inPlace) render(o Objects, r Router, whole, part planner.Route) (*unstructured.Unstructured, error) {
	obj, err := o.routable(r)
	if err != nil {
		return nil, err
	}
	original, written, err := e.owners(o, r, obj)
	if err != nil {
		return nil, err
	}
	next, err := e.routed(original, o.params(part))
	if err != nil {
		return nil, err
	}
	kept, err := json.Marshal(original)
	if err != nil {
		return nil, fmt.Errorf("keeping the original: %w", err)
	}
	if next.Annotations, err = marked(next.Annotations, whole, o.who()); err != nil {
		return nil, err
	}
	next.Annotations[rollouts.AnnotationOriginalSpec] = string(kept)
	if e.script != "" {
		next.Annotations[rollouts.AnnotationRoutedBy] = e.script
	}
	return respelled(obj, original, written, next), nil
}

// owners is what the owner wants of the object, and what a route has made of
// it. It is the original that was kept, but for the parts of its spec that the
// owner has changed since: those that no route touches, and those that were
// written anew without the update revision.
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
		// What another script has written cannot be told from what the owner has.
		return original, now, nil
	}
	p := o.params(o.mine(e, r, was))
	if written, err = e.routed(original, p); err != nil {
		// What was written can no longer be told; what is there says enough.
		return original, now, nil //nolint:nilerr // see above
	}
	original.Spec = ownersOf(keysOf(original.Spec, written.Spec, now.Spec), original.Spec, written.Spec, now.Spec, e.mentions(p))
	if e.annotations != "" {
		was, is := original.Annotations, now.Annotations
		keys := slices.DeleteFunc(keysOf(was, written.Annotations, is), func(key string) bool { return !strings.HasPrefix(key, e.annotations) })
		original.Annotations = ownersOf(keys, was, written.Annotations, is, e.mentions(p))
	}
	return original, written, nil
}

// ownersOf is what the owner wants of some keys, of which some parts are ours.
func ownersOf[V any](keys []string, original, written, now map[string]V, ours func(any) bool) map[string]V {
	if original == nil {
		original = map[string]V{}
	}
	same := equality.Semantic.DeepEqual
	for _, key := range keys {
		theirs, has := now[key]
		touched := !same(original[key], written[key])
		switch {
		case same(theirs, written[key]):
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

// mentions reports whether a part of a spec, or an annotation, knows the update
// revision.
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

// respelled is the object with other data. Labels and annotations that neither
// what was written nor what is wanted changes are left to whoever put them there.
func respelled(obj *unstructured.Unstructured, original, written, next Data) *unstructured.Unstructured {
	m := obj.DeepCopy()
	m.Object["spec"] = runtime.DeepCopyJSON(next.Spec)
	annotations := obj.GetAnnotations()
	forget(annotations)
	m.SetAnnotations(replaced(annotations, original.Annotations, written.Annotations, next.Annotations))
	m.SetLabels(replaced(obj.GetLabels(), original.Labels, written.Labels, next.Labels))
	return m
}

func replaced(now, original, written, next map[string]string) map[string]string {
	m := maps.Clone(now)
	if m == nil {
		m = map[string]string{}
	}
	for _, from := range []map[string]string{written, next} {
		for _, key := range keysOf(original, from) {
			was, had := original[key]
			if is, has := from[key]; has == had && is == was {
				continue
			}
			if to, has := next[key]; has {
				m[key] = to
			} else {
				delete(m, key)
			}
		}
	}
	if len(m) == 0 {
		return nil
	}
	return m
}

// keysOf are the keys of several maps, in order.
func keysOf[V any](ms ...map[string]V) []string {
	all := sets.New[string]()
	for _, m := range ms {
		all = all.Union(sets.KeySet(m))
	}
	return sets.List(all)
}

// readable is the object as JSON. Ingresses are read with their type, since
// most are routed by one beside them.
func readable(r Router) (*unstructured.Unstructured, error) {
	switch obj := r.Object.(type) {
	case *unstructured.Unstructured:
		return obj, nil
	case *networkingv1.Ingress:
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", r.path(), err)
		}
		u := &unstructured.Unstructured{Object: m}
		u.SetGroupVersionKind(networkingv1.SchemeGroupVersion.WithKind(kindIngress.Kind))
		return u, nil
	default:
		return nil, fmt.Errorf("%s does not exist", r.path())
	}
}

// dataOf is what an object says now, less what is kept on it here.
func dataOf(obj *unstructured.Unstructured) (Data, error) {
	spec, _, err := unstructured.NestedMap(obj.Object, "spec")
	if err != nil {
		return Data{}, err
	}
	d := Data{Spec: spec, Labels: obj.GetLabels(), Annotations: obj.GetAnnotations()}
	forget(d.Annotations)
	return d, nil
}

// forget drops what is kept on a router here.
func forget(annotations map[string]string) {
	for _, key := range []string{rollouts.AnnotationOriginalSpec, rollouts.AnnotationRouted, rollouts.AnnotationRoutedBy} {
		delete(annotations, key)
	}
}

func (d Data) copied() Data {
	return Data{Spec: runtime.DeepCopyJSON(d.Spec), Labels: maps.Clone(d.Labels), Annotations: maps.Clone(d.Annotations)}
}
