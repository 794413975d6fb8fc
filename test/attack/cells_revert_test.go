// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// revertCells do while a step is paused what tools do: a GitOps tool reverts a template and sets it
// again, and an autoscaler scales to 0.
var revertCells = []cell{
	{who: patcher, what: forge, how: "reverts the template and sets it again, a StatefulSet", scenario: scenario{kind: statefulSets, withTraffic: true, at: atStep1},
		attack: revertsAndSetsTemplate, expect: neverUnheld},
	{who: driver, what: forge, how: "deletes the BatchRelease of a routed StatefulSet and its finalizer", long: true, scenario: scenario{kind: statefulSets, withTraffic: true, at: atStep1},
		attack: deletesBatchAndFinalizer, expect: neverUnheld},
	{who: patcher, what: destroy, how: "scales to 0 a workload that shares a Service", scenario: scenario{withTraffic: true, at: atStep1}, attack: scalesSharedToZero, expect: onlyStableServes},
	{who: patcher, what: destroy, how: "scales to 0 a workload that shares a Service, blue-green", long: true, scenario: scenario{blueGreen: true, withTraffic: true, at: atStep1}, attack: scalesSharedToZero, expect: onlyStableServes},
	{who: patcher, what: destroy, how: "scales to 0 a StatefulSet that shares a Service", long: true, scenario: scenario{kind: statefulSets, withTraffic: true, at: atStep1},
		attack: scalesSharedToZero, expect: onlyStableServes},
}

// revertsAndSetsTemplate reverts the template, and sets it again as soon as the release is being
// cancelled.
func revertsAndSetsTemplate(a *app, u *user) {
	a.t.Helper()
	a.attackWith(u, patch(a.path(), change{version: "v1"}.body()))
	a.eventually("the release is being cancelled", func(ctx context.Context) error {
		if a.waitsAtStep(1)(ctx) == nil {
			return errors.New("step 1 still waits")
		}
		return nil
	})
	a.attackWith(u, patch(a.path(), change{version: "v2"}.body()))
}

// neverUnheld expects no report that the workload was not held, and the owner's partition at the
// end.
func neverUnheld(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.eventually("step 1 waits again", a.waitsAtStep(1))
	a.atMost(1, "v2")
	a.checkNoLateHold()
	releaseCompletes(a)
	o, _, err := a.liveWorkload(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	if u := o.(*appsv1.StatefulSet).Spec.UpdateStrategy.RollingUpdate; u != nil && u.Partition != nil && *u.Partition != 0 {
		a.t.Errorf("the owner's partition is %d", *u.Partition)
	}
	a.checkNextRelease()
}

func scalesSharedToZero(a *app, u *user) {
	a.t.Helper()
	a.attackWith(u, patch(a.path()+"/scale", `{"spec":{"replicas":0}}`))
	a.eventually("the Service selects every pod", a.serviceIsPinned(false))
	a.eventually("no empty ReplicaSet of v2 is left", a.hasNoReplicaSetOf("v2"))
	a.attackWith(u, patch(a.path()+"/scale", `{"spec":{"replicas":3}}`))
}

// hasNoReplicaSetOf returns a check that there is no ReplicaSet of a version. At size 0 Weir
// deletes the empty one of the new version: until then the native controller fills it when the
// Deployment is scaled up, as docs/threat-model.md describes.
func (a *app) hasNoReplicaSetOf(version string) func(context.Context) error {
	return func(ctx context.Context) error {
		sets := &appsv1.ReplicaSetList{}
		err := testEnv.client.List(ctx, sets, client.InNamespace(a.namespace))
		for i := range sets.Items {
			if s := &sets.Items[i]; versionOf(deployments, s.ObjectMeta, s.Spec.Template.Spec) == version {
				err = errors.Join(err, errors.New(s.Name+" is there"))
			}
		}
		return err
	}
}

// onlyStableServes expects that the step is as before, and that the Service was pinned before new
// pods existed.
func onlyStableServes(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.eventually("the Service selects only stable pods", a.serviceIsPinned(true))
	a.eventually("the first pod of v2 runs again", func(ctx context.Context) error {
		pods, err := a.pods(ctx)
		if err == nil && pods["v2"] != 1 {
			err = fmt.Errorf("runs %v", pods)
		}
		return err
	})
	a.atMost(1, "v2")
	r, err := a.getRollout(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	for _, c := range r.Status.Conditions {
		if c.Type == "Routable" {
			a.t.Errorf("Weir's own change is reported as a change by a user: %s", c.Message)
		}
	}
	releaseCompletes(a)
	a.checkNextRelease()
}

// serviceIsPinned returns a check whether the Service is pinned.
func (a *app) serviceIsPinned(pinned bool) func(context.Context) error {
	return func(ctx context.Context) error {
		s := &corev1.Service{}
		err := testEnv.client.Get(ctx, a.key(name), s)
		if err == nil && (len(s.Spec.Selector) > 1) != pinned {
			err = errors.New("the Service selects " + fmt.Sprint(s.Spec.Selector))
		}
		return err
	}
}
