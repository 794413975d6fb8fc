// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/internal/golden"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

const where = "spec.strategy.canary.trafficRoutings[0]"

// ingressObjects returns the objects of testdata/shop.in.yaml.
func ingressObjects(t *testing.T) Objects {
	t.Helper()
	data, err := os.ReadFile("testdata/shop.in.yaml")
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	objs := Objects{
		Service: &corev1.Service{}, RevisionKey: "pod-template-hash", TemplateLabels: map[string]string{"app": "web", "tier": "front"},
		Owner: metav1.OwnerReference{
			APIVersion: "rollouts.kruise.io/v1beta1", Kind: "Rollout", Name: "web", UID: "r-1", Controller: &yes, BlockOwnerDeletion: &yes,
		},
	}
	docs := bytes.Split(data, []byte("---\n"))
	if err := yaml.UnmarshalStrict(docs[0], objs.Service); err != nil {
		t.Fatal(err)
	}
	ingress := &networkingv1.Ingress{}
	if err := yaml.UnmarshalStrict(docs[1], ingress); err != nil {
		t.Fatal(err)
	}
	objs.ServiceName = types.NamespacedName{Namespace: objs.Service.Namespace, Name: objs.Service.Name}
	objs.Routers = RoutersFor(ingressRef("nginx"), where)
	objs.Routers[0].Object = ingress
	return objs
}

// apply applies changes to the objects, like a cluster without controllers.
func apply(objs Objects, changes []object.Change) Objects {
	for _, c := range changes {
		changed := c.Want
		if changed == nil {
			changed = c.Base
		}
		switch o := changed.(type) {
		case *corev1.Service:
			if c.Want == nil {
				o = nil
			}
			if changed.GetName() == objs.ServiceName.Name {
				objs.Service = o
			} else {
				objs.CanaryService = o
			}
		case *networkingv1.Ingress:
			if c.Want == nil {
				o = nil
			}
			objs.Routers = slices.Clone(objs.Routers)
			objs.Routers[0].CanaryIngress = o
		}
	}
	return objs
}

// routedObjects returns the test objects with a canary Service and a canary Ingress.
func routedObjects(t *testing.T, want planner.Route) Objects {
	t.Helper()
	objs := ingressObjects(t)
	changes, err := RouteRequests(objs, "two", want)
	if err != nil {
		t.Fatal(err)
	}
	return apply(objs, changes)
}

func stableIngress(o *Objects) *networkingv1.Ingress {
	return o.Routers[0].Object.(*networkingv1.Ingress)
}

func weightRoute(n int32) planner.Route { return planner.Route{Weight: &n} }

func headerMatch(kind, name, value string) rollouts.RouteMatch {
	m := rollouts.RouteMatch{Headers: []rollouts.ValueMatch{{Name: name, Value: value}}}
	if kind != "" {
		m.Headers[0].Type = &kind
	}
	return m
}

func ingressRef(class string) rollouts.TrafficRoutingRef {
	return rollouts.TrafficRoutingRef{Service: "web", Ingress: &rollouts.IngressRef{ClassType: &class, Name: "front"}}
}

// TestChanges compares each case with a golden file. Every case must also be complete after one
// pass, and must not change its input.
func TestChanges(t *testing.T) {
	type op = func(Objects) ([]object.Change, error)
	pin := func(o Objects) ([]object.Change, error) { return PinStableService(o, "one") }
	unpin := func(o Objects) ([]object.Change, error) { return UnpinStableService(o), nil }
	canary := func(o Objects) ([]object.Change, error) { return EnsureCanaryService(o, "two") }
	remove := func(o Objects) ([]object.Change, error) { return RemoveCanaryService(o), nil }
	route := func(want planner.Route) op {
		return func(o Objects) ([]object.Change, error) {
			return canaryIngress{nginx.render}.Route(o, o.Routers[0], want)
		}
	}
	bare := func(*testing.T) Objects { return Objects{RevisionKey: "pod-template-hash"} }
	at := func(want planner.Route, edits ...func(*Objects)) func(*testing.T) Objects {
		return func(t *testing.T) Objects {
			objs := routedObjects(t, want)
			for _, e := range edits {
				e(&objs)
			}
			return objs
		}
	}
	unpinned := func(t *testing.T) Objects {
		objs := ingressObjects(t)
		delete(objs.Service.Spec.Selector, objs.RevisionKey)
		return objs
	}
	const older = "rollouts.kruise.io/v1alpha1"
	other := func(o *Objects) {
		o.CanaryService.OwnerReferences[0].UID, o.Routers[0].CanaryIngress.OwnerReferences[0].UID = "r-other", "r-other"
	}
	foreign := func(o *Objects) {
		o.CanaryService.OwnerReferences, o.Routers[0].CanaryIngress.OwnerReferences = nil, nil
	}
	header := planner.Route{Matches: []rollouts.RouteMatch{headerMatch("Exact", "user", "me")}}
	for name, tc := range map[string]struct {
		in func(*testing.T) Objects
		op op
	}{
		"pin":             {unpinned, pin},
		"pin-again":       {ingressObjects, pin},
		"unpin":           {ingressObjects, unpin},
		"unpin-again":     {unpinned, unpin},
		"unpin-gone":      {bare, unpin},
		"service-create":  {ingressObjects, canary},
		"service-again":   {at(weightRoute(5)), canary},
		"service-another": {at(weightRoute(5), func(o *Objects) { o.CanaryService.Spec.Selector["pod-template-hash"] = "old" }), canary},
		// What else others do to it stays, even if the stable Service differs. The label that
		// protects it from the garbage collector comes back.
		"service-edited": {at(weightRoute(5), func(o *Objects) {
			o.CanaryService.Spec.SessionAffinity = corev1.ServiceAffinityNone
			o.CanaryService.Labels = nil
		}), canary},
		// Its owner is spelled as who served the API before did.
		"service-owner": {at(weightRoute(5), func(o *Objects) { o.CanaryService.OwnerReferences[0].APIVersion = older }), canary},
		// Another release has made it, though of a Rollout of the same name.
		"service-others": {at(weightRoute(5), other), remove},
		"service-node-port": {func(t *testing.T) Objects {
			objs := ingressObjects(t)
			objs.Service.Spec.Type = corev1.ServiceTypeNodePort
			return objs
		}, canary},
		"service-remove":  {at(weightRoute(5)), remove},
		"service-gone":    {ingressObjects, remove},
		"service-foreign": {at(weightRoute(5), foreign), remove},
		"route-create":    {ingressObjects, route(weightRoute(20))},
		"route-full":      {ingressObjects, route(weightRoute(100))},
		"route-zero":      {ingressObjects, route(weightRoute(0))},
		"route-to-zero":   {at(weightRoute(20)), route(weightRoute(0))},
		"route-again":     {at(weightRoute(20)), route(weightRoute(20))},
		"route-raise":     {at(weightRoute(20)), route(weightRoute(50))},
		"route-nothing":   {at(weightRoute(20)), route(planner.Route{})},
		"route-header":    {ingressObjects, route(header)},
		"route-pattern":   {at(header), route(planner.Route{Matches: []rollouts.RouteMatch{headerMatch("RegularExpression", "user", "m.*")}})},
		"route-cookie":    {at(header), route(planner.Route{Matches: []rollouts.RouteMatch{headerMatch("", "canary-by-cookie", "demo")}})},
		"route-share":     {at(header), route(weightRoute(30))},
		// What others added stays; what the owner changed follows; an owner as who
		// served the API before spelled it is spelled as now.
		"route-follow": {at(weightRoute(20), func(o *Objects) {
			o.Routers[0].CanaryIngress.Annotations["cert"], o.Routers[0].CanaryIngress.Labels["x"] = "y", "z"
			o.Routers[0].CanaryIngress.OwnerReferences[0].APIVersion = older
			stableIngress(o).Spec.Rules[3].HTTP.Paths[0].Path = "/new"
			stableIngress(o).Annotations["nginx.ingress.kubernetes.io/proxy-body-size"] = "9m"
		}), route(weightRoute(20))},
		"restore":         {at(weightRoute(20)), RestoreRouters},
		"restore-again":   {ingressObjects, RestoreRouters},
		"restore-orphan":  {at(weightRoute(20), func(o *Objects) { o.Service, o.Routers[0].Object = nil, nil }), RestoreRouters},
		"restore-foreign": {at(weightRoute(20), foreign), RestoreRouters},
		"restore-others":  {at(weightRoute(20), other), RestoreRouters},
		"restore-going": {at(weightRoute(20), func(o *Objects) {
			o.Routers[0].CanaryIngress.DeletionTimestamp = &metav1.Time{}
		}), RestoreRouters},
	} {
		t.Run(name, func(t *testing.T) {
			objs := tc.in(t)
			before := tc.in(t)
			changes, err := tc.op(objs)
			if err != nil {
				t.Fatal(err)
			}
			golden.Changes(t, name, changes)
			if diff := cmp.Diff(before, objs); diff != "" {
				t.Errorf("the input was changed (-before +after):\n%s", diff)
			}
			again, err := tc.op(apply(objs, changes))
			if err != nil || len(again) != 0 {
				t.Errorf("not done after one pass: %d changes, error %v", len(again), err)
			}
		})
	}
}

// ownedByOther returns an object that was created by an earlier Rollout of the same name.
func ownedByOther[T metav1.Object](o *Objects, obj T) T {
	ref := o.Owner
	ref.UID = "r-other"
	obj.SetOwnerReferences([]metav1.OwnerReference{ref})
	return obj
}

// TestErrors checks that errors name the wrong field, and that nothing is written.
func TestErrors(t *testing.T) {
	text := "x"
	path := rollouts.RouteMatch{Path: &rollouts.PathMatch{Value: &text}}
	query := rollouts.RouteMatch{QueryParams: []rollouts.ValueMatch{{Name: "a", Value: "b"}}}
	both := headerMatch("Exact", "a", "b")
	both.Headers = append(both.Headers, both.Headers[0])
	route := func(matches ...rollouts.RouteMatch) func(Objects) ([]object.Change, error) {
		return func(o Objects) ([]object.Change, error) {
			return RouteRequests(o, "two", planner.Route{Matches: matches})
		}
	}
	pin := func(o Objects) ([]object.Change, error) { return PinStableService(o, "one") }
	canary := func(o Objects) ([]object.Change, error) { return EnsureCanaryService(o, "two") }
	find := func(r rollouts.TrafficRoutingRef) func(Objects) ([]object.Change, error) {
		return func(Objects) ([]object.Change, error) {
			objs := Objects{Routers: RoutersFor(r, where)}
			if len(objs.Routers) == 0 {
				return nil, nil
			}
			_, err := findProvider(objs.Routers[0])
			return nil, err
		}
	}
	none := func(*Objects) {}
	for name, tc := range map[string]struct {
		edit func(*Objects)
		op   func(Objects) ([]object.Change, error)
		says string
	}{
		"no selector":            {func(o *Objects) { o.Service.Spec.Selector = nil }, pin, "service web has no selector"},
		"no selector to copy":    {func(o *Objects) { o.Service.Spec.Selector = nil }, canary, "service web has no selector"},
		"a foreign service":      {func(o *Objects) { o.Service.Spec.Selector["app"] = "other" }, pin, `service web selects "app=other", which does not match the pods of the workload`},
		"a foreign one to copy":  {func(o *Objects) { o.Service.Spec.Selector["app"] = "other" }, canary, "does not match the pods of the workload"},
		"a narrower service":     {func(o *Objects) { o.Service.Spec.Selector["zone"] = "a" }, route(headerMatch("", "a", "b")), "does not match the pods of the workload"},
		"nothing but a revision": {func(o *Objects) { delete(o.Service.Spec.Selector, "app") }, pin, "does not match the pods of the workload"},
		"taken by another": {func(o *Objects) {
			o.OtherReleases = []OtherRelease{{Release: "rollout/other", Object: "service/web", AcquiredFirst: true}}
		}, pin, "service/web is in use by rollout/other"},
		"no service":          {func(o *Objects) { o.Service = nil }, pin, "service web does not exist; create it, or correct the name of the Service in trafficRoutings"},
		"no service to copy":  {func(o *Objects) { o.Service = nil }, canary, "service web does not exist; create it, or correct the name of the Service in trafficRoutings"},
		"no service to route": {func(o *Objects) { o.Service = nil }, route(headerMatch("", "a", "b")), "service web does not exist; create it, or correct the name of the Service in trafficRoutings"},
		"no ingress":          {func(o *Objects) { o.Routers[0].Object = nil }, route(headerMatch("", "a", "b")), "ingress/front does not exist"},
		"no revision":         {none, func(o Objects) ([]object.Change, error) { return PinStableService(o, "") }, "revision is not known"},
		"no rule":             {func(o *Objects) { o.ServiceName.Name = "other" }, route(headerMatch("", "a", "b")), "ingress front has no rule with the backend service other"},
		"somebody's service":  {func(o *Objects) { o.CanaryService = o.Service }, canary, "Weir needs this name"},
		"somebody's ingress":  {func(o *Objects) { o.Routers[0].CanaryIngress = stableIngress(o) }, route(headerMatch("", "a", "b")), "Weir needs this name"},
		"another's service": {func(o *Objects) { o.CanaryService = ownedByOther(o, o.Service.DeepCopy()) }, canary,
			"service web exists and belongs to Rollout web (uid r-other); wait until its release ends, or use a separate service for each Rollout"},
		"another's ingress": {func(o *Objects) { o.Routers[0].CanaryIngress = ownedByOther(o, stableIngress(o).DeepCopy()) }, route(headerMatch("", "a", "b")),
			where + ".ingress: ingress front exists and belongs to Rollout web (uid r-other); wait until its release ends, or use a separate ingress for each Rollout"},
		"path":                 {none, route(path), "matches[0].path"},
		"query":                {none, route(headerMatch("", "a", "b"), query), "matches[1].queryParams"},
		"no headers":           {none, route(rollouts.RouteMatch{}), "matches[0].headers"},
		"several headers":      {none, route(both), "matches[0].headers"},
		"two headers":          {none, route(headerMatch("", "a", "b"), headerMatch("", "c", "d")), "matches[1].headers[0]"},
		"two cookies":          {none, route(headerMatch("", matchCookie, "b"), headerMatch("", matchCookie, "d")), "matches[1].headers[0]"},
		"cookie before header": {none, route(headerMatch("", matchCookie, "b"), headerMatch("", "c", "d")), "put the match of canary-by-cookie last"},
		"pattern of cookies":   {none, route(headerMatch("RegularExpression", matchCookie, "b.*")), "matches[0].headers[0].type"},
		"unknown type":         {none, route(headerMatch("Prefix", "a", "b")), "matches[0].headers[0].type"},
		"unknown class":        {none, find(ingressRef("traefik")), `spec.strategy.canary.trafficRoutings[0].ingress.classType: "traefik"`},
		"custom":               {none, find(rollouts.TrafficRoutingRef{CustomNetworkRefs: []rollouts.ObjectRef{{APIVersion: "example.com/v1", Kind: "Mesh", Name: "m"}}}), "trafficRoutings[0].customNetworkRefs[0]: Weir has no built-in support for Mesh.example.com; add a Lua script under the key lua.traffic.routing.Mesh.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			objs := ingressObjects(t)
			tc.edit(&objs)
			changes, err := tc.op(objs)
			if err == nil || !bytes.Contains([]byte(err.Error()), []byte(tc.says)) || len(changes) != 0 {
				t.Errorf("%d changes, error %v; want nothing and an error with %q", len(changes), err, tc.says)
			}
		})
	}
}
