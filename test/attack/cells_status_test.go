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

// statusCells forge the status of a workload repeatedly, because its controller overwrites it.
var statusCells = []cell{
	{who: patcher, what: undoAbort, how: "forges the status of a StatefulSet: the live template is stable", admission: true, scenario: scenario{kind: statefulSets, at: aborted},
		attack: forgesStatefulSetStatus("v1", "v1"), expect: gateHolds},
	{who: patcher, what: undoAbort, how: "forges the status of a StatefulSet: the aborted revision is current, and sets it again", admission: true,
		scenario: scenario{kind: statefulSets, at: aborted}, attack: forgesStatusAndSetsTemplate, expect: gateHolds},
	{who: patcher, what: skip, how: "forges the status of a StatefulSet: all pods are updated", admission: true, scenario: scenario{kind: statefulSets, at: atStep1},
		attack: forgesStatefulSetStatus("v1", "v2"), expect: gateHolds},
	{who: patcher, what: ship, how: "forges the status of a DaemonSet: it has no nodes", admission: true, scenario: scenario{kind: daemonSets},
		attack: forgesDaemonSetStatus(0), expect: gateHolds},
	{who: patcher, what: skip, how: "forges the status of a DaemonSet at step 1: it has no nodes", admission: true, scenario: scenario{kind: daemonSets, at: atStep1},
		attack: forgesDaemonSetStatus(0), expect: gateHolds},
	{who: patcher, what: skip, how: "forges the status of a DaemonSet: it has many nodes", admission: true, scenario: scenario{kind: daemonSets, at: atStep1},
		attack: forgesDaemonSetStatus(300), expect: gateHolds},
}

// writeStatefulSetStatus writes a status of a StatefulSet with three updated pods, several times.
func (a *app) writeStatefulSetStatus(u *user, current, update string) {
	a.t.Helper()
	for range 20 {
		a.attackWith(u, patch(a.path()+"/status", encode(object{"status": object{
			"observedGeneration": 1 << 20, "currentRevision": current, "updateRevision": update,
			"replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "updatedReplicas": 3, "currentReplicas": 3,
		}})))
	}
}

func forgesStatefulSetStatus(current, update string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		a.writeStatefulSetStatus(u, a.revisionName(current), a.revisionName(update))
	}
}

// revisionName returns the name of the ControllerRevision of a version.
func (a *app) revisionName(version string) string {
	a.t.Helper()
	list := &appsv1.ControllerRevisionList{}
	if err := testEnv.client.List(a.t.Context(), list, client.InNamespace(a.namespace)); err != nil {
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

func forgesStatusAndSetsTemplate(a *app, u *user) {
	a.t.Helper()
	v2 := a.revisionName("v2")
	a.verb(testEnv.admin, "rollback", "")
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.attackWith(u, patch(a.path(), change{version: "v2"}.body()))
	a.writeStatefulSetStatus(u, v2, v2)
}

func forgesDaemonSetStatus(n int) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		lie := patch(a.path()+"/status", encode(object{"status": object{
			"observedGeneration": 1 << 20, "desiredNumberScheduled": n, "updatedNumberScheduled": n, "numberReady": n, "numberAvailable": n,
		}}))
		all := change{spec: object{"updateStrategy": object{"rollingUpdate": object{"maxUnavailable": "100%"}}}}
		a.attackWith(u, patch(a.path(), all.body()))
		for i := range 20 {
			a.attackWith(u, lie)
			if i == 0 && a.scene.at == idle {
				a.attackWith(u, patch(a.path(), change{version: "v2"}.body()))
			}
		}
	}
}

// extraDeploymentCells change the extra Deployment, or the ReplicaSet with the stable template.
var extraDeploymentCells = []cell{
	{who: patcher, what: ship, how: "scales up the extra Deployment", scenario: scenario{canary: true, at: atStep1},
		attack: editsExtra(object{"spec": object{"replicas": 3}}), expect: extraDeploymentIsRemoved},
	{who: patcher, what: ship, how: "annotates the extra Deployment", scenario: scenario{canary: true, at: atStep1},
		attack: editsExtra(forgedTargetAnnotations), expect: forgedTargetHasNoPods},
	{who: patcher, what: skip, how: "forges the status of the extra Deployment", scenario: scenario{canary: true, at: atStep1},
		attack: editsExtraStatus, expect: extraDeploymentIsRemoved},
	{who: patcher, what: blockAbort, how: "removes the owner of the extra Deployment", scenario: scenario{canary: true, at: atStep1},
		attack: editsExtra(object{"metadata": object{"ownerReferences": nil, "labels": object{canaryOf: nil}}}), expect: extraDeploymentIsRemoved},
	{who: editor, what: ship, how: "edits the stable ReplicaSet before a rollback", scenario: scenario{at: atStep1}, attack: editsStable, expect: rollbackOfEditedStalls},
}

// forgedTargetAnnotations are annotations that would release another template in a Deployment
// without a Rollout.
var forgedTargetAnnotations = object{
	"metadata": object{"annotations": object{
		"batchrelease.rollouts.kruise.io/control-info": "x",
		"rollouts.kruise.io/deployment-strategy":       `{"partition":"100%","rollingUpdate":{"maxSurge":"100%"}}`,
	}},
	"spec": object{
		"paused": true, "strategy": object{"type": "Recreate", "rollingUpdate": nil}, "replicas": 8,
		"template": object{"spec": object{"containers": []object{{"name": name, "image": image("v3")}}}},
	},
}

// forgedTargetHasNoPods expects no pod of the version that was written there.
func forgedTargetHasNoPods(a *app) {
	a.t.Helper()
	extraDeploymentIsRemoved(a)
	a.atMost(0, "v3")
}

// otherDeployments returns the other Deployments of the namespace.
func (a *app) otherDeployments(ctx context.Context) ([]appsv1.Deployment, error) {
	list := &appsv1.DeploymentList{}
	err := testEnv.client.List(ctx, list, client.InNamespace(a.namespace))
	return slices.DeleteFunc(list.Items, func(d appsv1.Deployment) bool { return d.Name == a.name }), err
}

func editsExtra(body object) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		extras, err := a.otherDeployments(a.t.Context())
		if err != nil || len(extras) != 1 {
			a.t.Fatalf("%d extra Deployments, %v", len(extras), err)
		}
		a.attackWith(u, patch(strings.TrimSuffix(a.path(), a.name)+extras[0].Name, encode(body)))
	}
}

func editsExtraStatus(a *app, u *user) {
	a.t.Helper()
	extras, err := a.otherDeployments(a.t.Context())
	if err != nil || len(extras) != 1 {
		a.t.Fatalf("%d extra Deployments, %v", len(extras), err)
	}
	for range 20 {
		a.attackWith(u, patch(strings.TrimSuffix(a.path(), a.name)+extras[0].Name+"/status", encode(object{"status": object{
			"replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "updatedReplicas": 3,
		}})))
	}
}

// extraDeploymentIsRemoved expects one pod of the step, an abort that ends, and that no objects of
// the release are left.
func extraDeploymentIsRemoved(a *app) {
	a.t.Helper()
	a.answered(refusedOrNeutralized...)
	a.eventually("the extra Deployment is as before", a.runs(versions{"v1": 3, "v2": 1}))
	a.verb(testEnv.admin, "rollback", "")
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("v1 serves", a.runs(versions{"v1": 3}))
	a.eventually("no objects of the release are left", func(ctx context.Context) error {
		extras, err := a.otherDeployments(ctx)
		if err == nil && len(extras) > 0 {
			err = fmt.Errorf("%s is left", extras[0].Name)
		}
		return err
	})
}

func editsStable(a *app, u *user) {
	a.t.Helper()
	sets := &appsv1.ReplicaSetList{}
	if err := testEnv.client.List(a.t.Context(), sets, client.InNamespace(a.namespace)); err != nil {
		a.t.Fatal(err)
	}
	for i := range sets.Items {
		if s := &sets.Items[i]; versionOf(deployments, s.ObjectMeta, s.Spec.Template.Spec) == "v1" {
			path := "/apis/apps/v1/namespaces/" + a.namespace + "/replicasets/" + s.Name
			a.attackWith(u, patch(path, change{version: "v3"}.body()))
		}
	}
}

// rollbackOfEditedStalls expects that a rollback stalls, and that no pod of the edited template
// exists. The earlier template, set by the owner, ends the release.
func rollbackOfEditedStalls(a *app) {
	a.t.Helper()
	a.answered(refusedOrNeutralized...)
	a.verb(testEnv.admin, "rollback", "")
	a.eventually("the Rollout reports the edited ReplicaSet", a.isStalledFor("StableEdited"))
	a.setVersion("v1")
	a.eventually("the earlier template waits at step 1", a.waitsAtStep(1))
	a.verb(testEnv.admin, "promote", `{"full":true}`)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("every pod is of the earlier template", a.runs(versions{"v1": 3}))
	a.atMost(0, "v3")
	a.checkNextRelease()
}
