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

// canaryIngress routes by a second Ingress, which the ingress controller treats as
// the canary of the first. Its annotations are derived from those of the first.
type canaryIngress struct{ dialect }

// dialect adds a route to the annotations of an Ingress. It may change the map.
type dialect func(annotations map[string]string, p Params) (map[string]string, error)

var _ Provider = canaryIngress{}

// Observe implements Provider. A canary Ingress without a record was made by OpenKruise.
func (b canaryIngress) Observe(o Objects, r Router) planner.Route {
	c := r.Beside
	if c == nil || !o.made(c) || terminating(c) && len(o.ledBack(c)) == 0 {
		return planner.Route{}
	}
	seen, ok := recorded(c)
	seen.Routed = true
	if ok {
		// The next route adds the label to an Ingress that an earlier version of Weir made.
		have := c.DeepCopy()
		have.Labels = owned(have.Labels)
		want, err := b.wanted(o, r, seen)
		seen.Edited = err != nil || !equality.Semantic.DeepEqual(have, want)
	}
	return seen
}

// Can implements Provider.
func (b canaryIngress) Can(o Objects, r Router, want planner.Route) error {
	_, err := b.canary(o, r, want)
	return err
}

// Supports implements Provider.
func (b canaryIngress) Supports(p Params) error {
	_, err := b.dialect(map[string]string{}, p)
	return err
}

// Route implements Provider. The canary Ingress is created with the wanted values at
// once, and not for a share of nothing.
func (b canaryIngress) Route(o Objects, r Router, want planner.Route) ([]object.Change, error) {
	if want.Weight == nil && len(want.Matches) == 0 {
		return b.Restore(o, r)
	}
	if r.Beside != nil && !o.made(r.Beside) {
		return nil, errors.New(rollouts.Taken("ingress", r.Beside))
	}
	if r.Beside == nil {
		canary, err := b.render(o, r, want)
		if err != nil || want.IsEmpty() {
			return nil, err
		}
		return []object.Change{{Want: canary}}, nil
	}
	next, err := b.wanted(o, r, want)
	if err != nil {
		return nil, err
	}
	return change(r.Beside, next), nil
}

// Restore implements Provider. Controllers go on with an Ingress that is being deleted
// until it is gone, and finalizers of others may keep it.
func (b canaryIngress) Restore(o Objects, r Router) ([]object.Change, error) {
	c := r.Beside
	switch {
	case c == nil || !o.made(c):
		return nil, nil
	case terminating(c):
		return o.ledBack(c), nil
	default:
		return []object.Change{{Base: c}}, nil
	}
}

// ledBack makes a canary Ingress lead to the stable Service.
func (o Objects) ledBack(c *networkingv1.Ingress) []object.Change {
	p, want := o.params(planner.Route{}), c.DeepCopy()
	for _, rule := range want.Spec.Rules {
		lead(rule, p.Canary, p.Stable)
	}
	return change(c, want)
}

// lead makes the paths of a rule that lead to one Service lead to another.
func lead(rule networkingv1.IngressRule, from, to string) {
	if rule.HTTP == nil {
		return
	}
	for _, path := range rule.HTTP.Paths {
		if leadsTo(path, from) {
			path.Backend.Service.Name = to
		}
	}
}

func leadsTo(path networkingv1.HTTPIngressPath, service string) bool {
	return path.Backend.Service != nil && path.Backend.Service.Name == service
}

// canary is the stable Ingress with only the paths that lead to the stable Service,
// leading to the canary Service, and with a route.
func (b canaryIngress) canary(o Objects, r Router, want planner.Route) (*networkingv1.Ingress, error) {
	stable, ok := r.Object.(*networkingv1.Ingress)
	if !ok {
		return nil, fmt.Errorf("%s does not exist", r.path())
	}
	p := o.params(want)
	spec := stable.Spec.DeepCopy()
	rules := canaryRules(spec.Rules, p)
	if len(rules) == 0 {
		return nil, fmt.Errorf("ingress %s has no rule that leads to service %s", stable.Name, p.Stable)
	}
	c := &networkingv1.Ingress{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: kindIngress.Kind},
		ObjectMeta: o.canaryMeta(stable),
		Spec:       networkingv1.IngressSpec{IngressClassName: spec.IngressClassName, TLS: spec.TLS, Rules: rules},
	}
	c.Labels = owned(c.Labels)
	var err error
	c.Annotations, err = b.dialect(added(map[string]string{}, c.Annotations), p)
	return c, err
}

// render is the canary Ingress with the whole route on record, and with the part of it
// that this router does.
func (b canaryIngress) render(o Objects, r Router, want planner.Route) (*networkingv1.Ingress, error) {
	c, err := b.canary(o, r, o.partOf(b, r, want))
	if err == nil {
		c.Annotations, err = marked(c.Annotations, want, "")
	}
	return c, err
}

// canaryRules keeps the paths that lead to the stable Service.
func canaryRules(rules []networkingv1.IngressRule, p Params) []networkingv1.IngressRule {
	var kept []networkingv1.IngressRule
	for _, rule := range rules {
		if rule.HTTP == nil {
			continue
		}
		rule.HTTP.Paths = slices.DeleteFunc(rule.HTTP.Paths, func(path networkingv1.HTTPIngressPath) bool { return !leadsTo(path, p.Stable) })
		if lead(rule, p.Stable, p.Canary); len(rule.HTTP.Paths) > 0 {
			kept = append(kept, rule)
		}
	}
	return kept
}

// wanted is the canary Ingress that exists as it should be. What others added
// to it stays; what only the route on record needed goes.
func (b canaryIngress) wanted(o Objects, r Router, want planner.Route) (*networkingv1.Ingress, error) {
	next, err := b.render(o, r, want)
	if err != nil {
		return nil, err
	}
	m := r.Beside.DeepCopy()
	var written map[string]string
	if was, ok := recorded(m); !ok {
		m.Annotations = nil
	} else if before, err := b.render(o, r, was); err == nil {
		written = before.Annotations
	}
	m.Annotations = replaced(m.Annotations, nil, written, next.Annotations)
	m.Labels = replaced(m.Labels, nil, nil, next.Labels)
	m.OwnerReferences = o.owned(m.OwnerReferences)
	m.Spec = next.Spec
	return m, nil
}
