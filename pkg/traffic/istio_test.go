// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// istioObjects returns the test objects with one Istio router for the Service echoserver.
func istioObjects(t *testing.T, kind, spec string, shared bool) Objects {
	t.Helper()
	objs := routerOf(t, kind)
	objs.Service.Name, objs.ServiceName.Name, objs.Shared = "echoserver", "echoserver", shared
	var parsed map[string]any
	if err := json.Unmarshal([]byte(spec), &parsed); err != nil {
		t.Fatal(err)
	}
	objs.Routers[0].Object.(*unstructured.Unstructured).Object["spec"] = parsed
	return objs
}

func specOf(t *testing.T, objs Objects) string {
	t.Helper()
	data, err := json.Marshal(objs.Routers[0].Object.(*unstructured.Unstructured).Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestIstioExactly checks that the routes are identical to those of OpenKruise.
func TestIstioExactly(t *testing.T) {
	const (
		echo  = `{"gateways":["nginx-gateway"],"hosts":["*"],"http":[{"route":[{"destination":{"host":"echoserver"}}]}]}`
		rules = `{"host":"svc-demo","subsets":[{"labels":{"version":"base"},"name":"echoserver"}],"trafficPolicy":{"loadBalancer":{"simple":"ROUND_ROBIN"}}}`
	)
	header := planner.Route{Matches: []rollouts.RouteMatch{headerMatch("Exact", "user-agent", "pc")}}
	three := planner.Route{Matches: []rollouts.RouteMatch{headerMatch("Exact", "user-agent", "pc"), queryMatch("user-agent", "pc"), pathMatch("", "/pc")}}
	for name, tc := range map[string]struct {
		kind, spec string
		shared     bool
		route      planner.Route
		want       string
	}{
		"matches": {"virtualservice", echo, false, three,
			`{"gateways":["nginx-gateway"],"hosts":["*"],"http":[{"match":[{"uri":{"prefix":"/pc"}}],"route":[{"destination":{"host":"echoserver-canary"}}]},{"match":[{"queryParams":{"user-agent":{"exact":"pc"}}}],"route":[{"destination":{"host":"echoserver-canary"}}]},{"match":[{"headers":{"user-agent":{"exact":"pc"}}}],"route":[{"destination":{"host":"echoserver-canary"}}]},{"route":[{"destination":{"host":"echoserver"}}]}]}`},
		"share": {"virtualservice", echo, false, weightRoute(50),
			`{"gateways":["nginx-gateway"],"hosts":["*"],"http":[{"route":[{"destination":{"host":"echoserver"},"weight":50},{"destination":{"host":"echoserver-canary"},"weight":50}]}]}`},
		"shared": {"virtualservice", echo, true, header,
			`{"gateways":["nginx-gateway"],"hosts":["*"],"http":[{"match":[{"headers":{"user-agent":{"exact":"pc"}}}],"route":[{"destination":{"host":"echoserver","subset":"canary"}}]},{"route":[{"destination":{"host":"echoserver"}}]}]}`},
		"subset": {"destinationrule", rules, true, header,
			`{"host":"svc-demo","subsets":[{"labels":{"version":"base"},"name":"echoserver"},{"labels":{"istio.service.tag":"gray"},"name":"canary"}],"trafficPolicy":{"loadBalancer":{"simple":"ROUND_ROBIN"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			objs := istioObjects(t, tc.kind, tc.spec, tc.shared)
			changes, err := RouteRequests(objs, "two", tc.route)
			if err != nil {
				t.Fatal(err)
			}
			objs = applyToStored(t, objs, changes)
			if diff := cmp.Diff(tc.want, specOf(t, objs)); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			kept := objs.Routers[0].Object.GetAnnotations()[rollouts.AnnotationOriginalSpec]
			if diff := cmp.Diff(`{"spec":`+tc.spec+`}`, kept); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		})
	}
}

// TestIstioTogether checks that a DestinationRule together with a VirtualService does not allow
// matches that the VirtualService does not support.
func TestIstioTogether(t *testing.T) {
	const tcp = `{"tcp":[{"route":[{"destination":{"host":"echoserver"}}]}]}`
	objs := istioObjects(t, "virtualservice", tcp, false)
	objs.Routers = append(objs.Routers, routerOf(t, "destinationrule").Routers...)
	_, err := RouteRequests(objs, "two", planner.Route{Matches: []rollouts.RouteMatch{headerMatch("Exact", "a", "b")}})
	if err == nil {
		t.Error("matches of tcp are routed")
	}
	if _, err := RouteRequests(objs, "two", weightRoute(20)); err != nil {
		t.Error(err)
	}
}

// TestSeveral routes with two routers. Each implements the matches that it supports. The route is
// observed, maintained and restored.
func TestSeveral(t *testing.T) {
	objs := ingressObjects(t)
	before := routerOf(t, "virtualservice")
	objs.Routers = append(slices.Clone(before.Routers), objs.Routers...)
	for _, want := range []planner.Route{
		{Matches: []rollouts.RouteMatch{headerMatch("Exact", "user", "me"), queryMatch("user", "me"), pathMatch("", "/shop")}},
		weightRoute(50), weightRoute(0),
		{Matches: []rollouts.RouteMatch{queryMatch("user", "me")}},
	} {
		changes, err := RouteRequests(objs, "two", want)
		if err != nil {
			t.Fatal(err)
		}
		objs = applyToStoredMesh(t, objs, changes)
		changes, err = RouteRequests(objs, "two", want)
		if err != nil || len(changes) > 0 {
			t.Errorf("%v: not done: %d changes, %v", want, len(changes), err)
		}
		seen := Observe(objs, ingressRef(""), rollouts.Step{})
		if !seen.Routed || seen.Edited || seen.UnroutableReason != "" || !seen.Equals(want) {
			t.Errorf("want %+v, observed %+v", want, seen)
		}
	}
	changes, err := RestoreRouters(objs)
	if err != nil {
		t.Fatal(err)
	}
	objs = applyToStoredMesh(t, objs, changes)
	if diff := cmp.Diff(before.Routers[0].Object, objs.Routers[0].Object); diff != "" || objs.Routers[1].CanaryIngress != nil {
		t.Errorf("the Ingress beside is %v, and (-before +after):\n%s", objs.Routers[1].CanaryIngress, diff)
	}
}

// applyToStoredMesh applies changes as a server would, to a first router that is a custom object
// and a second one that is an Ingress.
func applyToStoredMesh(t *testing.T, objs Objects, changes []object.Change) Objects {
	t.Helper()
	for _, c := range changes {
		first, second := objs, objs
		first.Routers, second.Routers = objs.Routers[:1], objs.Routers[1:]
		if _, ok := c.Want.(*unstructured.Unstructured); ok {
			first = applyToStored(t, first, []object.Change{c})
		} else {
			second = apply(second, []object.Change{c})
		}
		objs = second
		objs.Routers = append(slices.Clone(first.Routers), second.Routers...)
	}
	return objs
}
