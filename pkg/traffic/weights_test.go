// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weir-rollouts/weir/internal/golden"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

const (
	actionOfWeb    = "alb.ingress.kubernetes.io/actions.web"
	actionOfBrowse = "alb.ingress.kubernetes.io/actions.browse"
)

// services sets the Services of a TraefikService, each with a weight.
func services(o object.Object, all ...any) {
	var list []any
	for i := 0; i < len(all); i += 2 {
		list = append(list, map[string]any{"name": all[i], "port": int64(80), "weight": int64(all[i+1].(int))})
	}
	childMap(o.(*unstructured.Unstructured).Object["spec"].(map[string]any), "weighted")["services"] = list
}

// action sets an ALB action that forwards to Services, with or without weights.
func action(o object.Object, key string, groups ...string) {
	o.GetAnnotations()[key] = `{"type":"forward","forwardConfig":{"targetGroups":[{"servicePort":80,` + strings.Join(groups, `},{"servicePort":80,`) + `}]}}`
}

func backendOf(o object.Object, rule, path int) *networkingv1.IngressServiceBackend {
	return o.(*networkingv1.Ingress).Spec.Rules[rule].HTTP.Paths[path].Backend.Service
}

// TestOwnersWeights changes a router with a route in the middle of a release. The changes of its
// owner are routed, and are kept after the release. Changes of the route itself are not kept.
func TestOwnersWeights(t *testing.T) {
	for name, tc := range map[string]struct {
		kind   string
		edit   func(object.Object)
		stays  bool
		golden bool
	}{
		"traefikservice-owner": {"traefikservice", func(o object.Object) { services(o, "web", 5, "ads", 5) }, true, true},
		"traefikservice-other": {"traefikservice", func(o object.Object) { services(o, "web", 1, "web-canary", 9) }, false, false},
		"aws-alb-owner": {"aws-alb", func(o object.Object) {
			action(o, actionOfWeb, `"serviceName":"web"`)
			action(o, "alb.ingress.kubernetes.io/actions.files", `"serviceName":"web"`)
			o.GetAnnotations()["alb.ingress.kubernetes.io/scheme"] = "internal"
			backendOf(o, 1, 1).Port = networkingv1.ServiceBackendPort{Name: albPort}
		}, true, true},
		"aws-alb-fewer": {"aws-alb", func(o object.Object) {
			delete(o.GetAnnotations(), actionOfBrowse)
			backendOf(o, 1, 0).Name = "web"
		}, true, true},
		"aws-alb-other": {"aws-alb", func(o object.Object) {
			action(o, actionOfWeb, `"serviceName":"web","weight":1`, `"serviceName":"web-canary","weight":9`)
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			owners := routerOf(t, tc.kind).Routers[0].Object
			objs := routeVia(t, routerOf(t, tc.kind), weightRoute(20), "20")
			routed := objs.Routers[0].Object
			edited := routed.DeepCopyObject().(object.Object)
			tc.edit(edited)
			if tc.stays {
				tc.edit(owners)
			}
			objs.Routers = []Router{objs.Routers[0]}
			objs.Routers[0].Object = edited
			if seen := Observe(objs, ingressRef(""), rollouts.Step{}); !seen.Edited || seen.UnroutableReason != "" {
				t.Fatalf("observed %+v", seen)
			}
			changes, err := RouteRequests(objs, "two", weightRoute(20))
			if err != nil {
				t.Fatal(err)
			}
			if tc.golden {
				golden.Changes(t, name, changes)
			}
			objs = applyToStored(t, objs, changes)
			if diff := cmp.Diff(routed, objs.Routers[0].Object); !tc.stays && diff != "" {
				t.Errorf("put right (-before +after):\n%s", diff)
			}
			if changes, err = RestoreRouters(routeVia(t, objs, weightRoute(50), "50")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(owners, applyToStored(t, objs, changes).Routers[0].Object); diff != "" {
				t.Errorf("restored (-owner's +after):\n%s", diff)
			}
		})
	}
}

// TestWeightsRefuse checks that errors name the wrong field, and that nothing is written.
func TestWeightsRefuse(t *testing.T) {
	header := planner.Route{Matches: []rollouts.RouteMatch{headerMatch("Exact", "user", "me")}}
	none := func(object.Object) {}
	for name, tc := range map[string]struct {
		kind string
		edit func(object.Object)
		want planner.Route
		says string
	}{
		"matches of traefik": {"traefikservice", none, header, "matches: a TraefikService sends shares only"},
		"headers of traefik": {"traefikservice", none, planner.Route{Weight: new(int32(5)), Headers: headerModifier()}, "requestHeaderModifier: a TraefikService"},
		"another service":    {"traefikservice", func(o object.Object) { services(o, "shop", 1) }, weightRoute(5), "spec.weighted.services: none is service web"},
		"no weight":          {"traefikservice", func(o object.Object) { services(o, "web", 0, "ads", 1) }, weightRoute(5), "with a weight above 0"},
		"mirroring": {"traefikservice", func(o object.Object) {
			o.(*unstructured.Unstructured).Object["spec"] = map[string]any{"mirroring": map[string]any{"name": "web"}}
		}, weightRoute(5), "spec.weighted.services: none is service web"},
		"matches of an alb": {"aws-alb", none, header, "matches: an ALB of AWS sends shares only"},
		"headers of an alb": {"aws-alb", none, planner.Route{Weight: new(int32(5)), Headers: headerModifier()}, "requestHeaderModifier: an ALB of AWS"},
		"no action": {"aws-alb", func(o object.Object) { backendOf(o, 1, 1).Name = "web" }, weightRoute(5),
			"spec.rules[1].http.paths[1].backend: it leads to service web without an action; give it the port use-annotation"},
		"no action by default": {"aws-alb", func(o object.Object) {
			backend := o.(*networkingv1.Ingress).Spec.DefaultBackend.Service
			backend.Name, backend.Port = "web", networkingv1.ServiceBackendPort{Number: 80}
		}, weightRoute(5), "spec.defaultBackend: it leads to service web without an action"},
		"no annotation": {"aws-alb", func(o object.Object) {
			delete(o.GetAnnotations(), actionOfWeb)
			delete(o.GetAnnotations(), actionOfBrowse)
		}, weightRoute(5), "spec.rules: none has a backend with the port use-annotation whose action forwards to service web"},
		"no json": {"aws-alb", func(o object.Object) { o.GetAnnotations()[actionOfWeb] = "{" }, weightRoute(5), "annotation " + actionOfWeb + ": "},
		"six groups": {"aws-alb", func(o object.Object) {
			action(o, actionOfWeb, `"serviceName":"web","weight":1`, `"serviceName":"a","weight":1`, `"serviceName":"b","weight":1`, `"serviceName":"c","weight":1`, `"serviceName":"d","weight":1`)
		}, weightRoute(5), "it would have 6 target groups, and there can be 5"},
		"weights": {"aws-alb", func(o object.Object) {
			action(o, actionOfWeb, `"serviceName":"web","weight":33`, `"serviceName":"a","weight":67`)
		}, weightRoute(1), "weights up to 999"},
	} {
		t.Run(name, func(t *testing.T) {
			objs := routerOf(t, tc.kind)
			tc.edit(objs.Routers[0].Object)
			changes, err := RouteRequests(objs, "two", tc.want)
			if err == nil || !strings.Contains(err.Error(), tc.says) || len(changes) > 0 {
				t.Errorf("%d changes, error %v, want %q", len(changes), err, tc.says)
			}
			objs.Shared = true
			if _, err := RouteRequests(objs, "two", weightRoute(5)); err == nil || !strings.Contains(err.Error(), "let the canary Service be made") {
				t.Errorf("where one Service serves both: %v", err)
			}
		})
	}
}
