// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// TestRoutedForAnother has two Rollouts that name one router, which is edited in place. The second
// Rollout writes nothing, its message names the first one, and its end does not change the router.
func TestRoutedForAnother(t *testing.T) {
	for kind := range inPlaceKinds {
		t.Run(kind, func(t *testing.T) {
			objs := routeVia(t, routerOf(t, kind), weightRoute(20), "20")
			objs.Owner.Name, objs.Owner.UID = "other", "r-other"
			objs.OtherReleases = []OtherRelease{{Release: "rollout/web", Object: "service/web"}}
			if objs.CanaryService != nil { // of another Service
				objs.CanaryService.OwnerReferences = []metav1.OwnerReference{objs.Owner}
			}
			const says = "is in use by rollout/web; wait until its release ends, or use a separate Service and router for each Rollout"
			if seen := Observe(objs, ingressRef(""), rollouts.Step{}); seen.Routed || seen.Edited || !strings.Contains(seen.UnroutableReason, says) {
				t.Errorf("routed %t, edited %t, trouble %q; want trouble with %q", seen.Routed, seen.Edited, seen.UnroutableReason, says)
			}
			if changes, err := RouteRequests(objs, "two", weightRoute(50)); len(changes) > 0 || err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("routing: %d changes, error %v; want nothing and an error with %q", len(changes), err, says)
			}
			if changes, err := RestoreRouters(objs); len(changes) > 0 || err != nil {
				t.Errorf("restoring: %d changes, error %v; want nothing", len(changes), err)
			}
		})
	}
}

// TestForgedName forges a name with additional text, which a message must not repeat.
func TestForgedName(t *testing.T) {
	objs := routeVia(t, routerOf(t, "virtualservice"), weightRoute(20), "20")
	forged := objs.Routers[0].Object.(*unstructured.Unstructured)
	forged.SetAnnotations(map[string]string{rollouts.AnnotationRouted: `{"for":"a\u001b[2J\u202eb` + strings.Repeat("x", 10_000) + `"}`})
	objs.OtherReleases = []OtherRelease{{Release: readRouteRecord(forged).Owner, Object: "virtualservice/echoserver"}}
	seen := Observe(objs, ingressRef(""), rollouts.Step{})
	if want := `is in use by "a\x1b[2J\u202ebxxx`; !strings.Contains(seen.UnroutableReason, want) || len(seen.UnroutableReason) > 1000 {
		t.Errorf("%d characters: %.100q; want less, and %q among them", len(seen.UnroutableReason), seen.UnroutableReason, want)
	}
}

// TestRecordWithoutName continues with a route record of an older version, which has no owner, and
// adds the owner.
func TestRecordWithoutName(t *testing.T) {
	objs := routeVia(t, routerOf(t, "virtualservice"), weightRoute(20), "20")
	edited := objs.Routers[0].Object.(*unstructured.Unstructured).DeepCopy()
	annotations := edited.GetAnnotations()
	annotations[rollouts.AnnotationRouted] = `{"traffic":"20%"}`
	edited.SetAnnotations(annotations)
	objs.Routers = []Router{objs.Routers[0]}
	objs.Routers[0].Object = edited
	if seen := Observe(objs, ingressRef(""), rollouts.Step{}); !seen.Routed || seen.UnroutableReason != "" {
		t.Errorf("routed %t, trouble %q; want it routed", seen.Routed, seen.UnroutableReason)
	}
	objs = routeVia(t, objs, weightRoute(20), "20, named")
	if got := objs.Routers[0].Object.GetAnnotations()[rollouts.AnnotationRouted]; got != `{"traffic":"20%","for":"rollout/web"}` {
		t.Errorf("on record is %s", got)
	}
}
