// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"maps"

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
	// limits returns what no object of the kind can do; nil if each object decides.
	limits func(Params) error
	// annotations is the prefix of the annotations that route, as the spec does.
	annotations string
	// strip removes the route that OpenKruise has put on an object without keeping its
	// original. found reports whether there is any. Nil where OpenKruise keeps that.
	strip func(Data, Params) (stripped Data, found bool)
	// script identifies the user's script that edits; empty for a row of the table.
	script string
	// accepted returns the status of the object: why the router has not taken it up
	// yet, or why it never will. Nil where there is no such status.
	accepted func(*unstructured.Unstructured) (pending, refused string)
	// mark is a word that only a route puts into a spec, where that is not the
	// name of the canary Service. Such a router names pods for others and sends
	// no requests itself, so that it cannot select requests.
	mark string
}

// Data is the part of an object that routes, spelled as for users' scripts.
type Data struct {
	Spec        map[string]any    `json:"spec,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Edit adds a route to an original. It may change the data that it is given.
type Edit func(original Data, p Params) (Data, error)

var _ Provider = inPlace{}

// Observe implements Provider.
func (e inPlace) Observe(o Objects, r Router) planner.Route {
	obj, err := o.routable(r)
	if err != nil {
		return planner.Route{Trouble: fmt.Sprintf("%s: %s", r.Field, err)}
	}
	if _, routed, err := e.originalOf(o, r, obj); !routed || err != nil {
		return planner.Route{}
	}
	seen, ok := recorded(obj)
	next, err := e.render(o, r, seen)
	seen.Routed = true
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
	// The original on record decides, without later changes by the owner: the route
	// on record was divided among the routers by it.
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

// Route implements Provider. It does not begin with a share of nothing.
func (e inPlace) Route(o Objects, r Router, want planner.Route) ([]object.Change, error) {
	if want.Weight == nil && len(want.Matches) == 0 {
		return e.Restore(o, r)
	}
	obj, err := o.routable(r)
	if err != nil {
		return nil, err
	}
	next, err := e.render(o, r, want)
	if err != nil || want.IsEmpty() && !e.Observe(o, r).Routed {
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
	return change(obj, withData(obj, original, written, original)), nil
}

// render is the object as it should be: with the whole route on record, and with
// the part of it that this router does.
func (e inPlace) render(o Objects, r Router, want planner.Route) (*unstructured.Unstructured, error) {
	obj, err := o.routable(r)
	if err != nil {
		return nil, err
	}
	original, written, err := e.owners(o, r, obj)
	if err != nil {
		return nil, err
	}
	next, err := e.routed(original, o.params(o.partOf(e, r, want)))
	if err != nil {
		return nil, err
	}
	kept, err := json.Marshal(original)
	if err != nil {
		return nil, fmt.Errorf("keeping the original: %w", err)
	}
	if next.Annotations, err = marked(next.Annotations, want, o.ownerName()); err != nil {
		return nil, err
	}
	next.Annotations[rollouts.AnnotationOriginalSpec] = string(kept)
	if e.script != "" {
		next.Annotations[rollouts.AnnotationRoutedBy] = e.script
	}
	return withData(obj, original, written, next), nil
}

// withData is the object with other data. Labels and annotations that neither
// written nor next changes are left to their writers.
func withData(obj *unstructured.Unstructured, original, written, next Data) *unstructured.Unstructured {
	m := obj.DeepCopy()
	m.Object["spec"] = runtime.DeepCopyJSON(next.Spec)
	annotations := obj.GetAnnotations()
	forget(annotations)
	m.SetAnnotations(replaced(annotations, original.Annotations, written.Annotations, next.Annotations))
	m.SetLabels(replaced(obj.GetLabels(), original.Labels, written.Labels, next.Labels))
	return m
}

// replaced returns what is on the object now with next in place of what was written.
func replaced(now, original, written, next map[string]string) map[string]string {
	m := added(map[string]string{}, now)
	for _, key := range keysOf(original, written, next) {
		to, has := next[key]
		switch {
		case same(original, written, key) && same(original, next, key):
		case has:
			m[key] = to
		default:
			delete(m, key)
		}
	}
	if len(m) == 0 {
		return nil
	}
	return m
}

// added adds more to a map.
func added(m, more map[string]string) map[string]string {
	maps.Copy(m, more)
	return m
}

// same reports whether two maps agree about a key.
func same(a, b map[string]string, key string) bool {
	x, inA := a[key]
	y, inB := b[key]
	return inA == inB && x == y
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

// dataOf is the data of an object, without the record on it.
func dataOf(obj *unstructured.Unstructured) (Data, error) {
	spec, _, err := unstructured.NestedMap(obj.Object, "spec")
	if err != nil {
		return Data{}, err
	}
	d := Data{Spec: spec, Labels: obj.GetLabels(), Annotations: obj.GetAnnotations()}
	forget(d.Annotations)
	return d, nil
}

func (d Data) copied() Data {
	return Data{Spec: runtime.DeepCopyJSON(d.Spec), Labels: maps.Clone(d.Labels), Annotations: maps.Clone(d.Annotations)}
}
