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

// flipCells do at a waiting step what tools do: one that syncs from Git takes a template
// back and sets it again, and one that scales takes every pod.
var flipCells = []cell{
	{who: patcher, what: forge, how: "takes the template back and sets it again, a StatefulSet", on: scene{kind: statefulSets, routed: true, at: midway},
		do: flips, expect: heldAllAlong},
	{who: driver, what: forge, how: "deletes the BatchRelease of a routed StatefulSet and its finalizer", long: true, on: scene{kind: statefulSets, routed: true, at: midway},
		do: losesBatch, expect: heldAllAlong},
	{who: patcher, what: destroy, how: "scales to 0 what shares a Service", on: scene{routed: true, at: midway}, do: emptiesShared, expect: othersServe},
	{who: patcher, what: destroy, how: "scales to 0 what shares a Service, blue-green", long: true, on: scene{green: true, routed: true, at: midway}, do: emptiesShared, expect: othersServe},
	{who: patcher, what: destroy, how: "scales to 0 what shares a Service, a StatefulSet", long: true, on: scene{kind: statefulSets, routed: true, at: midway},
		do: emptiesShared, expect: othersServe},
}

// flips sets the new template again as soon as the release ends.
func flips(a *app, u *user) {
	a.t.Helper()
	a.tries(u, patch(a.path(), change{version: "v1"}.body()))
	a.until("the release is being cancelled", func(ctx context.Context) error {
		if a.waitsAt(1)(ctx) == nil {
			return errors.New("step 1 waits still")
		}
		return nil
	})
	a.tries(u, patch(a.path(), change{version: "v2"}.body()))
}

// heldAllAlong wants nobody to say that the workload was not held, and its owner's
// partition to be there in the end.
func heldAllAlong(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.until("step 1 waits again", a.waitsAt(1))
	a.atMost(1, "v2")
	a.inTime()
	finished(a)
	o, _, err := a.live(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	if u := o.(*appsv1.StatefulSet).Spec.UpdateStrategy.RollingUpdate; u != nil && u.Partition != nil && *u.Partition != 0 {
		a.t.Errorf("its owner's partition is %d", *u.Partition)
	}
	a.goesOn()
}

func emptiesShared(a *app, u *user) {
	a.t.Helper()
	a.tries(u, patch(a.path()+"/scale", `{"spec":{"replicas":0}}`))
	a.until("its Service selects every pod", a.selects(false))
	a.until("no ReplicaSet of v2 is left for the native controller to fill", a.hasNoSet("v2"))
	a.tries(u, patch(a.path()+"/scale", `{"spec":{"replicas":3}}`))
}

// hasNoSet wants no ReplicaSet of a version. At size 0 Weir deletes the empty one of the new version:
// until then the native controller fills it when the Deployment is scaled up, as docs/threat-model.md says.
func (a *app) hasNoSet(version string) func(context.Context) error {
	return func(ctx context.Context) error {
		sets := &appsv1.ReplicaSetList{}
		err := here.client.List(ctx, sets, client.InNamespace(a.namespace))
		for i := range sets.Items {
			if s := &sets.Items[i]; versionOf(deployments, s.ObjectMeta, s.Spec.Template.Spec) == version {
				err = errors.Join(err, errors.New(s.Name+" is there"))
			}
		}
		return err
	}
}

// othersServe wants the step to be as it was, and the Service to be pinned before.
func othersServe(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.until("its Service selects stable pods alone", a.selects(true))
	a.until("the first pod of v2 is back", func(ctx context.Context) error {
		pods, err := a.pods(ctx)
		if err == nil && pods["v2"] != 1 {
			err = fmt.Errorf("runs %v", pods)
		}
		return err
	})
	a.atMost(1, "v2")
	r, err := a.stored(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	for _, c := range r.Status.Conditions {
		if c.Type == "Routable" {
			a.t.Errorf("somebody is said to undo what Weir did itself: %s", c.Message)
		}
	}
	finished(a)
	a.goesOn()
}

// selects wants the Service to be pinned, or not.
func (a *app) selects(pinned bool) func(context.Context) error {
	return func(ctx context.Context) error {
		s := &corev1.Service{}
		err := here.client.Get(ctx, a.key(name), s)
		if err == nil && (len(s.Spec.Selector) > 1) != pinned {
			err = errors.New("it selects " + fmt.Sprint(s.Spec.Selector))
		}
		return err
	}
}
