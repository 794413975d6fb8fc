// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-rollouts/weir/internal/golden"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestTakeover takes over routers as OpenKruise leaves them in the middle of a
// release. They count as routed, go on with the next share, and are restored to
// the same object whether they were routed once more or not.
func TestTakeover(t *testing.T) {
	for _, kind := range []string{"taken-share", "taken-matches", "taken-virtual"} {
		t.Run(kind, func(t *testing.T) {
			objs := routerOf(t, kind)
			objs.CanaryService = newCanaryService(objs, "two")
			want := planner.Route{Pinned: "one", Canary: "two", Routed: true}
			if diff := cmp.Diff(want, Observe(objs, ingressRef(""), rollouts.Step{})); diff != "" {
				t.Fatalf("(-want +observed):\n%s", diff)
			}
			router := func(changes []object.Change, err error) []object.Change {
				if err != nil || len(changes) != 1 {
					t.Fatalf("%d changes, %v; want one", len(changes), err)
				}
				return changes
			}
			at80 := router(RouteRequests(objs, "two", weightRoute(80)))
			golden.Changes(t, kind+"-80", at80)
			restored := router(RestoreRouters(objs))
			golden.Changes(t, kind+"-restored", restored)

			objs = routeVia(t, objs, weightRoute(80), "80")
			again := router(RestoreRouters(objs))
			if diff := cmp.Diff(serverCopy(t, restored[0].Want), serverCopy(t, again[0].Want)); diff != "" {
				t.Errorf("restored at once, and after a share (-at once +after):\n%s", diff)
			}
		})
	}
}

// TestNoTakeover leaves a route alone that leads to somebody's own Service.
func TestNoTakeover(t *testing.T) {
	objs := routerOf(t, "taken-share")
	objs.CanaryService = newCanaryService(objs, "two")
	objs.CanaryService.OwnerReferences = nil
	changes, err := RestoreRouters(objs)
	if seen := Observe(objs, ingressRef(""), rollouts.Step{}); seen.Routed || err != nil || len(changes) > 0 {
		t.Errorf("routed %t, %d changes, %v; want nothing", seen.Routed, len(changes), err)
	}
}
