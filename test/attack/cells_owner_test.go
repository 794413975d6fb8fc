// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"strings"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// canaryOf is the label with the owner of an extra Deployment, which is not a proof.
const canaryOf = "rollouts.kruise.io/canary-deployment"

var ownerCells = []cell{
	{who: patcher, what: destroy, how: "labels a Deployment as an extra one", scenario: scenario{canary: true, at: atStep1}, attack: labelsOtherDeployment(nil), expect: otherDeploymentSurvives(releaseCompletes)},
	{who: patcher, what: destroy, how: "labels a Deployment as an extra one during an abort", scenario: scenario{canary: true, at: atStep1},
		attack: labelsOtherDeployment(nil), expect: otherDeploymentSurvives(releaseIsRolledBack)},
	{who: patcher, what: destroy, how: "labels a Deployment as an extra one before the release", scenario: scenario{canary: true}, attack: labelsOtherDeployment(nil), expect: otherDeploymentSurvives(func(a *app) {
		a.setVersion("v2")
		a.eventually("step 1 waits", a.waitsAtStep(1))
		releaseCompletes(a)
	})},
	{who: patcher, what: destroy, how: "makes the Deployment its owner", scenario: scenario{canary: true, at: atStep1}, attack: labelsOtherDeployment(ownedByWorkload), expect: otherDeploymentSurvives(releaseCompletes)},
	{who: patcher, what: destroy, how: "makes the BatchRelease of another release its owner", scenario: scenario{canary: true, at: atStep1},
		attack: labelsOtherDeployment(ownedByOther), expect: otherDeploymentSurvives(releaseCompletes)},
	{who: patcher, what: destroy, how: "makes the Deployment its owner, partition style", scenario: scenario{at: atStep1}, attack: labelsOtherDeployment(ownedByWorkload), expect: otherDeploymentSurvives(releaseCompletes)},
}

const victimName = "victim"

// labelsOtherDeployment labels an independent Deployment like the extra one of web.
func labelsOtherDeployment(owner func(*app) metav1.OwnerReference) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		labels := map[string]string{"app": victimName}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: victimName, Labels: labels}, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: a.template("v1"),
		}}
		d.Spec.Template.Labels = labels
		a.create(d)
		a.eventually("the other Deployment serves", func(ctx context.Context) error {
			if err := testEnv.client.Get(ctx, a.key(victimName), d); err != nil || d.Status.ReadyReplicas == 1 {
				return err
			}
			return errors.New("no pod is ready")
		})
		meta := object{"labels": object{canaryOf: a.name}}
		if owner != nil {
			meta["ownerReferences"] = []metav1.OwnerReference{owner(a)}
		}
		path := strings.TrimSuffix(a.path(), a.name) + victimName
		a.attackWith(u, patch(path, encode(object{"metadata": meta})))
		a.attackWith(u, patch(path, encode(object{"metadata": object{"annotations": holdRecords}})))
	}
}

func ownedByWorkload(a *app) metav1.OwnerReference {
	a.t.Helper()
	o, _, err := a.liveWorkload(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	return metav1.OwnerReference{APIVersion: "apps/v1", Kind: deployments, Name: a.name, UID: o.GetUID(), Controller: new(true)}
}

// ownedByOther is the BatchRelease of another release, which continues, so that the garbage
// collector does not delete its dependents.
func ownedByOther(a *app) metav1.OwnerReference {
	a.t.Helper()
	b := a.startSecondApp("other")
	b.setVersion("v2")
	b.eventually("step 1 of the other waits", b.waitsAtStep(1))
	batch := &v1beta1.BatchRelease{}
	if err := testEnv.client.Get(a.t.Context(), a.key("other"), batch); err != nil {
		a.t.Fatal(err)
	}
	return metav1.OwnerReference{APIVersion: "rollouts.kruise.io/v1beta1", Kind: "BatchRelease", Name: batch.Name, UID: batch.UID, Controller: new(true)}
}

// startSecondApp starts another application of the same scenario in the same namespace.
func (a *app) startSecondApp(name string) *app {
	a.t.Helper()
	b := &app{t: a.t, namespace: a.namespace, name: name, scene: a.scene, monitor: a.monitor}
	b.scene.at = idle
	b.create(b.workload("v1"))
	if b.scene.withTraffic {
		b.create(b.service())
	}
	b.eventually(name+" serves", b.runs(versions{"v1": 3}))
	b.create(b.rollout())
	b.eventually("the Rollout of "+name+" is Healthy", b.isHealthy)
	return b
}

// releaseCompletes expects that authorized users can complete the release.
func releaseCompletes(a *app) {
	a.t.Helper()
	a.verb(testEnv.admin, "promote", `{"full":true}`)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("v2 serves", a.runs(versions{"v2": 3}))
}

func releaseIsRolledBack(a *app) {
	a.t.Helper()
	a.verb(testEnv.admin, "abort", "")
	a.checkAbortEnds()
	a.verb(testEnv.admin, "rollback", "")
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("v1 serves", a.runs(versions{"v1": 3}))
}

// otherDeploymentSurvives expects that the end of the release neither deletes nor changes the
// independent Deployment.
func otherDeploymentSurvives(end func(*app)) func(*app) {
	return func(a *app) {
		a.t.Helper()
		a.answered(refusedOrNeutralized...)
		was, now := &appsv1.Deployment{}, &appsv1.Deployment{}
		if err := testEnv.client.Get(a.t.Context(), a.key(victimName), was); err != nil {
			a.t.Fatal(err)
		}
		end(a)
		if err := testEnv.client.Get(a.t.Context(), a.key(victimName), now); err != nil {
			a.t.Fatalf("the other Deployment: %v", err)
		}
		if diff := cmp.Diff(was.Spec, now.Spec); was.UID != now.UID || now.DeletionTimestamp != nil || diff != "" {
			a.t.Errorf("the other Deployment was changed (-before +now):\n%s", diff)
		}
	}
}
