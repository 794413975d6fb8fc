// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// canaryIngress routes with a second Ingress, which the ingress controller treats as the canary of
// the owner's Ingress. The annotations of the second Ingress are derived from those of the owner's
// Ingress.
type canaryIngress struct{ dialect }

// dialect adds a route to the annotations of an Ingress. It may change the map.
type dialect func(annotations map[string]string, p Params) (map[string]string, error)

var _ Provider = canaryIngress{}

// Observe implements Provider. A canary Ingress without a route record was created by OpenKruise.
func (b canaryIngress) Observe(o Objects, r Router) planner.Route {
	c := r.CanaryIngress
	if c == nil || !o.createdForOwner(c) || isTerminating(c) && len(o.redirectIngressToStable(c)) == 0 {
		return planner.Route{}
	}
	seen, ok := recordedRoute(c)
	seen.Routed = true
	if ok {
		// The next route adds the label to an Ingress that an earlier version of Weir made.
		have := c.DeepCopy()
		have.Labels = addReleaseLabel(have.Labels)
		want, err := b.updatedCanaryIngress(o, r, seen)
		seen.Edited = err != nil || !equality.Semantic.DeepEqual(have, want)
	}
	return seen
}

// CheckRoute implements Provider.
func (b canaryIngress) CheckRoute(o Objects, r Router, want planner.Route) error {
	_, err := b.newCanaryIngress(o, r, want)
	return err
}

// CheckKind implements Provider.
func (b canaryIngress) CheckKind(p Params) error {
	_, err := b.dialect(map[string]string{}, p)
	return err
}

// Route implements Provider. A new canary Ingress has the wanted annotations from the start. It is
// not created for a weight of 0.
func (b canaryIngress) Route(o Objects, r Router, want planner.Route) ([]object.Change, error) {
	if want.Weight == nil && len(want.Matches) == 0 {
		return b.Restore(o, r)
	}
	if r.CanaryIngress != nil && !o.createdForOwner(r.CanaryIngress) {
		return nil, errors.New(rollouts.Taken("ingress", r.CanaryIngress))
	}
	if r.CanaryIngress == nil {
		canary, err := b.render(o, r, want)
		if err != nil || want.IsEmpty() {
			return nil, err
		}
		return []object.Change{{Want: canary}}, nil
	}
	next, err := b.updatedCanaryIngress(o, r, want)
	if err != nil {
		return nil, err
	}
	return diffObjects(r.CanaryIngress, next), nil
}

// Restore implements Provider. Ingress controllers use an Ingress that is being deleted until it is
// gone, and finalizers may keep it. So a terminating canary Ingress is changed to use the stable
// Service.
func (b canaryIngress) Restore(o Objects, r Router) ([]object.Change, error) {
	c := r.CanaryIngress
	switch {
	case c == nil || !o.createdForOwner(c):
		return nil, nil
	case isTerminating(c):
		return o.redirectIngressToStable(c), nil
	default:
		return []object.Change{{Base: c}}, nil
	}
}

// redirectIngressToStable replaces the canary Service in a canary Ingress by the stable Service.
func (o Objects) redirectIngressToStable(c *networkingv1.Ingress) []object.Change {
	p, want := o.paramsFor(planner.Route{}), c.DeepCopy()
	for _, rule := range want.Spec.Rules {
		replaceBackend(rule, p.CanaryService, p.StableService)
	}
	return diffObjects(c, want)
}

// replaceBackend replaces a Service by another one in the paths of a rule.
func replaceBackend(rule networkingv1.IngressRule, from, to string) {
	if rule.HTTP == nil {
		return
	}
	for _, path := range rule.HTTP.Paths {
		if hasBackend(path, from) {
			path.Backend.Service.Name = to
		}
	}
}

func hasBackend(path networkingv1.HTTPIngressPath, service string) bool {
	return path.Backend.Service != nil && path.Backend.Service.Name == service
}

// newCanaryIngress returns a copy of the owner's Ingress with a route. The copy has only the paths
// to the stable Service, and they use the canary Service instead.
func (b canaryIngress) newCanaryIngress(o Objects, r Router, want planner.Route) (*networkingv1.Ingress, error) {
	stable, ok := r.Object.(*networkingv1.Ingress)
	if !ok {
		return nil, fmt.Errorf("%s does not exist", r.displayName())
	}
	p := o.paramsFor(want)
	spec := stable.Spec.DeepCopy()
	rules := canaryRules(spec.Rules, p)
	if len(rules) == 0 {
		return nil, fmt.Errorf("ingress %s has no rule with the backend service %s", stable.Name, p.StableService)
	}
	c := &networkingv1.Ingress{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: kindIngress.Kind},
		ObjectMeta: o.canaryObjectMeta(stable),
		Spec:       networkingv1.IngressSpec{IngressClassName: spec.IngressClassName, TLS: spec.TLS, Rules: rules},
	}
	c.Labels = addReleaseLabel(c.Labels)
	var err error
	c.Annotations, err = b.dialect(copyInto(map[string]string{}, c.Annotations), p)
	return c, err
}

// render returns the canary Ingress with the part of a route that this router supports. Its route
// record has the whole route.
func (b canaryIngress) render(o Objects, r Router, want planner.Route) (*networkingv1.Ingress, error) {
	c, err := b.newCanaryIngress(o, r, o.routeForRouter(b, r, want))
	if err == nil {
		c.Annotations, err = addRouteRecord(c.Annotations, want, "")
	}
	return c, err
}

// canaryRules returns the rules that use the stable Service, with the canary Service in its place.
func canaryRules(rules []networkingv1.IngressRule, p Params) []networkingv1.IngressRule {
	var kept []networkingv1.IngressRule
	for _, rule := range rules {
		if rule.HTTP == nil {
			continue
		}
		rule.HTTP.Paths = slices.DeleteFunc(rule.HTTP.Paths, func(path networkingv1.HTTPIngressPath) bool { return !hasBackend(path, p.StableService) })
		if replaceBackend(rule, p.StableService, p.CanaryService); len(rule.HTTP.Paths) > 0 {
			kept = append(kept, rule)
		}
	}
	return kept
}

// updatedCanaryIngress returns the existing canary Ingress with a new route. Metadata that others
// added is kept. Annotations that only the recorded route needed are removed.
func (b canaryIngress) updatedCanaryIngress(o Objects, r Router, want planner.Route) (*networkingv1.Ingress, error) {
	next, err := b.render(o, r, want)
	if err != nil {
		return nil, err
	}
	m := r.CanaryIngress.DeepCopy()
	var written map[string]string
	if was, ok := recordedRoute(m); !ok {
		m.Annotations = nil
	} else if before, err := b.render(o, r, was); err == nil {
		written = before.Annotations
	}
	m.Annotations = replaceWritten(m.Annotations, nil, written, next.Annotations)
	m.Labels = replaceWritten(m.Labels, nil, nil, next.Labels)
	m.OwnerReferences = o.withOwner(m.OwnerReferences)
	m.Spec = next.Spec
	return m, nil
}
