// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestOwnersEdit changes a router with a route as its owner or somebody else might. The route is
// kept in the meantime, and the changes of the owner are restored in the end.
func TestOwnersEdit(t *testing.T) {
	two := virtualServiceSpec("a", "echoserver", "ads")
	to := func(host string) any {
		return map[string]any{"route": []any{map[string]any{"destination": map[string]any{"host": host}}}}
	}
	docs, mine := to("docs"), to("echoserver-canary")
	add := func(at int, rule any) func(map[string]any) {
		return func(spec map[string]any) { spec["http"] = slices.Insert(spec["http"].([]any), at, rule) }
	}
	matched := planner.Route{Matches: []rollouts.RouteMatch{headerMatch("Exact", "user", "me")}}
	for name, tc := range map[string]struct {
		route planner.Route
		edit  func(spec map[string]any)
		want  string
	}{
		"another part":  {weightRoute(20), func(spec map[string]any) { spec["hosts"] = []any{"b"} }, virtualServiceSpec("b", "echoserver", "ads")},
		"a part less":   {weightRoute(20), func(spec map[string]any) { delete(spec, "hosts") }, virtualServiceSpec("", "echoserver", "ads")},
		"applied anew":  {weightRoute(20), func(spec map[string]any) { spec["http"] = []any{docs, to("echoserver")} }, virtualServiceSpec("a", "docs", "echoserver")},
		"a rule first":  {weightRoute(20), add(0, docs), virtualServiceSpec("a", "docs", "echoserver", "ads")},
		"between":       {weightRoute(20), add(1, docs), virtualServiceSpec("a", "echoserver", "docs", "ads")},
		"last":          {weightRoute(20), add(2, docs), virtualServiceSpec("a", "echoserver", "ads", "docs")},
		"before ours":   {matched, add(0, docs), virtualServiceSpec("a", "docs", "echoserver", "ads")},
		"after all":     {matched, add(3, docs), virtualServiceSpec("a", "echoserver", "ads", "docs")},
		"among ours":    {matched, add(2, docs), two},
		"one like ours": {weightRoute(20), add(2, mine), two},
		"one less":      {weightRoute(20), func(spec map[string]any) { spec["http"] = spec["http"].([]any)[:1] }, two},
		"another share": {weightRoute(20), func(spec map[string]any) {
			spec["http"].([]any)[0].(map[string]any)["route"].([]any)[0].(map[string]any)["weight"] = int64(1)
		}, two},
	} {
		t.Run(name, func(t *testing.T) {
			objs := routeVia(t, istioObjects(t, "virtualservice", two, false), tc.route, name)
			edited := objs.Routers[0].Object.(*unstructured.Unstructured).DeepCopy()
			tc.edit(edited.Object["spec"].(map[string]any))
			objs.Routers = []Router{objs.Routers[0]}
			objs.Routers[0].Object = edited
			if seen := Observe(objs, ingressRef(""), rollouts.Step{}); !seen.Edited || !seen.Routed {
				t.Errorf("the edit is not seen: %+v", seen)
			}
			changes, err := RestoreRouters(objs)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, specOf(t, applyToStored(t, objs, changes))); diff != "" {
				t.Errorf("restored at once (-want +got):\n%s", diff)
			}
			objs = routeVia(t, objs, tc.route, name+", put right")
			if changes, err = RestoreRouters(objs); err != nil {
				t.Fatal(err)
			}
			after := applyToStored(t, objs, changes)
			if diff := cmp.Diff(tc.want, specOf(t, after)); diff != "" {
				t.Errorf("restored when it was put right (-want +got):\n%s", diff)
			}
			if left, err := json.Marshal(after.Routers[0].Object.GetAnnotations()); err != nil || string(left) != string(annotationsOf(t, "virtualservice")) {
				t.Errorf("annotations %s are left", left)
			}
		})
	}
}

// virtualServiceSpec returns the spec of a VirtualService for a host, with a rule for each Service.
func virtualServiceSpec(host string, services ...string) string {
	var rules []string
	for _, s := range services {
		rules = append(rules, `{"route":[{"destination":{"host":"`+s+`"}}]}`)
	}
	hosts := ""
	if host != "" {
		hosts = `"hosts":["` + host + `"],`
	}
	return `{` + hosts + `"http":[` + strings.Join(rules, ",") + `]}`
}

func annotationsOf(t *testing.T, kind string) []byte {
	t.Helper()
	data, err := json.Marshal(routerOf(t, kind).Routers[0].Object.GetAnnotations())
	if err != nil {
		t.Fatal(err)
	}
	return data
}
