// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

func TestObserve(t *testing.T) {
	twenty := int32(20)
	for name, tc := range map[string]struct {
		in   func(*testing.T) Objects
		ref  rollouts.TrafficRoutingRef
		want planner.Route
		// wanted are the matches of the step.
		wanted []rollouts.RouteMatch
	}{
		"nothing": {func(*testing.T) Objects { return Objects{Routers: RoutersFor(ingressRef(""), where)} }, ingressRef(""), planner.Route{Missing: "service/web", StableServiceMissing: true}, nil},
		"no ingress": {func(t *testing.T) Objects {
			objs := ingressObjects(t)
			objs.Routers[0].Object = nil
			return objs
		}, ingressRef(""), planner.Route{Missing: "ingress/front", Pinned: "one"}, nil},
		"no ingress, routed": {func(t *testing.T) Objects {
			objs := routedObjects(t, weightRoute(20))
			objs.Routers[0].Object = nil
			return objs
		}, ingressRef(""), planner.Route{Missing: "ingress/front", Pinned: "one", Canary: "two", Weight: &twenty, Routed: true, Edited: true}, nil},
		"no service, routed": {func(t *testing.T) Objects {
			objs := routedObjects(t, weightRoute(20))
			objs.Service = nil
			return objs
		}, ingressRef(""), planner.Route{Missing: "service/web", StableServiceMissing: true, Canary: "two", Weight: &twenty, Routed: true}, nil},
		"no router": {func(t *testing.T) Objects {
			objs := ingressObjects(t)
			objs.Routers = nil
			return objs
		}, ingressRef(""), planner.Route{Pinned: "one", UnroutableReason: "no router is named for service web; set ingress, gateway.httpRouteName or customNetworkRefs"}, nil},
		"stable": {ingressObjects, ingressRef("nginx"), planner.Route{Pinned: "one"}, nil},
		"canary service only": {func(t *testing.T) Objects { return routedObjects(t, planner.Route{}) }, ingressRef(""),
			planner.Route{Pinned: "one", Canary: "two"}, nil},
		"routed": {func(t *testing.T) Objects { return routedObjects(t, weightRoute(20)) }, ingressRef(""),
			planner.Route{Pinned: "one", Canary: "two", Weight: &twenty, Routed: true}, nil},
		"unknown class": {func(t *testing.T) Objects { return routedObjects(t, weightRoute(20)) }, ingressRef("traefik"),
			planner.Route{Pinned: "one", Canary: "two", Weight: &twenty, Routed: true, Edited: true, UnroutableReason: `spec.strategy.canary.trafficRoutings[0].ingress.classType: "traefik" is not known; use nginx, aliyun-alb, mse, higress, aws-alb, or add a Lua script under the key lua.traffic.routing.ingress.traefik`}, nil},
		"matches that nginx cannot": {ingressObjects, ingressRef(""),
			planner.Route{Pinned: "one", UnroutableReason: where + ".ingress: matches[0].headers: nginx needs a header to match"}, []rollouts.RouteMatch{{}}},
		"a rule that leads elsewhere": {func(t *testing.T) Objects {
			objs := ingressObjects(t)
			stableIngress(&objs).Spec.Rules = nil
			return objs
		}, ingressRef(""), planner.Route{Pinned: "one", UnroutableReason: where + ".ingress: ingress front has no rule with the backend service web"}, nil},
		"somebody's": {func(t *testing.T) Objects {
			objs := routedObjects(t, weightRoute(20))
			objs.CanaryService.OwnerReferences, objs.Routers[0].CanaryIngress.OwnerReferences = nil, nil
			return objs
		}, ingressRef(""), planner.Route{Pinned: "one", UnroutableReason: "making canary service: service web-canary exists, and Weir needs this name; delete it, or recreate it under another name"}, nil},
		"a canary service that others keep": {func(t *testing.T) Objects {
			objs := routedObjects(t, planner.Route{})
			objs.CanaryService.DeletionTimestamp, objs.CanaryService.Finalizers = &metav1.Time{}, []string{"example.com/keep"}
			return objs
		}, ingressRef(""), planner.Route{Pinned: "one", UnroutableReason: "making canary service: service web-canary is being deleted, and stays until a user removes these finalizers: example.com/keep"}, nil},
		"a canary ingress that others keep": {func(t *testing.T) Objects {
			objs := routedObjects(t, weightRoute(20))
			objs.Routers[0].CanaryIngress.DeletionTimestamp = &metav1.Time{}
			return objs
		}, ingressRef(""), planner.Route{Pinned: "one", Canary: "two", Weight: &twenty, Routed: true}, nil},
		"and that leads back": {func(t *testing.T) Objects {
			objs := routedObjects(t, weightRoute(20))
			objs.Routers[0].CanaryIngress.DeletionTimestamp = &metav1.Time{}
			changes, err := RestoreRouters(objs)
			if err != nil {
				t.Fatal(err)
			}
			return apply(objs, changes)
		}, ingressRef(""), planner.Route{Pinned: "one", Canary: "two"}, nil},
		"edited": {func(t *testing.T) Objects {
			objs := routedObjects(t, weightRoute(20))
			objs.Routers[0].CanaryIngress.Annotations[nginxPrefix+keyWeight] = "many"
			return objs
		}, ingressRef(""), planner.Route{Pinned: "one", Canary: "two", Weight: &twenty, Routed: true, Edited: true}, nil},
		"made by who served the API before": {func(t *testing.T) Objects {
			objs := routedObjects(t, weightRoute(20))
			delete(objs.Routers[0].CanaryIngress.Annotations, rollouts.AnnotationRouted)
			return objs
		}, ingressRef(""), planner.Route{Pinned: "one", Canary: "two", Routed: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			objs := tc.in(t)
			if class := tc.ref.Ingress.Class(); class != "" && len(objs.Routers) > 0 {
				objs.Routers[0].Class = class
			}
			if diff := cmp.Diff(tc.want, Observe(objs, tc.ref, rollouts.Step{Matches: tc.wanted})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRouteIsObserved changes every route into every other one, and observes the wanted route
// afterwards. A weight of 0 without a previous route leaves the router without a route.
func TestRouteIsObserved(t *testing.T) {
	var routes []planner.Route
	for _, matches := range [][]rollouts.RouteMatch{
		nil,
		{headerMatch("Exact", "user", "me")},
		{headerMatch("Exact", "user", "")},
		{headerMatch("RegularExpression", "user", "m.*")},
		{headerMatch("Exact", matchCookie, "demo")},
		{headerMatch("RegularExpression", "user", ""), headerMatch("Exact", matchCookie, "demo")},
	} {
		for _, weight := range []int32{-1, 0, 1, 20, 100} {
			r := planner.Route{Matches: matches, Routed: len(matches) > 0}
			if weight >= 0 {
				r.Weight, r.Routed = &weight, true
			}
			routes = append(routes, r)
		}
	}
	for i, from := range routes {
		for j, want := range routes {
			t.Run(fmt.Sprintf("%d-%d", i, j), func(t *testing.T) {
				objs := routedObjects(t, from)
				want.Pinned, want.Canary = "one", "two"
				if objs.Routers[0].CanaryIngress == nil && len(want.Matches) == 0 && want.Weight != nil && *want.Weight == 0 {
					want.Weight, want.Routed = nil, false
				}
				changes, err := RouteRequests(objs, "two", want)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, Observe(apply(objs, changes), ingressRef(""), rollouts.Step{})); diff != "" {
					t.Errorf("from %v (-want +got):\n%s", from, diff)
				}
			})
		}
	}
}
