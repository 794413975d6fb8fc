// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"maps"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/internal/golden"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// inPlaceKinds are the routes, other than weights, that each kind of router supports. The router
// of each kind is in testdata/<kind>.in.yaml.
var inPlaceKinds = map[string]map[string]planner.Route{
	"httpproxy": {
		"header":  {Matches: []rollouts.RouteMatch{headerMatch("Exact", "user", "me"), headerMatch("RegularExpression", "user", "m.*")}},
		"several": {Matches: []rollouts.RouteMatch{pathMatch("", "/api/v2"), queryMatch("user", "me")}, Headers: headerModifier()},
		"both":    {Weight: new(int32(40)), Matches: []rollouts.RouteMatch{pathMatch("Exact", "/shop")}},
	},
	"apisixroute":  {"several": {Matches: []rollouts.RouteMatch{headerMatch("Exact", "user", "me"), queryMatch("user", "me")}}},
	"trafficsplit": {},
	"httproute": {
		"header":  {Matches: []rollouts.RouteMatch{headerMatch("Exact", "user", "me")}},
		"several": {Matches: []rollouts.RouteMatch{headerMatch("RegularExpression", "user", "m.*"), pathMatch("PathPrefix", "/api/v2")}, Headers: headerModifier()},
		"query":   {Matches: []rollouts.RouteMatch{pathMatch("Exact", "/ping"), queryMatch("user", "me")}},
		"both":    {Weight: new(int32(40)), Matches: []rollouts.RouteMatch{pathMatch("", "/shop")}},
		"tagged":  {Weight: new(int32(30)), Headers: headerModifier()},
	},
	"virtualservice": {
		"header":  {Matches: []rollouts.RouteMatch{headerMatch("Exact", "User", "me")}},
		"several": {Matches: []rollouts.RouteMatch{headerMatch("RegularExpression", "user", "m.*"), pathMatch("PathPrefix", "/api/v2")}, Headers: headerModifier()},
		"query":   {Matches: []rollouts.RouteMatch{pathMatch("Exact", "/ping"), queryMatch("user", "me")}},
		"both":    {Weight: new(int32(40)), Matches: []rollouts.RouteMatch{pathMatch("", "/shop")}},
	},
	"destinationrule": {},
	"traefikservice":  {},
	"aws-alb":         {},
	"grpcroute": {
		"header": {Matches: []rollouts.RouteMatch{headerMatch("Exact", "user", "me")}, Headers: headerModifier()},
	},
}

func pathMatch(kind, value string) rollouts.RouteMatch {
	p := &rollouts.PathMatch{Value: &value}
	if kind != "" {
		p.Type = &kind
	}
	return rollouts.RouteMatch{Path: p}
}

func queryMatch(name, value string) rollouts.RouteMatch {
	return rollouts.RouteMatch{QueryParams: []rollouts.ValueMatch{{Name: name, Value: value}}}
}

func headerModifier() *rollouts.HeaderModifier {
	return &rollouts.HeaderModifier{
		Set: []rollouts.Header{{Name: "seen", Value: "new"}}, Add: []rollouts.Header{{Name: "Tag", Value: "two"}}, Remove: []string{"Cookie"},
	}
}

// serverCopy returns an object as a client reads it: Ingresses are typed, other kinds are
// unstructured.
func serverCopy(t *testing.T, o object.Object) object.Object {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	read := &unstructured.Unstructured{}
	if err := read.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	if read.GetKind() != kindIngress.Kind {
		return read
	}
	ingress := &networkingv1.Ingress{}
	if err := json.Unmarshal(data, ingress); err != nil {
		t.Fatal(err)
	}
	ingress.TypeMeta = metav1.TypeMeta{} // as clients leave it
	return ingress
}

// routerOf returns the test objects with one router of the given kind instead of the Ingress.
func routerOf(t *testing.T, kind string) Objects {
	t.Helper()
	data, err := os.ReadFile("testdata/" + kind + ".in.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if data, err = yaml.YAMLToJSON(data); err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	objs := ingressObjects(t)
	objs.Routers = []Router{{Kind: obj.GroupVersionKind().GroupKind(), Name: obj.GetName(), Field: where + ".router", Object: serverCopy(t, obj)}}
	if objs.Routers[0].IsIngress() {
		objs.Routers[0].Class = kind
	}
	if script, err := os.ReadFile("testdata/" + kind + ".lua"); err == nil {
		objs.Routers[0].Script, objs.Routers[0].ScriptFrom = string(script), "ConfigMap a/b"
	}
	return objs
}

// applyToStored applies changes to the objects as a server would.
func applyToStored(t *testing.T, objs Objects, changes []object.Change) Objects {
	t.Helper()
	for _, c := range changes {
		if u, ok := c.Want.(*unstructured.Unstructured); ok {
			objs.Routers = []Router{objs.Routers[0]}
			objs.Routers[0].Object = serverCopy(t, u)
			continue
		}
		objs = apply(objs, []object.Change{c})
	}
	return objs
}

func inPlaceRoutes(kind string) map[string]planner.Route {
	routes := maps.Clone(inPlaceKinds[kind])
	routes["nothing"] = planner.Route{}
	for _, n := range []int32{0, 1, 20, 50, 99, 100} {
		routes[itoa(n)] = weightRoute(n)
	}
	return routes
}

// TestInPlace applies random sequences of routes. Each route is observed after one pass. In the end
// the owner's object is unchanged.
func TestInPlace(t *testing.T) {
	for kind := range inPlaceKinds {
		t.Run(kind, func(t *testing.T) {
			routes := inPlaceRoutes(kind)
			names := slices.Sorted(maps.Keys(routes))
			chance := rand.New(rand.NewSource(1)) // the same sequences every time
			sequences := 200
			if routerOf(t, kind).Routers[0].Script != "" {
				sequences = 20
			}
			for range sequences {
				objs := routerOf(t, kind)
				before := routerOf(t, kind)
				var way []string
				for range 1 + chance.Intn(4) {
					way = append(way, names[chance.Intn(len(names))])
					objs = routeVia(t, objs, routes[way[len(way)-1]], strings.Join(way, ","))
				}
				if chance.Intn(2) == 0 {
					objs.Service = nil // nothing of ours stays, whatever its owner deletes
				}
				changes, err := RestoreRouters(objs)
				if err != nil {
					t.Fatal(err)
				}
				objs = applyToStored(t, objs, changes)
				if diff := cmp.Diff(before.Routers[0].Object, objs.Routers[0].Object); diff != "" {
					t.Fatalf("restored after %v (-before +after):\n%s", way, diff)
				}
				if seen := Observe(objs, ingressRef(""), rollouts.Step{}); seen.Routed {
					t.Fatalf("after %v it is restored, and routed: %v", way, seen)
				}
			}
		})
	}
}

func routeVia(t *testing.T, objs Objects, want planner.Route, way string) Objects {
	t.Helper()
	was := Observe(objs, ingressRef(""), rollouts.Step{}).Routed
	changes, err := RouteRequests(objs, "two", want)
	if err != nil {
		t.Fatalf("%s: %v", way, err)
	}
	objs = applyToStored(t, objs, changes)
	again, err := RouteRequests(objs, "two", want)
	if err != nil || len(again) > 0 {
		t.Fatalf("%s: not done after one pass: %d changes, %v", way, len(again), err)
	}
	want.Pinned, want.Canary = "one", "two"
	want.Routed = len(want.Matches) > 0 || want.Weight != nil && (*want.Weight > 0 || was)
	if !want.Routed {
		want.Weight = nil
	}
	seen := Observe(objs, ingressRef(""), rollouts.Step{})
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Fatalf("%s (-want +observed):\n%s", way, diff)
	}
	return objs
}

// TestInPlaceChanges compares the changes for each route of each kind with a golden file.
func TestInPlaceChanges(t *testing.T) {
	for kind := range inPlaceKinds {
		for name, want := range inPlaceRoutes(kind) {
			t.Run(kind+"-"+name, func(t *testing.T) {
				objs, before := routerOf(t, kind), routerOf(t, kind)
				changes, err := RouteRequests(objs, "two", want)
				if err != nil {
					t.Fatal(err)
				}
				golden.Changes(t, kind+"-"+name, changes[1:])
				if diff := cmp.Diff(before, objs); diff != "" {
					t.Errorf("the input was changed (-before +after):\n%s", diff)
				}
			})
		}
	}
}
