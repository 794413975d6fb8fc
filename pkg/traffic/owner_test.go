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

// TestOwnersEdit changes a routed object as its owner might, and somebody else:
// what is restored in the end is the owner's, and in between the route stands.
func TestOwnersEdit(t *testing.T) {
	two := leading("a", "echoserver", "ads")
	to := func(host string) any {
		return map[string]any{"route": []any{map[string]any{"destination": map[string]any{"host": host}}}}
	}
	docs, mine := to("docs"), to("echoserver-canary")
	add := func(at int, rule any) func(map[string]any) {
		return func(spec map[string]any) { spec["http"] = slices.Insert(spec["http"].([]any), at, rule) }
	}
	matched := planner.Route{Matches: []rollouts.RouteMatch{match("Exact", "user", "me")}}
	for name, tc := range map[string]struct {
		route planner.Route
		edit  func(spec map[string]any)
		want  string
	}{
		"another part":  {share(20), func(spec map[string]any) { spec["hosts"] = []any{"b"} }, leading("b", "echoserver", "ads")},
		"a part less":   {share(20), func(spec map[string]any) { delete(spec, "hosts") }, leading("", "echoserver", "ads")},
		"applied anew":  {share(20), func(spec map[string]any) { spec["http"] = []any{docs, to("echoserver")} }, leading("a", "docs", "echoserver")},
		"a rule first":  {share(20), add(0, docs), leading("a", "docs", "echoserver", "ads")},
		"between":       {share(20), add(1, docs), leading("a", "echoserver", "docs", "ads")},
		"last":          {share(20), add(2, docs), leading("a", "echoserver", "ads", "docs")},
		"before ours":   {matched, add(0, docs), leading("a", "docs", "echoserver", "ads")},
		"after all":     {matched, add(3, docs), leading("a", "echoserver", "ads", "docs")},
		"among ours":    {matched, add(2, docs), two},
		"one like ours": {share(20), add(2, mine), two},
		"one less":      {share(20), func(spec map[string]any) { spec["http"] = spec["http"].([]any)[:1] }, two},
		"another share": {share(20), func(spec map[string]any) {
			spec["http"].([]any)[0].(map[string]any)["route"].([]any)[0].(map[string]any)["weight"] = int64(1)
		}, two},
	} {
		t.Run(name, func(t *testing.T) {
			objs := goTo(t, mesh(t, "virtualservice", two, false), tc.route, name)
			edited := objs.Routers[0].Object.(*unstructured.Unstructured).DeepCopy()
			tc.edit(edited.Object["spec"].(map[string]any))
			objs.Routers = []Router{objs.Routers[0]}
			objs.Routers[0].Object = edited
			if seen := Observe(objs, ref(""), rollouts.Step{}); !seen.Edited || !seen.Routed {
				t.Errorf("the edit is not seen: %+v", seen)
			}
			changes, err := Restore(objs)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, specOf(t, stored(t, objs, changes))); diff != "" {
				t.Errorf("restored at once (-want +got):\n%s", diff)
			}
			objs = goTo(t, objs, tc.route, name+", put right")
			if changes, err = Restore(objs); err != nil {
				t.Fatal(err)
			}
			after := stored(t, objs, changes)
			if diff := cmp.Diff(tc.want, specOf(t, after)); diff != "" {
				t.Errorf("restored when it was put right (-want +got):\n%s", diff)
			}
			if left, err := json.Marshal(after.Routers[0].Object.GetAnnotations()); err != nil || string(left) != string(annotationsOf(t, "virtualservice")) {
				t.Errorf("annotations %s are left", left)
			}
		})
	}
}

// leading is the spec of a VirtualService of a host, with a rule for each Service.
func leading(host string, services ...string) string {
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
