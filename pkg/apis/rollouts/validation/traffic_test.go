// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
)

func TestValidateTrafficRoutings(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*rollouts.Rollout)
		want   []string
	}{
		"two routings": {
			change: func(r *rollouts.Rollout) {
				c := r.Spec.Strategy.Canary
				c.TrafficRoutings = append(c.TrafficRoutings, c.TrafficRoutings[0])
			},
			want: []string{": Too many"},
		},
		"no service":                {change: func(r *rollouts.Rollout) { routing(r).Service = "" }, want: []string{"[0].service: Required value"}},
		"no grace":                  {change: func(r *rollouts.Rollout) { routing(r).GracePeriodSeconds = 0 }},
		"grace of ten minutes":      {change: func(r *rollouts.Rollout) { routing(r).GracePeriodSeconds = 600 }},
		"grace of a day":            {change: func(r *rollouts.Rollout) { routing(r).GracePeriodSeconds = 86400 }, want: []string{"[0].gracePeriodSeconds: Invalid value"}},
		"a negative grace period":   {change: func(r *rollouts.Rollout) { routing(r).GracePeriodSeconds = -1 }, want: []string{"[0].gracePeriodSeconds: Invalid value"}},
		"no router":                 {change: func(r *rollouts.Rollout) { routing(r).Ingress = nil }, want: []string{"[0]: Required value"}},
		"an Ingress without a name": {change: func(r *rollouts.Rollout) { routing(r).Ingress.Name = "" }, want: []string{"[0].ingress.name: Required value"}},
		"an HTTPRoute without a name": {
			change: func(r *rollouts.Rollout) { routing(r).Gateway = &rollouts.GatewayRef{} },
			want:   []string{"[0].gateway.httpRouteName: Required value"},
		},
		"all routers": {change: func(r *rollouts.Rollout) {
			routing(r).Gateway = &rollouts.GatewayRef{HTTPRouteName: new("web")}
			routing(r).CustomNetworkRefs = []rollouts.ObjectRef{{APIVersion: "networking.istio.io/v1", Kind: "VirtualService", Name: "web"}}
		}},
		"an object without a name": {
			change: func(r *rollouts.Rollout) { routing(r).CustomNetworkRefs = []rollouts.ObjectRef{{}} },
			want: []string{
				"[0].customNetworkRefs[0].apiVersion: Required value", "[0].customNetworkRefs[0].kind: Required value", "[0].customNetworkRefs[0].name: Required value",
			},
		},
		"the most objects": {change: func(r *rollouts.Rollout) { routing(r).CustomNetworkRefs = refs(16, "example.com/v1", "Mesh") }},
		"too many objects": {
			change: func(r *rollouts.Rollout) { routing(r).CustomNetworkRefs = refs(8000, "", "") },
			want:   []string{"[0].customNetworkRefs: Too many"},
		},
		"a Service": {change: func(r *rollouts.Rollout) { routing(r).CustomNetworkRefs = refs(1, "v1", "Service") }, want: nowhere},
		"a TCPRoute": {change: func(r *rollouts.Rollout) {
			routing(r).CustomNetworkRefs = refs(1, "gateway.networking.k8s.io/v1", "TCPRoute")
		}},
		"a Pod":        {change: func(r *rollouts.Rollout) { routing(r).CustomNetworkRefs = refs(1, "v1", "Pod") }, want: nowhere},
		"a ReplicaSet": {change: func(r *rollouts.Rollout) { routing(r).CustomNetworkRefs = refs(1, "apps/v1", "ReplicaSet") }, want: nowhere},
		"a definition": {
			change: func(r *rollouts.Rollout) {
				routing(r).CustomNetworkRefs = refs(1, "apiextensions.k8s.io/v1", "CustomResourceDefinition")
			},
			want: nowhere,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := valid()
			test.change(r)
			check(t, r, "spec.strategy.canary.trafficRoutings", test.want)
		})
	}
}

func refs(n int, apiVersion, kind string) []rollouts.ObjectRef {
	return slices.Repeat([]rollouts.ObjectRef{{APIVersion: apiVersion, Kind: kind, Name: "web"}}, n)
}

var nowhere = []string{"[0].customNetworkRefs[0].kind: Invalid value"}

func check(t *testing.T, r *rollouts.Rollout, prefix string, want []string) {
	t.Helper()
	got := render(validation.ValidateRollout(r, beta))
	for i := range got {
		got[i] = strings.TrimPrefix(got[i], prefix)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestValidateMatch(t *testing.T) {
	t.Parallel()
	header := func(kind, name, value string) rollouts.RouteMatch {
		return rollouts.RouteMatch{Headers: []rollouts.ValueMatch{{Type: &kind, Name: name, Value: value}}}
	}
	query := func(value string) rollouts.RouteMatch {
		return rollouts.RouteMatch{QueryParams: []rollouts.ValueMatch{{Name: "q", Value: value}}}
	}
	tests := map[string]struct {
		match rollouts.RouteMatch
		want  []string
	}{
		"a header":              {match: header("RegularExpression", "user-agent", ".*")},
		"a broken pattern":      {match: header("RegularExpression", "a", "("), want: []string{"headers[0].value: Invalid value"}},
		"no pattern":            {match: header("Exact", "a", "(")},
		"an unknown type":       {match: header("Prefix", "a", "b"), want: []string{"headers[0].type: Unsupported value"}},
		"no name":               {match: header("Exact", "", "b"), want: []string{"headers[0].name: Required value"}},
		"the longest name":      {match: header("Exact", strings.Repeat("a", 256), "b")},
		"the longest value":     {match: header("Exact", "a", strings.Repeat("a", 4096))},
		"a long name":           {match: header("Exact", strings.Repeat("a", 257), "b"), want: []string{"headers[0].name: Too long"}},
		"a name with a space":   {match: header("Exact", "a b", "b"), want: []string{"headers[0].name: Invalid value"}},
		"no value":              {match: header("Exact", "a", ""), want: []string{"headers[0].value: Required value"}},
		"a long value":          {match: header("Exact", "a", strings.Repeat("a", 4097)), want: []string{"headers[0].value: Too long"}},
		"a long parameter":      {match: query(strings.Repeat("a", 1025)), want: []string{"queryParams[0].value: Too long"}},
		"the longest parameter": {match: query(strings.Repeat("a", 1024))},
		"the same twice": {
			match: rollouts.RouteMatch{Headers: []rollouts.ValueMatch{{Name: "a", Value: "1"}, {Name: "a", Value: "2"}}},
			want:  []string{"headers[1].name: Duplicate value"},
		},
		"characters, not bytes": {match: header("Exact", "a", strings.Repeat("ü", 4096))},
		"16":                    {match: rollouts.RouteMatch{Headers: distinct(16)}},
		"too many":              {match: rollouts.RouteMatch{QueryParams: distinct(17)}, want: []string{"queryParams: Too many"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := valid()
			step(r).Matches = []rollouts.RouteMatch{test.match}
			check(t, r, "spec.strategy.canary.steps[0].matches[0].", test.want)
		})
	}
}

func distinct(n int) []rollouts.ValueMatch {
	values := make([]rollouts.ValueMatch, n)
	for i := range values {
		values[i] = rollouts.ValueMatch{Name: "h" + strconv.Itoa(i), Value: "x"}
	}
	return values
}

func TestPathWithoutValue(t *testing.T) {
	t.Parallel()
	r := valid()
	step(r).Matches = []rollouts.RouteMatch{{Path: &rollouts.PathMatch{}}}
	check(t, r, "", nil)
}

func TestValidatePath(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind string
		good []string
		bad  []string
		want string
	}{
		"prefix": {
			kind: "PathPrefix", good: []string{"/", "/a/b", "/a%20b", "/..a"},
			bad:  []string{"", "a", "//", "/a/./b", "/a/../b", "/%2f", "/%2F", "/#", "/..", "/.", "/a b", "/%zz"},
			want: "value: Invalid value",
		},
		"exact":      {kind: "Exact", good: []string{"/a"}, bad: []string{"a", "/ü"}, want: "value: Invalid value"},
		"expression": {kind: "RegularExpression", good: []string{"^/a.*", "a", strings.Repeat("a", 1024)}, bad: []string{strings.Repeat("a", 1025)}, want: "value: Too long"},
		"broken": {
			kind: "RegularExpression",
			good: []string{`/(?=a)b`, `/(a)\1`, `/a++`, `/(?>a)`, `[]a]`, `\Q(\E`, `(*UTF8)a`, `(?<n>a)`, `[^[:alpha:]]`}, // valid in some dialect
			bad:  []string{"(", ")", "/(a", "/a)", "[", "/[a", `/a\`, "[]"},
			want: "value: Invalid value",
		},
		"other": {kind: "Glob", bad: []string{"/"}, want: "type: Unsupported value"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, value := range test.good {
				checkPath(t, test.kind, value, nil)
			}
			for _, value := range test.bad {
				checkPath(t, test.kind, value, []string{test.want})
			}
		})
	}
}

func checkPath(t *testing.T, kind, value string, want []string) {
	t.Helper()
	r := valid()
	step(r).Matches = []rollouts.RouteMatch{{Path: &rollouts.PathMatch{Type: &kind, Value: &value}}}
	check(t, r, "spec.strategy.canary.steps[0].matches[0].path.", want)
}

func TestValidateHeaderModifier(t *testing.T) {
	t.Parallel()
	many := make([]string, 17)
	headers := make([]rollouts.Header, 17)
	for i, value := range distinct(17) {
		many[i] = value.Name
		headers[i] = rollouts.Header{Name: value.Name, Value: value.Value}
	}
	tests := map[string]struct {
		modifier rollouts.HeaderModifier
		want     []string
	}{
		"all of it": {modifier: rollouts.HeaderModifier{
			Set: headers[:16], Add: headers[:16], Remove: many[:16],
		}},
		"twice": {modifier: rollouts.HeaderModifier{
			Set: []rollouts.Header{{Name: "a", Value: "1"}, {Name: "a", Value: "2"}}, Remove: []string{"b", "b"},
		}, want: []string{"set[1].name: Duplicate value", "remove[1]: Duplicate value"}},
		"too many":             {modifier: rollouts.HeaderModifier{Add: headers, Remove: many}, want: []string{"add: Too many", "remove: Too many"}},
		"invalid header names": {modifier: rollouts.HeaderModifier{Remove: []string{"", "a b"}}},
		"empty":                {modifier: rollouts.HeaderModifier{Set: []rollouts.Header{{}}}, want: []string{"set[0].name: Required value", "set[0].value: Required value"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := valid()
			step(r).RequestHeaderModifier = &test.modifier
			check(t, r, "spec.strategy.canary.steps[0].requestHeaderModifier.", test.want)
		})
	}
}
