// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestGatewayRefuses wants an error that names the field, and nothing written.
func TestGatewayRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		kind string
		m    rollouts.RouteMatch
		says string
	}{
		"nothing":     {"httproute", rollouts.RouteMatch{}, "matches[0]: it says nothing"},
		"patterns":    {"httproute", pathMatch("RegularExpression", "/x.*"), "matches[0].path"},
		"same header": {"httproute", headerMatch("RegularExpression", "region", "e."), "matches[0].headers[0]"},
		"grpc path":   {"grpcroute", pathMatch("Exact", "/x"), "matches[0].path"},
		"grpc query":  {"grpcroute", queryMatch("a", "b"), "matches[0].queryParams"},
	} {
		t.Run(name, func(t *testing.T) {
			changes, err := RouteRequests(routerOf(t, tc.kind), "two", planner.Route{Matches: []rollouts.RouteMatch{tc.m}})
			if err == nil || !strings.Contains(err.Error(), tc.says) || len(changes) > 0 {
				t.Errorf("%d changes, error %v, want %q", len(changes), err, tc.says)
			}
		})
	}
}

// TestGatewayAccepted reads what a gateway says of the route.
func TestGatewayAccepted(t *testing.T) {
	for name, tc := range map[string]struct {
		status           string
		seen             int64
		pending, refused string
	}{
		"good":    {"True", 3, "", ""},
		"old":     {"False", 2, "edge has not seen it yet", ""},
		"unknown": {"Unknown", 3, "edge: Accepted is Unknown: R: M", ""},
		"bad":     {"False", 3, "", "edge: Accepted is False: R: M"},
	} {
		t.Run(name, func(t *testing.T) {
			obj := routerOf(t, "httproute").Routers[0].Object.(*unstructured.Unstructured)
			parent := mapElements(childMap(obj.Object, "status")["parents"])[0]
			parent["conditions"] = []any{map[string]any{
				"type": "Accepted", "status": tc.status, "observedGeneration": tc.seen, "reason": "R", "message": "M",
			}}
			if pending, refused := readRouteConditions(obj); pending != tc.pending || refused != tc.refused {
				t.Errorf("pending %q, refused %q", pending, refused)
			}
		})
	}
}
