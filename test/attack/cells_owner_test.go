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

// canaryOf says whose extra Deployment one is; it is no proof.
const canaryOf = "rollouts.kruise.io/canary-deployment"

var ownerCells = []cell{
	{who: patcher, what: destroy, how: "labels a Deployment as an extra one", on: scene{beside: true, at: midway}, do: labelsVictim(nil), expect: victimLives(finished)},
	{who: patcher, what: destroy, how: "labels a Deployment as an extra one of an abort", on: scene{beside: true, at: midway},
		do: labelsVictim(nil), expect: victimLives(takenBackWhole)},
	{who: patcher, what: destroy, how: "labels a Deployment as an extra one before the release", on: scene{beside: true}, do: labelsVictim(nil), expect: victimLives(func(a *app) {
		a.ships("v2")
		a.until("step 1 waits", a.waitsAt(1))
		finished(a)
	})},
	{who: patcher, what: destroy, how: "has the Deployment own it", on: scene{beside: true, at: midway}, do: labelsVictim(ownedByWorkload), expect: victimLives(finished)},
	{who: patcher, what: destroy, how: "has the BatchRelease of another own it", on: scene{beside: true, at: midway},
		do: labelsVictim(ownedByOther), expect: victimLives(finished)},
	{who: patcher, what: destroy, how: "has the Deployment own it, in batches", on: scene{at: midway}, do: labelsVictim(ownedByWorkload), expect: victimLives(finished)},
}

const victim = "victim"

// labelsVictim has an innocent Deployment look like the extra one of web.
func labelsVictim(owner func(*app) metav1.OwnerReference) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		labels := map[string]string{"app": victim}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: victim, Labels: labels}, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: a.template("v1"),
		}}
		d.Spec.Template.Labels = labels
		a.create(d)
		a.until("the other Deployment serves", func(ctx context.Context) error {
			if err := here.client.Get(ctx, a.key(victim), d); err != nil || d.Status.ReadyReplicas == 1 {
				return err
			}
			return errors.New("no pod is ready")
		})
		meta := object{"labels": object{canaryOf: a.name}}
		if owner != nil {
			meta["ownerReferences"] = []metav1.OwnerReference{owner(a)}
		}
		path := strings.TrimSuffix(a.path(), a.name) + victim
		a.tries(u, patch(path, encode(object{"metadata": meta})))
		a.tries(u, patch(path, encode(object{"metadata": object{"annotations": heldByWeb}})))
	}
}

func ownedByWorkload(a *app) metav1.OwnerReference {
	a.t.Helper()
	o, _, err := a.live(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	return metav1.OwnerReference{APIVersion: "apps/v1", Kind: deployments, Name: a.name, UID: o.GetUID(), Controller: new(true)}
}

// ownedByOther is the BatchRelease of another release, which goes on, so that the
// garbage collector lets it live.
func ownedByOther(a *app) metav1.OwnerReference {
	a.t.Helper()
	b := a.another("other")
	b.ships("v2")
	b.until("step 1 of the other waits", b.waitsAt(1))
	batch := &v1beta1.BatchRelease{}
	if err := here.client.Get(a.t.Context(), a.key("other"), batch); err != nil {
		a.t.Fatal(err)
	}
	return metav1.OwnerReference{APIVersion: "rollouts.kruise.io/v1beta1", Kind: "BatchRelease", Name: batch.Name, UID: batch.UID, Controller: new(true)}
}

// another is an application beside it, of the same scene.
func (a *app) another(name string) *app {
	a.t.Helper()
	b := &app{t: a.t, namespace: a.namespace, name: name, scene: a.scene, seen: a.seen}
	b.scene.at = resting
	b.create(b.workload("v1"))
	if b.scene.routed {
		b.create(b.service())
	}
	b.until(name+" serves", b.runs(versions{"v1": 3}))
	b.create(b.rollout())
	b.until("the Rollout of "+name+" is Healthy", b.healthy)
	return b
}

// finished has the release ended by who may.
func finished(a *app) {
	a.t.Helper()
	a.verb(here.admin, "promote", `{"full":true}`)
	a.until("the Rollout is Healthy", a.healthy)
	a.until("v2 serves", a.runs(versions{"v2": 3}))
}

func takenBackWhole(a *app) {
	a.t.Helper()
	a.verb(here.admin, "abort", "")
	a.ends()
	a.verb(here.admin, "rollback", "")
	a.until("the Rollout is Healthy", a.healthy)
	a.until("v1 serves", a.runs(versions{"v1": 3}))
}

// victimLives wants the innocent Deployment to be neither deleted nor changed by
// the end of the release.
func victimLives(end func(*app)) func(*app) {
	return func(a *app) {
		a.t.Helper()
		a.answered(either...)
		was, now := &appsv1.Deployment{}, &appsv1.Deployment{}
		if err := here.client.Get(a.t.Context(), a.key(victim), was); err != nil {
			a.t.Fatal(err)
		}
		end(a)
		if err := here.client.Get(a.t.Context(), a.key(victim), now); err != nil {
			a.t.Fatalf("the other Deployment: %v", err)
		}
		if diff := cmp.Diff(was.Spec, now.Spec); was.UID != now.UID || now.DeletionTimestamp != nil || diff != "" {
			a.t.Errorf("the other Deployment was changed (-before +now):\n%s", diff)
		}
	}
}
