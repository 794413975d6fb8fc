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

// keptReplicaSetCells delete a ReplicaSet that a finalizer keeps. The native controller still
// counts it and selects it by its template, although it creates no pods.
var keptReplicaSetCells = []cell{
	{who: editor, what: destroy, how: "keeps the deleted stable ReplicaSet", scenario: scenario{at: atStep1}, attack: keepsDeletedStable("Foreground"), expect: rollbackStalls},
	{who: editor, what: destroy, how: "keeps the deleted stable ReplicaSet with its pods", long: true, scenario: scenario{at: atStep1}, attack: keepsDeletedStable("Background"), expect: rollbackStalls},
	{who: editor, what: destroy, how: "keeps the deleted stable ReplicaSet of a canary release", scenario: scenario{canary: true, at: atStep1},
		attack: keepsDeletedStable("Foreground"), expect: rollbackStalls},
}

const testFinalizer = "example.com/keep"

func (a *app) setPath(name string) string {
	return "/apis/apps/v1/namespaces/" + a.namespace + "/replicasets/" + name
}

// keepsDeletedStable deletes the stable ReplicaSet, and allows all pods to be unavailable.
func keepsDeletedStable(policy string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		path := a.setPath(a.stableReplicaSet().Name)
		a.attackWith(u, patch(path, encode(object{"metadata": object{"finalizers": words(testFinalizer)}})))
		a.attackWith(u, deletion(path, policy))
		a.attackWith(u, patch(a.path(), `{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"100%","maxSurge":0}}}}`))
	}
}

// deletedReplicaSet returns the ReplicaSet that a finalizer keeps.
func (a *app) deletedReplicaSet() *appsv1.ReplicaSet {
	a.t.Helper()
	sets := &appsv1.ReplicaSetList{}
	if err := testEnv.client.List(a.t.Context(), sets, client.InNamespace(a.namespace)); err != nil {
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

// rollbackStalls expects that a rollback stalls. The earlier template, set by the owner, waits
// until the deleted ReplicaSet, which the Rollout names, is gone, and is then released.
func rollbackStalls(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	kept := a.deletedReplicaSet()
	a.verb(a.userWithRole(manager), "rollback", "")
	a.eventually("the Rollout reports the deleted ReplicaSet", a.isStalledFor("StableGone"))
	a.setVersion("v1")
	a.eventually("the Rollout reports what blocks the workload", func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err == nil && (reason(r) != "Cancelling" || !strings.Contains(r.Status.Message, kept.Name) || !strings.Contains(r.Status.Message, testFinalizer)) {
			err = fmt.Errorf("the Rollout is %s: %s", describe(r), r.Status.Message)
		}
		return err
	})
	a.atMost(1, "v2") // the native controller moves the other pods to it when that ReplicaSet is gone
	a.mustSend(testEnv.admin, patch(a.setPath(kept.Name), `{"metadata":{"finalizers":null}}`))
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("v1 serves", a.runs(versions{"v1": 3}))
}
