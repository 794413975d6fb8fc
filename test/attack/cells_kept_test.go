// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// keptCells delete a ReplicaSet that a finalizer keeps. The native controller counts it
// and chooses it by its template, and it makes no pods.
var keptCells = []cell{
	{who: editor, what: destroy, how: "keeps the deleted stable ReplicaSet", on: scene{at: midway}, do: keepsStable("Foreground"), expect: keptHeld},
	{who: editor, what: destroy, how: "keeps the deleted stable ReplicaSet with its pods", long: true, on: scene{at: midway}, do: keepsStable("Background"), expect: keptHeld},
	{who: editor, what: destroy, how: "keeps the deleted stable ReplicaSet beside an extra Deployment", on: scene{beside: true, at: midway},
		do: keepsStable("Foreground"), expect: keptHeld},
}

const keeper = "example.com/keep"

func (a *app) setPath(name string) string {
	return "/apis/apps/v1/namespaces/" + a.namespace + "/replicasets/" + name
}

// keepsStable deletes the stable set, and lets all pods be unavailable.
func keepsStable(policy string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		path := a.setPath(a.stable().Name)
		a.tries(u, patch(path, encode(object{"metadata": object{"finalizers": words(keeper)}})))
		a.tries(u, deletion(path, policy))
		a.tries(u, patch(a.path(), `{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"100%","maxSurge":0}}}}`))
	}
}

// deleted is the set that a finalizer keeps.
func (a *app) deleted() *appsv1.ReplicaSet {
	a.t.Helper()
	sets := &appsv1.ReplicaSetList{}
	if err := here.client.List(a.t.Context(), sets, client.InNamespace(a.namespace)); err != nil {
		a.t.Fatal(err)
	}
	for i := range sets.Items {
		if s := &sets.Items[i]; s.DeletionTimestamp != nil {
			return s
		}
	}
	a.t.Fatal("no ReplicaSet is being deleted")
	return nil
}

// keptHeld wants a rollback to stall. The earlier template, set by its owner, waits for the
// set, which the Rollout names, and serves when that is gone.
func keptHeld(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	kept := a.deleted()
	a.verb(a.as(manager), "rollback", "")
	a.until("it says what was deleted", a.stalls("StableGone"))
	a.ships("v1")
	a.until("it says what keeps the workload", func(ctx context.Context) error {
		r, err := a.stored(ctx)
		if err == nil && (reason(r) != "Cancelling" || !strings.Contains(r.Status.Message, kept.Name) || !strings.Contains(r.Status.Message, keeper)) {
			err = fmt.Errorf("it is %s: %s", describe(r), r.Status.Message)
		}
		return err
	})
	a.atMost(1, "v2") // the native controller gives it the other pods when that set is gone
	a.asks(here.admin, patch(a.setPath(kept.Name), `{"metadata":{"finalizers":null}}`))
	a.until("the Rollout is Healthy", a.healthy)
	a.until("v1 serves", a.runs(versions{"v1": 3}))
}
