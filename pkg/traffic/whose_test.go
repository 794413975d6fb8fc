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

// TestRoutedForAnother has two Rollouts name one router that is routed in place.
// The second writes nothing, says for whom it waits, and ends without a touch.
func TestRoutedForAnother(t *testing.T) {
	for kind := range inPlaceKinds {
		t.Run(kind, func(t *testing.T) {
			objs := goTo(t, routerOf(t, kind), share(20), "20")
			objs.Owner.Name, objs.Owner.UID = "other", "r-other"
			objs.Others = []Other{{Who: "rollout/web", What: "service/web"}}
			if objs.CanaryService != nil { // of another Service
				objs.CanaryService.OwnerReferences = []metav1.OwnerReference{objs.Owner}
			}
			const says = "is routed for rollout/web; wait until that has ended, or give each its own"
			if seen := Observe(objs, ref(""), rollouts.Step{}); seen.Routed || seen.Edited || !strings.Contains(seen.Trouble, says) {
				t.Errorf("routed %t, edited %t, trouble %q; want trouble with %q", seen.Routed, seen.Edited, seen.Trouble, says)
			}
			if changes, err := Route(objs, "two", share(50)); len(changes) > 0 || err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("routing: %d changes, error %v; want nothing and an error with %q", len(changes), err, says)
			}
			if changes, err := Restore(objs); len(changes) > 0 || err != nil {
				t.Errorf("restoring: %d changes, error %v; want nothing", len(changes), err)
			}
		})
	}
}

// TestForgedName has somebody write more than a name where a message repeats it.
func TestForgedName(t *testing.T) {
	objs := goTo(t, routerOf(t, "virtualservice"), share(20), "20")
	forged := objs.Routers[0].Object.(*unstructured.Unstructured)
	forged.SetAnnotations(map[string]string{rollouts.AnnotationRouted: `{"for":"a\u001b[2J\u202eb` + strings.Repeat("x", 10_000) + `"}`})
	objs.Others = []Other{{Who: recordOf(forged).For, What: "virtualservice/echoserver"}}
	seen := Observe(objs, ref(""), rollouts.Step{})
	if want := `is routed for "a\x1b[2J\u202ebxxx`; !strings.Contains(seen.Trouble, want) || len(seen.Trouble) > 1000 {
		t.Errorf("%d characters: %.100q; want less, and %q among them", len(seen.Trouble), seen.Trouble, want)
	}
}

// TestRecordWithoutName goes on with what is on record from before a record named
// who routes, and puts the name on it.
func TestRecordWithoutName(t *testing.T) {
	objs := goTo(t, routerOf(t, "virtualservice"), share(20), "20")
	edited := objs.Routers[0].Object.(*unstructured.Unstructured).DeepCopy()
	annotations := edited.GetAnnotations()
	annotations[rollouts.AnnotationRouted] = `{"traffic":"20%"}`
	edited.SetAnnotations(annotations)
	objs.Routers = []Router{objs.Routers[0]}
	objs.Routers[0].Object = edited
	if seen := Observe(objs, ref(""), rollouts.Step{}); !seen.Routed || seen.Trouble != "" {
		t.Errorf("routed %t, trouble %q; want it routed", seen.Routed, seen.Trouble)
	}
	objs = goTo(t, objs, share(20), "20, named")
	if got := objs.Routers[0].Object.GetAnnotations()[rollouts.AnnotationRouted]; got != `{"traffic":"20%","for":"rollout/web"}` {
		t.Errorf("on record is %s", got)
	}
}
