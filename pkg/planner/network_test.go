// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/traffic"
)

// observeTraffic reads the Services and Ingresses of the plan, if it has any.
func (w *world) observeTraffic(o *observation) {
	_, release := o.rollout.Spec.Strategy.Active()
	if release == nil || len(release.TrafficRoutings) == 0 {
		return
	}
	ref := release.TrafficRoutings[0]
	services, ingresses := w.view(kindService), w.view(kindIngress)
	o.routing = ref
	o.net = traffic.Objects{
		Owner:         *metav1.NewControllerRef(o.rollout, wire("Rollout")),
		RevisionKey:   o.row.RevisionKey,
		Service:       find[*corev1.Service](services, kindService, ref.Service),
		CanaryService: find[*corev1.Service](services, kindService, ref.Service+rollouts.CanarySuffix),
	}
	if ref.Ingress != nil {
		o.net.Ingress = find[*networkingv1.Ingress](ingresses, kindIngress, ref.Ingress.Name)
		o.net.CanaryIngress = find[*networkingv1.Ingress](ingresses, kindIngress, ref.Ingress.Name+rollouts.CanarySuffix)
		if o.net.CanaryService != nil && o.net.CanaryIngress == nil {
			// Its absence is asked of the server.
			o.net.CanaryIngress = find[*networkingv1.Ingress](w.store.objects, kindIngress, ref.Ingress.Name+rollouts.CanarySuffix)
		}
	}
	seen := traffic.Observe(ref, o.net, planner.CurrentStep(o.rollout).Matches)
	o.facts.Route = &seen
}

func route(o *observation, action planner.Action) ([]object.Change, error) {
	switch a := action.(type) {
	case planner.Pin:
		return traffic.Pin(o.net, a.Revision)
	case planner.Unpin:
		return traffic.Unpin(o.net), nil
	case planner.RouteTo:
		provider, err := traffic.Find(o.routing)
		if err != nil {
			return nil, err
		}
		service, err := traffic.CanaryService(o.net, a.Revision)
		if err != nil {
			return nil, err
		}
		router, err := provider.Route(o.net, a.Want)
		return append(service, router...), err
	case planner.Unroute:
		provider, err := traffic.Find(o.routing)
		if err != nil {
			return nil, err
		}
		return provider.Restore(o.net)
	case planner.RemoveCanaryService:
		return traffic.RemoveCanaryService(o.net), nil
	default:
		return nil, fmt.Errorf("no effect for %q", action)
	}
}
