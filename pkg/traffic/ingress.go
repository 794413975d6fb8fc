// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"maps"

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

// dialect adds a route to the annotations of an Ingress. The map is its own.
type dialect func(annotations map[string]string, p Params) (map[string]string, error)

var _ Provider = canaryIngress{}

// Observe implements Provider. A canary Ingress without a record was made by
// whoever served the API before.
func (b canaryIngress) Observe(o Objects, r Router) planner.Route {
	c := r.Beside
	if c == nil || !o.made(c) || leaves(c) && len(o.ledBack(c)) == 0 {
		return planner.Route{}
	}
	seen := planner.Route{Routed: true}
	was, ok := recorded(c)
	if !ok {
		return seen
	}
	want, err := b.wanted(o, r, was)
	seen.Edited = err != nil || !equality.Semantic.DeepEqual(c, want)
	seen.Weight, seen.Matches, seen.Headers = was.Weight, was.Matches, was.Headers
	return seen
}

// Can implements Provider.
func (b canaryIngress) Can(o Objects, r Router, want planner.Route) error {
	_, err := b.canary(o, r, want, want)
	return err
}

// Supports implements Provider.
func (b canaryIngress) Supports(p Params) error {
	_, err := b.dialect(map[string]string{}, p)
	return err
}

// Route implements Provider. The canary Ingress is created with the values
// wanted, never first with others, and not for a share of nothing.
func (b canaryIngress) Route(o Objects, r Router, want planner.Route) ([]object.Change, error) {
	if want.Weight == nil && len(want.Matches) == 0 {
		return b.Restore(o, r)
	}
	if r.Beside != nil && !o.made(r.Beside) {
		return nil, errors.New(rollouts.Taken("ingress", r.Beside))
	}
	if r.Beside == nil {
		canary, err := b.canary(o, r, want, o.mine(b, r, want))
		if err != nil || want.Nothing() {
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

// Restore implements Provider. Routers go on with one that is being deleted until it
// is gone, which finalizers of others may keep from coming.
func (b canaryIngress) Restore(o Objects, r Router) ([]object.Change, error) {
	c := r.Beside
	switch {
	case c == nil || !o.made(c):
		return nil, nil
	case leaves(c):
		return o.ledBack(c), nil
	default:
		return []object.Change{{Base: c}}, nil
	}
}

// ledBack leads a canary Ingress to the stable Service.
func (o Objects) ledBack(c *networkingv1.Ingress) []object.Change {
	p, want := o.params(planner.Route{}), c.DeepCopy()
	for _, rule := range want.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for i := range rule.HTTP.Paths {
			if s := rule.HTTP.Paths[i].Backend.Service; s != nil && s.Name == p.Canary {
				s.Name = p.Stable
			}
		}
	}
	return change(c, want)
}

// canary is the stable Ingress, less what leads elsewhere than to the stable
// Service, leading to the canary Service, with a route on record of which this
// router does its part.
func (b canaryIngress) canary(o Objects, r Router, whole, part planner.Route) (*networkingv1.Ingress, error) {
	stable, ok := r.Object.(*networkingv1.Ingress)
	if !ok {
		return nil, fmt.Errorf("%s does not exist", r.path())
	}
	p := o.params(part)
	rules := canaryRules(stable.Spec.Rules, p)
	if len(rules) == 0 {
		return nil, fmt.Errorf("ingress %s has no rule that leads to service %s", stable.Name, p.Stable)
	}
	annotations := copied(stable.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations, err := b.dialect(annotations, p)
	if err == nil {
		annotations, err = marked(annotations, whole, "")
	}
	if err != nil {
		return nil, err
	}
	spec := stable.Spec.DeepCopy()
	return &networkingv1.Ingress{
		TypeMeta: metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: kindIngress.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       stable.Namespace,
			Name:            stable.Name + rollouts.CanarySuffix,
			Labels:          copied(stable.Labels),
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{o.Owner},
		},
		Spec: networkingv1.IngressSpec{IngressClassName: spec.IngressClassName, TLS: spec.TLS, Rules: rules},
	}, nil
}

func canaryRules(rules []networkingv1.IngressRule, p Params) []networkingv1.IngressRule {
	var kept []networkingv1.IngressRule
	for _, rule := range rules {
		if rule.HTTP == nil {
			continue
		}
		var paths []networkingv1.HTTPIngressPath
		for _, path := range rule.HTTP.Paths {
			if path.Backend.Service == nil || path.Backend.Service.Name != p.Stable {
				continue
			}
			path = *path.DeepCopy()
			path.Backend.Service.Name = p.Canary
			paths = append(paths, path)
		}
		if len(paths) > 0 {
			rule.HTTP = &networkingv1.HTTPIngressRuleValue{Paths: paths}
			kept = append(kept, rule)
		}
	}
	return kept
}

// wanted is the canary Ingress that exists as it should be. What others added
// to it stays; what the route on record needed and the next does not, goes.
func (b canaryIngress) wanted(o Objects, r Router, want planner.Route) (*networkingv1.Ingress, error) {
	next, err := b.canary(o, r, want, o.mine(b, r, want))
	if err != nil {
		return nil, err
	}
	m := r.Beside.DeepCopy()
	before := next
	if was, ok := recorded(m); ok {
		before, err = b.canary(o, r, was, o.mine(b, r, was))
	} else {
		m.Annotations = nil
	}
	if err == nil {
		for k := range before.Annotations {
			delete(m.Annotations, k)
		}
	}
	m.Annotations = added(m.Annotations, next.Annotations)
	m.Labels = added(m.Labels, next.Labels)
	m.OwnerReferences = o.owned(m.OwnerReferences)
	m.Spec = next.Spec
	return m, nil
}

func added(m, more map[string]string) map[string]string {
	if m == nil {
		return more
	}
	maps.Copy(m, more)
	return m
}
