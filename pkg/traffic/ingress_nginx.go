// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"maps"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// nginx routes by a second Ingress that the ingress controller of that name
// takes for the canary of the first.
type nginx struct{}

var _ Provider = nginx{}

// Observe implements Provider.
func (nginx) Observe(objs Objects) planner.Route {
	if objs.CanaryIngress == nil || !made(objs.CanaryIngress) {
		return planner.Route{}
	}
	r := readNginx(objs.CanaryIngress.Annotations)
	r.Routed = true
	return r
}

// Route implements Provider. The canary Ingress is created with the values
// wanted, never first with others.
func (n nginx) Route(objs Objects, want planner.Route) ([]object.Change, error) {
	if want.Weight == nil && len(want.Matches) == 0 {
		return n.Restore(objs)
	}
	if err := routable(objs); err != nil {
		return nil, err
	}
	if objs.CanaryIngress == nil && len(want.Matches) == 0 && *want.Weight == 0 {
		return nil, nil
	}
	keys, err := writeNginx(want)
	if err != nil {
		return nil, fmt.Errorf("routing by ingress %s: %w", objs.Ingress.Name, err)
	}
	canary, err := canaryIngress(objs, keys)
	if err != nil {
		return nil, fmt.Errorf("routing: %w", err)
	}
	if objs.CanaryIngress == nil {
		return []object.Change{{Want: canary}}, nil
	}
	return change(objs.CanaryIngress, merged(objs.CanaryIngress, canary)), nil
}

// routable refuses to route what is not there or not ours.
func routable(objs Objects) error {
	switch {
	case objs.Ingress == nil:
		return errors.New("routing: the stable ingress does not exist")
	case objs.Service == nil:
		return errors.New("routing: the stable service does not exist")
	case objs.CanaryIngress != nil && !made(objs.CanaryIngress):
		return fmt.Errorf("routing: ingress %s exists and belongs to no release", objs.CanaryIngress.Name)
	}
	return nil
}

// Restore implements Provider.
func (nginx) Restore(objs Objects) ([]object.Change, error) {
	c := objs.CanaryIngress
	if c == nil || !made(c) || c.DeletionTimestamp != nil {
		return nil, nil
	}
	return []object.Change{{Base: c}}, nil
}

// canaryIngress is the stable Ingress, less what leads elsewhere than to the
// stable Service, leading to the canary Service.
func canaryIngress(objs Objects, keys map[string]string) (*networkingv1.Ingress, error) {
	stable := objs.Ingress
	rules := canaryRules(stable.Spec.Rules, objs.Service.Name)
	if len(rules) == 0 {
		return nil, fmt.Errorf("ingress %s has no rule that leads to service %s", stable.Name, objs.Service.Name)
	}
	annotations := copied(stable.Annotations)
	for _, k := range nginxKeys {
		delete(annotations, k)
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, keys)
	spec := stable.Spec.DeepCopy()
	return &networkingv1.Ingress{
		TypeMeta: metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "Ingress"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       stable.Namespace,
			Name:            stable.Name + rollouts.CanarySuffix,
			Labels:          maps.Clone(stable.Labels),
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{objs.Owner},
		},
		Spec: networkingv1.IngressSpec{IngressClassName: spec.IngressClassName, TLS: spec.TLS, Rules: rules},
	}, nil
}

func canaryRules(rules []networkingv1.IngressRule, service string) []networkingv1.IngressRule {
	var kept []networkingv1.IngressRule
	for _, rule := range rules {
		if rule.HTTP == nil {
			continue
		}
		var paths []networkingv1.HTTPIngressPath
		for _, path := range rule.HTTP.Paths {
			if path.Backend.Service == nil || path.Backend.Service.Name != service {
				continue
			}
			path = *path.DeepCopy()
			path.Backend.Service.Name = service + rollouts.CanarySuffix
			paths = append(paths, path)
		}
		if len(paths) > 0 {
			rule.HTTP = &networkingv1.HTTPIngressRuleValue{Paths: paths}
			kept = append(kept, rule)
		}
	}
	return kept
}

// merged leaves on an existing canary Ingress what others added to it.
func merged(base, want *networkingv1.Ingress) *networkingv1.Ingress {
	m := base.DeepCopy()
	for _, k := range nginxKeys {
		delete(m.Annotations, k)
	}
	m.Annotations = added(m.Annotations, want.Annotations)
	m.Labels = added(m.Labels, want.Labels)
	m.OwnerReferences = owned(m.OwnerReferences, want.OwnerReferences[0])
	m.Spec = want.Spec
	return m
}

func added(m, more map[string]string) map[string]string {
	if m == nil {
		return more
	}
	maps.Copy(m, more)
	return m
}

// The annotations that make an Ingress a canary.
const (
	nginxPrefix  = "nginx.ingress.kubernetes.io/"
	nginxCanary  = nginxPrefix + "canary"
	nginxWeight  = nginxPrefix + "canary-weight"
	nginxHeader  = nginxPrefix + "canary-by-header"
	nginxValue   = nginxPrefix + "canary-by-header-value"
	nginxPattern = nginxPrefix + "canary-by-header-pattern"
	nginxCookie  = nginxPrefix + "canary-by-cookie"

	// matchCookie as the name of a header match means a cookie.
	matchCookie = "canary-by-cookie"

	matchExact   = "Exact"
	matchPattern = "RegularExpression"
)

var nginxKeys = []string{nginxCanary, nginxWeight, nginxHeader, nginxValue, nginxPattern, nginxCookie}
