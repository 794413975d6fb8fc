// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

func TestWarnings(t *testing.T) {
	const at = "spec.strategy.canary"
	const end = "; the step will not start unless a script can"
	half := "50%"
	share := rollouts.Step{Traffic: &half}
	mesh := ingressRef("nginx")
	mesh.CustomNetworkRefs = []rollouts.ObjectRef{{APIVersion: "example.com/v1", Kind: "Mesh", Name: "m"}}
	route := "front"
	gateway := rollouts.TrafficRoutingRef{Service: "web", Gateway: &rollouts.GatewayRef{HTTPRouteName: &route}}
	traefik := rollouts.TrafficRoutingRef{Service: "web", CustomNetworkRefs: []rollouts.ObjectRef{{APIVersion: "traefik.io/v1alpha1", Kind: "TraefikService", Name: "front"}}}
	both := ingressRef("nginx")
	both.CustomNetworkRefs = traefik.CustomNetworkRefs
	user := []rollouts.Step{share, {Matches: []rollouts.RouteMatch{headerMatch("", "user", "me")}}}
	for name, tc := range map[string]struct {
		ref   rollouts.TrafficRoutingRef
		steps []rollouts.Step
		want  []string
	}{
		"what can be":    {ingressRef(""), []rollouts.Step{share, {Matches: []rollouts.RouteMatch{headerMatch("", "a", "b")}}, {}}, nil},
		"a path":         {ingressRef(""), []rollouts.Step{share, {Matches: []rollouts.RouteMatch{headerMatch("", "a", "b"), pathMatch("", "/a")}}}, []string{at + ".steps[1].matches[1].path: nginx matches no path" + end}},
		"a query":        {ingressRef("higress"), []rollouts.Step{{Matches: []rollouts.RouteMatch{queryMatch("a", "b")}}}, []string{at + ".steps[0].matches[0].queryParams: higress matches headers only" + end}},
		"rewriting":      {ingressRef("nginx"), []rollouts.Step{{Traffic: &half, RequestHeaderModifier: headerModifier()}}, []string{at + ".steps[0].requestHeaderModifier: nginx rewrites no headers" + end}},
		"mse can":        {ingressRef("mse"), []rollouts.Step{{Traffic: &half, RequestHeaderModifier: headerModifier(), Matches: []rollouts.RouteMatch{queryMatch("a", "b")}}}, nil},
		"a gateway can":  {gateway, []rollouts.Step{{Matches: []rollouts.RouteMatch{pathMatch("", "/a")}}}, nil},
		"traefik":        {traefik, user, []string{at + ".steps[1].matches: a TraefikService sends shares only" + end}},
		"an alb of aws":  {ingressRef("aws-alb"), user, []string{at + ".steps[1].matches: an ALB of AWS sends shares only" + end}},
		"the other can":  {both, user, nil},
		"unknown class":  {ingressRef("own"), []rollouts.Step{{Matches: []rollouts.RouteMatch{pathMatch("", "/a")}}}, []string{at + `.trafficRoutings[0].ingress.classType: "own" is not known; use nginx, aliyun-alb, mse, higress, aws-alb, or add a Lua script under the key lua.traffic.routing.ingress.own in the ConfigMap kruise-rollout-configuration`}},
		"another may do": {mesh, []rollouts.Step{{Matches: []rollouts.RouteMatch{pathMatch("", "/a")}}}, []string{at + `.trafficRoutings[0].customNetworkRefs[0]: Weir has no built-in support for Mesh.example.com; add a Lua script under the key lua.traffic.routing.Mesh.example.com in the ConfigMap kruise-rollout-configuration`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Warnings(&rollouts.Release{TrafficRoutings: []rollouts.TrafficRoutingRef{tc.ref}, Steps: tc.steps}, at)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := Warnings(nil, at); got != nil {
		t.Errorf("nothing leads to %v", got)
	}
}
