// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// dialectOf returns the annotations of a canary Ingress for an ingress class.
func dialectOf(t *testing.T, class, script string, want planner.Route) (map[string]string, error) {
	t.Helper()
	objs := ingressObjects(t)
	objs.Routers[0].Class, objs.Routers[0].Script, objs.Routers[0].ScriptFrom = class, script, "ConfigMap a/b"
	changes, err := RouteRequests(objs, "two", want)
	if err != nil {
		return nil, err
	}
	found := apply(objs, changes).Routers[0].CanaryIngress.Annotations
	for k := range found {
		if strings.HasPrefix(k, "rollouts.kruise.io/") || k == "kubernetes.io/ingress.class" || strings.HasSuffix(k, "proxy-body-size") {
			delete(found, k)
		}
	}
	return found, nil
}

func TestDialects(t *testing.T) {
	alb, err := os.ReadFile("testdata/alb.lua")
	if err != nil {
		t.Fatal(err)
	}
	conditions := rollouts.RouteMatch{Headers: []rollouts.ValueMatch{
		{Name: "Cookie", Value: "demo1=value1,demo2=value2"}, {Name: "SourceIp", Value: "192.168.0.0/16,172.16.0.0/16"},
		{Name: "headername", Value: "headervalue1,headervalue2"},
	}}
	header := headerMatch("RegularExpression", "user", "m.*")
	const nginxLeft = nginxPrefix + "canary-weight"
	for name, tc := range map[string]struct {
		class, script string
		want          planner.Route
		annotations   map[string]string
	}{
		"alb share": {"aliyun-alb", "", weightRoute(30), map[string]string{nginxLeft: "99", albPrefix + "canary": "true", albPrefix + "order": "1", albPrefix + "canary-weight": "30"}},
		"alb header": {"aliyun-alb", "", planner.Route{Matches: []rollouts.RouteMatch{header}}, map[string]string{
			nginxLeft: "99", albPrefix + "canary": "true", albPrefix + "order": "1", albPrefix + "canary-by-header": "user", albPrefix + "canary-by-header-pattern": "m.*"}},
		// The string of OpenKruise's case 20.
		"alb by a script": {"aliyun-alb", string(alb), planner.Route{Matches: []rollouts.RouteMatch{conditions}}, map[string]string{
			nginxLeft: "99", albPrefix + "canary": "true", albPrefix + "order": "1",
			albPrefix + "conditions.web-canary": `[{"cookieConfig":{"values":[{"key":"demo1","value":"value1"},{"key":"demo2","value":"value2"}]},"type":"Cookie"},{"sourceIpConfig":{"values":["192.168.0.0/16","172.16.0.0/16"]},"type":"SourceIp"},{"headerConfig":{"key":"headername","values":["headervalue1","headervalue2"]},"type":"Header"}]`,
		}},
		"alb share by a script": {"aliyun-alb", string(alb), weightRoute(30), map[string]string{
			nginxLeft: "99", albPrefix + "canary": "true", albPrefix + "order": "1", albPrefix + "canary-weight": "30"}},
		"mse": {"mse", "", planner.Route{Matches: []rollouts.RouteMatch{queryMatch("user", "me"), headerMatch("", matchCookie, "demo")}, Headers: headerModifier()}, map[string]string{
			nginxPrefix + "canary": "true", msePrefix + "canary-by-query": "user", msePrefix + "canary-by-query-value": "me", nginxPrefix + "canary-by-cookie": "demo",
			msePrefix + "request-header-control-update": "seen new", msePrefix + "request-header-control-add": "Tag two", msePrefix + "request-header-control-remove": "Cookie"}},
		"higress": {"higress", "", planner.Route{Weight: new(int32(5)), Matches: []rollouts.RouteMatch{headerMatch("", "user", "me")}, Headers: &rollouts.HeaderModifier{
			Set: []rollouts.Header{{Name: "a", Value: "b"}, {Name: "c", Value: "d"}}}}, map[string]string{
			nginxPrefix + "canary": "true", nginxPrefix + "canary-weight": "5", nginxPrefix + "canary-by-header": "user", nginxPrefix + "canary-by-header-value": "me",
			"higress.io/request-header-control-update": "a b\nc d"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := dialectOf(t, tc.class, tc.script, tc.want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.annotations, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDialectErrors(t *testing.T) {
	for says, tc := range map[string]struct {
		class, script string
		want          planner.Route
	}{
		"requestHeaderModifier: nginx rewrites no headers":              {"nginx", "", planner.Route{Weight: new(int32(5)), Headers: headerModifier()}},
		"matches[0].path: mse matches no path":                          {"mse", "", planner.Route{Matches: []rollouts.RouteMatch{pathMatch("", "/a")}}},
		"matches[0].queryParams: higress matches headers only":          {"higress", "", planner.Route{Matches: []rollouts.RouteMatch{queryMatch("a", "b")}}},
		"the script lua.traffic.routing.ingress.own of ConfigMap a/b: ": {"own", "return 1", weightRoute(5)},
		`annotations["a"] must be a text, and is 5`:                     {"own", "return {a = 5}", weightRoute(5)},
		"script:1: no such thing":                                       {"nginx", "error('no such thing')", weightRoute(5)},
	} {
		t.Run(says, func(t *testing.T) {
			if _, err := dialectOf(t, tc.class, tc.script, tc.want); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("error %v, want one with %q", err, says)
			}
		})
	}
}

// TestScriptMended changes the script of a router that has a route. The output of the first script
// is never mistaken for the owner's changes.
func TestScriptMended(t *testing.T) {
	objs := routerOf(t, "trafficsplit")
	owners := objs.Routers[0].Object
	objs = routeVia(t, objs, weightRoute(20), "20")
	objs.Routers[0].Script = `obj.data.spec.other = obj.canaryService return obj.data`
	if seen := Observe(objs, ingressRef(""), rollouts.Step{}); !seen.Edited || !seen.Routed {
		t.Fatalf("another script is not seen: %+v", seen)
	}
	objs = routeVia(t, objs, weightRoute(50), "50")
	// One that fails, and none at all, keep nothing from being restored.
	for _, script := range []string{`error("no")`, ""} {
		objs.Routers[0].Script = script
		if seen := Observe(objs, ingressRef(""), rollouts.Step{}); !seen.Routed || seen.UnroutableReason == "" {
			t.Fatalf("with the script %q: %+v", script, seen)
		}
		changes, err := RestoreRouters(objs)
		if err != nil {
			t.Fatal(err)
		}
		after := applyToStored(t, objs, changes)
		if diff := cmp.Diff(owners, after.Routers[0].Object); diff != "" {
			t.Errorf("restored with the script %q (-before +after):\n%s", script, diff)
		}
	}
}

// TestNeverRouters checks that kinds which no script may write are not changed, even if there is a
// script for them and the Rollout was stored before validation refused them.
func TestNeverRouters(t *testing.T) {
	for _, of := range []rollouts.ObjectRef{
		{APIVersion: "v1", Kind: "Service", Name: "web"},
		{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: "web"},
		{APIVersion: "apps.example.com/v1", Kind: "StatefulSet", Name: "web"},
	} {
		objs := ingressObjects(t)
		objs.Routers = RoutersFor(rollouts.TrafficRoutingRef{CustomNetworkRefs: []rollouts.ObjectRef{of}}, where)
		r := &objs.Routers[0]
		r.Script = "obj.data.spec.replicas = 0 return obj.data"
		changes, err := RouteRequests(objs, "two", weightRoute(20))
		if says := "is never a router"; err == nil || !strings.Contains(err.Error(), says) || len(changes) > 0 {
			t.Errorf("%s: %d changes, error %v; want nothing, and %q", of.Kind, len(changes), err, says)
		}
	}
}
