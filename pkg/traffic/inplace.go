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

// inPlace routes by editing the owner's object. The original is kept in an annotation of the
// object.
type inPlace struct {
	edit Edit
	// checkKind returns why no object of the kind supports a route; nil if this depends on the
	// object.
	checkKind func(Params) error
	// annotationPrefix is the prefix of annotations that route requests, in addition to the spec.
	annotationPrefix string
	// stripLegacyRoute removes a route that OpenKruise added without storing the original. found
	// reports whether there was such a route. It is nil for kinds whose original OpenKruise stores.
	stripLegacyRoute func(Data, Params) (stripped Data, found bool)
	// scriptHash identifies the user's script that edits the object; empty for a built-in provider.
	scriptHash string
	// readStatus returns why the router has not applied the route yet, or why it rejects the route.
	// It is nil for kinds without such a status.
	readStatus func(*unstructured.Unstructured) (pending, refused string)
	// routeMarker is the string by which a route is recognized in a spec. It is empty if the name
	// of the canary Service marks the route. A kind with a marker names pods for other routers and
	// routes no requests, so it cannot match requests.
	routeMarker string
}

// Data is the part of an object that routes requests. Its JSON form is the input of users' scripts.
type Data struct {
	Spec        map[string]any    `json:"spec,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Edit adds a route to an original. It may change the original that it is given.
type Edit func(original Data, p Params) (Data, error)

var _ Provider = inPlace{}

// Observe implements Provider.
func (e inPlace) Observe(o Objects, r Router) planner.Route {
	obj, err := o.routableObject(r)
	if err != nil {
		return planner.Route{UnroutableReason: fmt.Sprintf("%s: %s", r.Field, err)}
	}
	if _, routed, err := e.originalOf(o, r, obj); !routed || err != nil {
		return planner.Route{}
	}
	seen, ok := recordedRoute(obj)
	next, err := e.render(o, r, seen)
	seen.Routed = true
	seen.Edited = ok && (err != nil || !equality.Semantic.DeepEqual(obj, next))
	if e.readStatus != nil {
		var refused string
		if seen.Pending, refused = e.readStatus(obj); refused != "" {
			seen.Refused = fmt.Sprintf("%s: %s", r.Field, refused)
		}
	}
	return seen
}

// CheckRoute implements Provider.
func (e inPlace) CheckRoute(o Objects, r Router, want planner.Route) error {
	if e.routeMarker != "" && len(want.Matches) > 0 {
		return fmt.Errorf("%s sends no requests", r.displayName())
	}
	obj, err := o.routableObject(r)
	if err != nil {
		return err
	}
	// The stored original is used without later changes by the owner, because the recorded route
	// was divided among the routers according to the stored original.
	original, _, err := e.originalOf(o, r, obj)
	if err != nil {
		return err
	}
	_, err = e.addRoute(original, o.paramsFor(want))
	return err
}

// CheckKind implements Provider.
func (e inPlace) CheckKind(p Params) error {
	if e.checkKind == nil {
		return nil
	}
	return e.checkKind(p)
}

// addRoute returns an original with a route.
func (e inPlace) addRoute(original Data, p Params) (Data, error) {
	if err := e.CheckKind(p); err != nil {
		return Data{}, err
	}
	return e.edit(original.deepCopy(), p)
}

// Route implements Provider. If there is no route yet, a weight of 0 changes nothing.
func (e inPlace) Route(o Objects, r Router, want planner.Route) ([]object.Change, error) {
	if want.Weight == nil && len(want.Matches) == 0 {
		return e.Restore(o, r)
	}
	obj, err := o.routableObject(r)
	if err != nil {
		return nil, err
	}
	next, err := e.render(o, r, want)
	if err != nil || want.IsEmpty() && !e.Observe(o, r).Routed {
		return nil, err
	}
	return diffObjects(obj, next), nil
}

// Restore implements Provider.
func (e inPlace) Restore(o Objects, r Router) ([]object.Change, error) {
	obj, err := toUnstructured(r)
	if err != nil || !e.Observe(o, r).Routed {
		return nil, err
	}
	original, written, err := e.ownerData(o, r, obj)
	if err != nil {
		return nil, err
	}
	return diffObjects(obj, withData(obj, original, written, original)), nil
}

// render returns the object with the part of a route that this router supports. Its route record
// has the whole route.
func (e inPlace) render(o Objects, r Router, want planner.Route) (*unstructured.Unstructured, error) {
	obj, err := o.routableObject(r)
	if err != nil {
		return nil, err
	}
	original, written, err := e.ownerData(o, r, obj)
	if err != nil {
		return nil, err
	}
	next, err := e.addRoute(original, o.paramsFor(o.routeForRouter(e, r, want)))
	if err != nil {
		return nil, err
	}
	kept, err := json.Marshal(original)
	if err != nil {
		return nil, fmt.Errorf("keeping the original: %w", err)
	}
	if next.Annotations, err = addRouteRecord(next.Annotations, want, o.ownerName()); err != nil {
		return nil, err
	}
	next.Annotations[rollouts.AnnotationOriginalSpec] = string(kept)
	if e.scriptHash != "" {
		next.Annotations[rollouts.AnnotationRoutedBy] = e.scriptHash
	}
	return withData(obj, original, written, next), nil
}

// withData returns a copy of the object with next as its data. Labels and annotations that are
// equal in written and next are left as they are in the object, because other writers may have
// changed them.
func withData(obj *unstructured.Unstructured, original, written, next Data) *unstructured.Unstructured {
	m := obj.DeepCopy()
	m.Object["spec"] = runtime.DeepCopyJSON(next.Spec)
	annotations := obj.GetAnnotations()
	removeRouteRecord(annotations)
	m.SetAnnotations(replaceWritten(annotations, original.Annotations, written.Annotations, next.Annotations))
	m.SetLabels(replaceWritten(obj.GetLabels(), original.Labels, written.Labels, next.Labels))
	return m
}

// replaceWritten returns the current map with the written entries replaced by next. Entries that
// neither written nor next changes compared to original are kept.
func replaceWritten(now, original, written, next map[string]string) map[string]string {
	m := copyInto(map[string]string{}, now)
	for _, key := range sortedKeys(original, written, next) {
		to, has := next[key]
		switch {
		case equalAt(original, written, key) && equalAt(original, next, key):
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

// copyInto copies the entries of a second map into the first one, and returns the first one.
func copyInto(m, more map[string]string) map[string]string {
	maps.Copy(m, more)
	return m
}

// equalAt reports whether two maps have the same entry, or no entry, for a key.
func equalAt(a, b map[string]string, key string) bool {
	x, inA := a[key]
	y, inB := b[key]
	return inA == inB && x == y
}

// sortedKeys returns the keys of several maps in order.
func sortedKeys[V any](ms ...map[string]V) []string {
	all := sets.New[string]()
	for _, m := range ms {
		all = all.Union(sets.KeySet(m))
	}
	return sets.List(all)
}

// toUnstructured returns the owner's object of a router as JSON. Ingresses are read as typed
// objects, because most ingress classes route with a canary Ingress.
func toUnstructured(r Router) (*unstructured.Unstructured, error) {
	switch obj := r.Object.(type) {
	case *unstructured.Unstructured:
		return obj, nil
	case *networkingv1.Ingress:
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", r.displayName(), err)
		}
		u := &unstructured.Unstructured{Object: m}
		u.SetGroupVersionKind(networkingv1.SchemeGroupVersion.WithKind(kindIngress.Kind))
		return u, nil
	default:
		return nil, fmt.Errorf("%s does not exist", r.displayName())
	}
}

// readData returns the data of an object without Weir's annotations.
func readData(obj *unstructured.Unstructured) (Data, error) {
	spec, _, err := unstructured.NestedMap(obj.Object, "spec")
	if err != nil {
		return Data{}, err
	}
	d := Data{Spec: spec, Labels: obj.GetLabels(), Annotations: obj.GetAnnotations()}
	removeRouteRecord(d.Annotations)
	return d, nil
}

func (d Data) deepCopy() Data {
	return Data{Spec: runtime.DeepCopyJSON(d.Spec), Labels: maps.Clone(d.Labels), Annotations: maps.Clone(d.Annotations)}
}
