// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"fmt"
	"slices"
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

// extraCells edit what Weir makes beside a Deployment, and what keeps its stable template.
var extraCells = []cell{
	{who: patcher, what: ship, how: "has the extra Deployment run more pods", on: scene{beside: true, at: midway},
		do: editsExtra(object{"spec": object{"replicas": 3}}), expect: extraEnds},
	{who: patcher, what: ship, how: "has annotations drive the extra Deployment", on: scene{beside: true, at: midway},
		do: editsExtra(drivenByHand), expect: extraUndriven},
	{who: patcher, what: skip, how: "has the status of the extra Deployment count pods", on: scene{beside: true, at: midway},
		do: editsExtraStatus, expect: extraEnds},
	{who: patcher, what: blockAbort, how: "takes the owner of the extra Deployment off", on: scene{beside: true, at: midway},
		do: editsExtra(object{"metadata": object{"ownerReferences": nil, "labels": object{canaryOf: nil}}}), expect: extraEnds},
	{who: editor, what: ship, how: "edits the stable ReplicaSet before a rollback", on: scene{at: midway}, do: editsStable, expect: notRestored},
}

// drivenByHand is what drives a Deployment that no Rollout names, with another template.
var drivenByHand = object{
	"metadata": object{"annotations": object{
		"batchrelease.rollouts.kruise.io/control-info": "x",
		"rollouts.kruise.io/deployment-strategy":       `{"partition":"100%","rollingUpdate":{"maxSurge":"100%"}}`,
	}},
	"spec": object{
		"paused": true, "strategy": object{"type": "Recreate", "rollingUpdate": nil}, "replicas": 8,
		"template": object{"spec": object{"containers": []object{{"name": name, "image": image("v3")}}}},
	},
}

// extraUndriven wants no pod of the version that was written there.
func extraUndriven(a *app) {
	a.t.Helper()
	extraEnds(a)
	a.atMost(0, "v3")
}

// beside are the other Deployments of the namespace.
func (a *app) beside(ctx context.Context) ([]appsv1.Deployment, error) {
	list := &appsv1.DeploymentList{}
	err := here.client.List(ctx, list, client.InNamespace(a.namespace))
	return slices.DeleteFunc(list.Items, func(d appsv1.Deployment) bool { return d.Name == a.name }), err
}

func editsExtra(body object) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		extras, err := a.beside(a.t.Context())
		if err != nil || len(extras) != 1 {
			a.t.Fatalf("%d extra Deployments, %v", len(extras), err)
		}
		a.tries(u, patch(strings.TrimSuffix(a.path(), a.name)+extras[0].Name, encode(body)))
	}
}

func editsExtraStatus(a *app, u *user) {
	a.t.Helper()
	extras, err := a.beside(a.t.Context())
	if err != nil || len(extras) != 1 {
		a.t.Fatalf("%d extra Deployments, %v", len(extras), err)
	}
	for range 20 {
		a.tries(u, patch(strings.TrimSuffix(a.path(), a.name)+extras[0].Name+"/status", encode(object{"status": object{
			"replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "updatedReplicas": 3,
		}})))
	}
}

// extraEnds wants one pod of the step, an abort that ends, and nothing left beside it.
func extraEnds(a *app) {
	a.t.Helper()
	a.answered(either...)
	a.until("the extra Deployment is as it was", a.runs(versions{"v1": 3, "v2": 1}))
	a.verb(here.admin, "rollback", "")
	a.until("the Rollout is Healthy", a.healthy)
	a.until("v1 serves", a.runs(versions{"v1": 3}))
	a.until("nothing is left beside it", func(ctx context.Context) error {
		extras, err := a.beside(ctx)
		if err == nil && len(extras) > 0 {
			err = fmt.Errorf("%s is left", extras[0].Name)
		}
		return err
	})
}

func editsStable(a *app, u *user) {
	a.t.Helper()
	sets := &appsv1.ReplicaSetList{}
	if err := here.client.List(a.t.Context(), sets, client.InNamespace(a.namespace)); err != nil {
		a.t.Fatal(err)
	}
	for i := range sets.Items {
		if s := &sets.Items[i]; versionOf(deployments, s.ObjectMeta, s.Spec.Template.Spec) == "v1" {
			path := "/apis/apps/v1/namespaces/" + a.namespace + "/replicasets/" + s.Name
			a.tries(u, patch(path, change{version: "v3"}.body()))
		}
	}
}

// notRestored wants a rollback to stall, and no pod of what was edited. The earlier template,
// set by its owner, ends the release.
func notRestored(a *app) {
	a.t.Helper()
	a.answered(either...)
	a.verb(here.admin, "rollback", "")
	a.until("it says what was edited", a.stalls("StableEdited"))
	a.ships("v1")
	a.until("the earlier template waits at step 1", a.waitsAt(1))
	a.verb(here.admin, "promote", `{"full":true}`)
	a.until("the Rollout is Healthy", a.healthy)
	a.until("every pod is of the earlier template", a.runs(versions{"v1": 3}))
	a.atMost(0, "v3")
	a.goesOn()
}
