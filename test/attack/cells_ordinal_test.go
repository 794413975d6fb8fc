// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// begins moves the ordinals of a StatefulSet.
func begins(at int) object { return object{"ordinals": object{"start": at}} }

// ordinalCells have the pods of a StatefulSet become others.
var ordinalCells = []cell{
	{who: patcher, what: skip, how: "moves the ordinals of a held StatefulSet", doors: true, on: scene{kind: statefulSets, at: midway},
		do: patches(change{spec: begins(1)}, change{spec: begins(2)}), expect: ordinalsKept},
	{who: patcher, what: skip, how: "moves the ordinals of a held StatefulSet with another template", doors: true, on: scene{kind: statefulSets, at: midway},
		do: patches(change{spec: begins(1), version: "v3"}), expect: ordinalsKept},
	{who: patcher, what: skip, how: "moves the ordinals of a held StatefulSet after another template", doors: true, on: scene{kind: statefulSets, at: midway},
		do: patches(change{version: "v3"}, change{spec: begins(1)}), expect: ordinalsKept},
	{who: patcher, what: ship, how: "moves the ordinals of a StatefulSet together with a template", doors: true, on: scene{kind: statefulSets},
		do: patches(change{version: "v2", spec: begins(1)}), expect: gated},
	{who: patcher, what: ship, how: "moves the ordinals of a StatefulSet before a template", doors: true, on: scene{kind: statefulSets},
		do: patches(change{spec: begins(1)}, change{version: "v2"}), expect: gated},
	{who: patcher, what: ship, how: "moves the ordinals of a StatefulSet after a template", doors: true, on: scene{kind: statefulSets},
		do: patches(change{version: "v2"}, change{spec: begins(1)}), expect: gated},
	{who: patcher, what: undoAbort, how: "moves the ordinals of an aborted StatefulSet", doors: true, on: scene{kind: statefulSets, at: aborted},
		do: patches(change{spec: begins(1)}, change{spec: begins(3)}), expect: ordinalsKept},
}

// shrunkCells leave a StatefulSet one pod, and give it many. Its native controller takes a
// version for the current one when all pods are of it, whatever it is told, and makes
// every later pod of that.
var shrunkCells = []cell{
	{who: patcher, what: ship, how: "scales a StatefulSet to one pod and up while a step waits", doors: true, on: scene{kind: statefulSets, at: midway},
		do: shrinks(change{spec: object{"replicas": 1}}), expect: lastStays},
	{who: patcher, what: ship, how: "leaves a StatefulSet one pod together with a template, and scales up", doors: true, on: scene{kind: statefulSets},
		do: shrinks(change{version: "v2", spec: object{"replicas": 1}}), expect: lastStays},
}

// shrinks scales up when the step waits with one pod, and both controllers have seen that.
func shrinks(to change) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		a.tries(u, patch(a.path(), to.body()))
		a.until("one pod is there", a.oneLeft)
		a.until("step 1 waits", a.waitsAt(1))
		a.tries(u, patch(a.path()+"/scale", `{"spec":{"replicas":8}}`))
	}
}

func (a *app) oneLeft(ctx context.Context) error {
	b := &v1beta1.BatchRelease{}
	o, _, err := a.live(ctx)
	if err == nil {
		err = here.client.Get(ctx, a.key(a.name), b)
	}
	if err != nil {
		return err
	}
	s := o.(*appsv1.StatefulSet).Status
	native := s.Replicas == 1 && s.ReadyReplicas == 1 && s.ObservedGeneration == o.GetGeneration() && (s.UpdatedReplicas == 0 || s.CurrentRevision == s.UpdateRevision)
	if ready := b.Status.CanaryStatus.BatchState == v1beta1.BatchReady && b.Status.ObservedWorkloadReplicas == 1; !native || !ready {
		return fmt.Errorf("its status is %+v, and that of its batch %+v", s, b.Status)
	}
	return nil
}

// lastStays wants one pod of the new version, as the step has.
func lastStays(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.until("eight pods are there", func(ctx context.Context) error {
		pods, err := a.pods(ctx)
		if err == nil && pods["v1"]+pods["v2"] != 8 {
			err = fmt.Errorf("runs %v", pods)
		}
		return err
	})
	a.atMost(1, "v2")
	a.asks(here.admin, patch(a.path()+"/scale", `{"spec":{"replicas":3}}`))
	a.until("three pods are left", a.runs(versions{"v1": 2, "v2": 1}))
	gated(a)
}

// ordinalsKept wants the pods to be called as before.
func ordinalsKept(a *app) {
	a.t.Helper()
	o, _, err := a.live(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	if s := o.(*appsv1.StatefulSet); s.Spec.Ordinals != nil {
		a.t.Errorf("its ordinals begin at %d", s.Spec.Ordinals.Start)
	}
	gated(a)
}

// refusalCells ask for what cannot be while blue-green refuses a third template.
var refusalCells = []cell{
	{who: manager, what: skip, how: "goes on while another template is refused", on: scene{green: true, at: midway}, do: goesOnRefused, expect: stillWaits},
	{who: promoter, what: skip, how: "promotes while another template is refused", long: true, on: scene{green: true, at: midway}, do: promotesRefused, expect: stillWaits},
	{who: manager, what: skip, how: "goes on while another template is refused and routed", long: true, on: scene{green: true, routed: true, at: midway},
		do: goesOnRefused, expect: stillWaits},
}

func promotesRefused(a *app, u *user) {
	a.t.Helper()
	a.ships("v3")
	a.until("the Rollout refuses the template", a.stalls("RevisionRefused"))
	for _, body := range words("", `{"full":true}`, `{"expect":{"step":1}}`) {
		a.tries(u, post(a.api()+"/promote", body))
	}
}

func goesOnRefused(a *app, u *user) {
	a.t.Helper()
	promotesRefused(a, u)
	for _, body := range words(`{"step":1}`, `{"step":2}`, `{"step":3}`) {
		a.tries(u, post(a.api()+"/jump", body))
	}
	a.tries(u, post(a.api()+"/retry", ""))
}

// stillWaits wants each verb to say that the template is in the way, and the release to be
// as before when that is taken back.
func stillWaits(a *app) {
	a.t.Helper()
	a.answered(http.StatusConflict)
	for _, got := range a.answers {
		if !strings.Contains(got.body, "template") {
			a.t.Errorf("%s does not say why", got)
		}
	}
	a.atMost(0, "v3")
	a.ships("v2")
	a.until("step 1 waits", func(ctx context.Context) error {
		if err := a.stalls("RevisionRefused")(ctx); err == nil {
			return errors.New("the template is refused still")
		}
		return a.waitsAt(1)(ctx)
	})
	a.same()
	finished(a)
	a.goesOn()
}
