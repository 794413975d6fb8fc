// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	services := w.view(kindService)
	o.net = traffic.Objects{
		Stable:        types.NamespacedName{Name: ref.Service},
		Owner:         *metav1.NewControllerRef(o.rollout, wire("Rollout")),
		RevisionKey:   o.row.RevisionKey,
		Shared:        release.DisableCanaryService,
		Service:       find[*corev1.Service](services, kindService, ref.Service),
		CanaryService: find[*corev1.Service](services, kindService, ref.Service+rollouts.CanarySuffix),
		Routers:       traffic.Routers(ref, "spec.strategy.canary.trafficRoutings[0]"),
	}
	if o.workload != nil {
		o.net.Template = o.row.PodLabels(o.workload)
	}
	if p := o.rollout.Status.Active(); p != nil {
		o.net.StableRevision = p.StableRevision
	}
	o.net.Originals, o.net.Made = planner.Originals(o.rollout), planner.Made(o.rollout)
	o.net.Held, o.net.Others = o.rollout.Status.Network != nil, w.others(o.rollout)
	for i := range o.net.Routers {
		w.observeRouter(o, &o.net.Routers[i])
	}
	seen := traffic.ObserveSteps(o.net, ref, release.Steps)
	o.facts.Route = &seen
	o.facts.Originals, o.facts.Doubted = traffic.Originals(o.net), traffic.Doubted(o.net)
}

// others are the Rollouts that name the same Service or router, and those that are
// only told of.
func (w *world) others(mine *rollouts.Rollout) []traffic.Other {
	all := slices.Clone(w.elsewhere)
	_, release := mine.Spec.Strategy.Active()
	for _, other := range each[*rollouts.Rollout](w.view(kindRollout)) {
		_, theirs := other.Spec.Strategy.Active()
		if other.Name == mine.Name || len(theirs.TrafficRoutings) == 0 || theirs.TrafficRoutings[0].Service != release.TrafficRoutings[0].Service {
			continue
		}
		if routes, first := planner.RoutesBefore(other, mine); routes {
			all = append(all, traffic.Other{Who: "rollout/" + other.Name, What: "service/" + theirs.TrafficRoutings[0].Service, First: first})
		}
	}
	return all
}

func (w *world) observeRouter(o *observation, r *traffic.Router) {
	if !r.Ingress() {
		if obj := w.router(r); obj != nil {
			r.Object = obj
		}
		return
	}
	ingresses := w.view(kindIngress)
	if in := find[*networkingv1.Ingress](ingresses, kindIngress, r.Name); in != nil {
		r.Object = in
	}
	r.Beside = find[*networkingv1.Ingress](ingresses, kindIngress, r.Name+rollouts.CanarySuffix)
	if (o.net.CanaryService != nil || o.net.Shared) && r.Beside == nil {
		// Its absence is asked of the server.
		r.Beside = find[*networkingv1.Ingress](w.store.objects, kindIngress, r.Name+rollouts.CanarySuffix)
	}
}

func route(o *observation, action planner.Action) ([]object.Change, error) {
	switch a := action.(type) {
	case planner.Pin:
		return traffic.Pin(o.net, a.Revision)
	case planner.Unpin:
		return traffic.Unpin(o.net), nil
	case planner.ServeCanary:
		return traffic.CanaryService(o.net, a.Revision)
	case planner.RouteTo:
		return traffic.Route(o.net, a.Revision, a.Want)
	case planner.Unroute:
		return traffic.Restore(o.net)
	case planner.RemoveCanaryService:
		return traffic.RemoveCanaryService(o.net), nil
	default:
		return nil, fmt.Errorf("no effect for %q", action)
	}
}
