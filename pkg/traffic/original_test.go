// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// TestForgedOriginal has an attacker who can write a router and adds or removes Weir's annotations,
// before and during a release. The restored object is never the attacker's choice, and has no
// reference to the canary revision.
func TestForgedOriginal(t *testing.T) {
	for kind := range inPlaceKinds {
		for name, record := range map[string]map[string]string{
			"garbled":            {rollouts.AnnotationOriginalSpec: "{", rollouts.AnnotationRouted: "{"},
			"empty":              {rollouts.AnnotationOriginalSpec: "{}", rollouts.AnnotationRouted: "{}"},
			"of another type":    {rollouts.AnnotationOriginalSpec: `{"spec":[1]}`, rollouts.AnnotationRouted: "[]"},
			"chosen":             {rollouts.AnnotationOriginalSpec: `{"spec":{"chosen":"by somebody"}}`, rollouts.AnnotationRouted: `{"traffic":"20%","for":"rollout/web"}`},
			"for nobody":         {rollouts.AnnotationOriginalSpec: `{"spec":{"chosen":"by somebody"}}`, rollouts.AnnotationRouted: `{"traffic":"20%","for":"rollout/nobody"}`},
			"taken off":          {},
			"without a route":    {rollouts.AnnotationOriginalSpec: `{"spec":{"chosen":"by somebody"}}`},
			"without the record": {rollouts.AnnotationRouted: `{"traffic":"20%"}`},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				objs := routerOf(t, kind)
				objs.OriginalDigests = OriginalDigests(objs)
				objs = routeVia(t, objs, weightRoute(20), "20")
				last := len(objs.Routers) - 1
				forged, err := toUnstructured(objs.Routers[last])
				if err != nil {
					t.Fatal(err)
				}
				forged = forged.DeepCopy()
				annotations := forged.GetAnnotations()
				removeRouteRecord(annotations)
				maps.Copy(annotations, record)
				forged.SetAnnotations(annotations)
				objs.Routers[last].Object = forged
				if seen := Observe(objs, ingressRef(""), rollouts.Step{}); !seen.Routed || TamperedRouter(objs) == "" {
					t.Errorf("routed %t, doubted %q: %s", seen.Routed, TamperedRouter(objs), seen.UnroutableReason)
				}
				changes, err := RestoreRouters(objs)
				if err != nil || len(changes) != 1 {
					t.Fatalf("%d changes, error %v; want one", len(changes), err)
				}
				checkStable(t, changes[0].Want.(*unstructured.Unstructured), objs)
			})
		}
	}
}

// checkStable checks that a router uses only the stable Service and has no annotations of Weir.
func checkStable(t *testing.T, obj *unstructured.Unstructured, objs Objects) {
	t.Helper()
	for _, key := range []string{rollouts.AnnotationOriginalSpec, rollouts.AnnotationRouted, rollouts.AnnotationRoutedBy} {
		if value, left := obj.GetAnnotations()[key]; left {
			t.Errorf("annotation %s is left: %s", key, value)
		}
	}
	p := objs.paramsFor(weightRoute(0))
	data, err := json.Marshal([]any{obj.Object["spec"], obj.GetAnnotations()["alb.ingress.kubernetes.io/actions.web"], obj.GetAnnotations()["alb.ingress.kubernetes.io/actions.browse"]})
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"chosen", `"` + p.CanaryService + `"`, `\"` + p.CanaryService + `\"`, p.CanaryService + "."} {
		if p.CanaryService != p.StableService && strings.Contains(string(data), word) {
			t.Errorf("%q is in %s", word, data)
		}
	}
	if !strings.Contains(string(data), p.StableService) {
		t.Errorf("nothing leads to stable: %s", data)
	}
}

// TestForgedBefore adds Weir's annotations to a router that has never had a route. They are
// removed, and the rest of the router is kept.
func TestForgedBefore(t *testing.T) {
	objs := routerOf(t, "virtualservice")
	before := specOf(t, objs)
	objs.OriginalDigests = []string{}
	forged := objs.Routers[0].Object.(*unstructured.Unstructured).DeepCopy()
	forged.SetAnnotations(map[string]string{
		rollouts.AnnotationOriginalSpec: `{"spec":{"chosen":"by somebody"}}`, rollouts.AnnotationRouted: `{"traffic":"20%"}`,
	})
	objs.Routers[0].Object = forged
	changes, err := RestoreRouters(objs)
	if err != nil || len(changes) != 1 {
		t.Fatalf("%d changes, error %v; want one", len(changes), err)
	}
	if after := applyToStored(t, objs, changes); specOf(t, after) != before || len(after.Routers[0].Object.GetAnnotations()) > 0 {
		t.Errorf("it is %s, with annotations %v", specOf(t, after), after.Routers[0].Object.GetAnnotations())
	}
}
