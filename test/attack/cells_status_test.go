// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// statusCells have a status of a set say what is not so, again and again, since its
// controller writes it anew.
var statusCells = []cell{
	{who: patcher, what: undoAbort, how: "has the status of a StatefulSet call the live template stable", doors: true, on: scene{kind: statefulSets, at: aborted},
		do: liesOf("v1", "v1"), expect: gated},
	{who: patcher, what: undoAbort, how: "has the status of a StatefulSet call the aborted revision current, and sets it again", doors: true,
		on: scene{kind: statefulSets, at: aborted}, do: liesOfNext, expect: gated},
	{who: patcher, what: skip, how: "has the status of a StatefulSet count all pods as updated", doors: true, on: scene{kind: statefulSets, at: midway},
		do: liesOf("v1", "v2"), expect: gated},
	{who: patcher, what: ship, how: "has the status of a DaemonSet say that it has no nodes", doors: true, on: scene{kind: daemonSets},
		do: liesOfNodes(0), expect: gated},
	{who: patcher, what: skip, how: "has the status of a DaemonSet say that it has no nodes, midway", doors: true, on: scene{kind: daemonSets, at: midway},
		do: liesOfNodes(0), expect: gated},
	{who: patcher, what: skip, how: "has the status of a DaemonSet say that it has many nodes", doors: true, on: scene{kind: daemonSets, at: midway},
		do: liesOfNodes(300), expect: gated},
}

// lies is a status of a StatefulSet of three pods.
func (a *app) lies(u *user, current, update string) {
	a.t.Helper()
	for range 20 {
		a.tries(u, patch(a.path()+"/status", encode(object{"status": object{
			"observedGeneration": 1 << 20, "currentRevision": current, "updateRevision": update,
			"replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "updatedReplicas": 3, "currentReplicas": 3,
		}})))
	}
}

func liesOf(current, update string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		a.lies(u, a.called(current), a.called(update))
	}
}

// called is the name that the native controller gives a version here.
func (a *app) called(version string) string {
	a.t.Helper()
	list := &appsv1.ControllerRevisionList{}
	if err := here.client.List(a.t.Context(), list, client.InNamespace(a.namespace)); err != nil {
		a.t.Fatal(err)
	}
	for i := range list.Items {
		if strings.Contains(string(list.Items[i].Data.Raw), image(version)) {
			return list.Items[i].Name
		}
	}
	a.t.Fatalf("no ControllerRevision has %s", version)
	return ""
}

func liesOfNext(a *app, u *user) {
	a.t.Helper()
	v2 := a.called("v2")
	a.verb(here.admin, "rollback", "")
	a.until("the Rollout is Healthy", a.healthy)
	a.tries(u, patch(a.path(), change{version: "v2"}.body()))
	a.lies(u, v2, v2)
}

func liesOfNodes(n int) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		lie := patch(a.path()+"/status", encode(object{"status": object{
			"observedGeneration": 1 << 20, "desiredNumberScheduled": n, "updatedNumberScheduled": n, "numberReady": n, "numberAvailable": n,
		}}))
		all := change{spec: object{"updateStrategy": object{"rollingUpdate": object{"maxUnavailable": "100%"}}}}
		a.tries(u, patch(a.path(), all.body()))
		for i := range 20 {
			a.tries(u, lie)
			if i == 0 && a.scene.at == resting {
				a.tries(u, patch(a.path(), change{version: "v2"}.body()))
			}
		}
	}
}
