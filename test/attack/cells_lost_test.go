// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// What native controllers know of versions is in ControllerRevisions. Nobody tells a
// StatefulSet's of one that is deleted.
var lostCells = []cell{
	{who: reviser, what: blockAbort, how: "deletes the new one of a StatefulSet", on: scene{kind: statefulSets, at: midway}, do: deletesRevision("v2"), expect: lostNothing(takenBackWhole)},
	{who: reviser, what: blockAbort, how: "deletes the new one of a StatefulSet that is promoted", on: scene{kind: statefulSets, at: midway}, do: deletesRevision("v2"), expect: lostNothing(finished)},
	{who: reviser, what: blockAbort, how: "deletes the new one of a DaemonSet", on: scene{kind: daemonSets, at: midway}, do: deletesRevision("v2"), expect: lostNothing(takenBackWhole)},
	{who: reviser, what: blockAbort, how: "deletes the stable one of a StatefulSet", on: scene{kind: statefulSets, at: midway}, do: deletesRevision("v1"), expect: lostNothing(setByHand)},
	{who: reviser, what: blockAbort, how: "deletes the stable one of a DaemonSet", on: scene{kind: daemonSets, at: midway}, do: deletesRevision("v1"), expect: lostNothing(setByHand)},
	{who: reviser, what: undoAbort, how: "deletes the one of a StatefulSet that is then disabled", on: scene{kind: statefulSets, at: aborted}, do: deletesRevision("v2"), expect: lostNothing(func(a *app) {
		a.t.Helper()
		a.edits(`{"spec":{"disabled":true}}`)
		a.until("it is disabled", a.phase(v1beta1.PhaseDisabled))
		a.until("v1 serves", a.runs(versions{"v1": 3}))
		a.atMost(1, "v2")
	})},
}

func deletesRevision(version string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		list := &appsv1.ControllerRevisionList{}
		if err := here.client.List(a.t.Context(), list, client.InNamespace(a.namespace)); err != nil {
			a.t.Fatal(err)
		}
		for _, r := range list.Items {
			if strings.Contains(string(r.Data.Raw), `"`+image(version)+`"`) {
				a.tries(u, request{method: http.MethodDelete, path: "/apis/apps/v1/namespaces/" + a.namespace + "/controllerrevisions/" + r.Name})
			}
		}
	}
}

// lostNothing wants the deletion to have been let through, and what comes after to end.
func lostNothing(end func(*app)) func(*app) {
	return func(a *app) {
		a.t.Helper()
		a.answered(http.StatusOK)
		end(a)
	}
}

// setByHand wants an abort to stall, and the earlier template to end the release, set by
// its owner.
func setByHand(a *app) {
	a.t.Helper()
	a.verb(here.admin, "abort", "")
	a.until("it says what was deleted", a.stalls("StableGone"))
	a.verb(here.admin, "rollback", "")
	a.ships("v1")
	a.until("the Rollout is Healthy", a.healthy)
	a.until("v1 serves", a.runs(versions{"v1": 3}))
	a.atMost(1, "v2")
}
