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
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// Update strategies.
func updated(kind string) object {
	return object{"updateStrategy": object{"type": kind, "rollingUpdate": nil}}
}

var surging = object{"updateStrategy": object{"type": "RollingUpdate", "rollingUpdate": object{"maxSurge": "100%", "maxUnavailable": 0}}}

var fitnessCells = []cell{
	{who: patcher, what: ship, how: "a DaemonSet that surges, in one patch", doors: true, on: scene{kind: daemonSets},
		do: patches(change{version: "v2", spec: surging}), expect: gated},
	{who: patcher, what: ship, how: "a DaemonSet that surges, surge first", doors: true, on: scene{kind: daemonSets},
		do: surgesFirst, expect: saidBefore("maxSurge")},
	{who: patcher, what: ship, how: "a StatefulSet with OnDelete, which rolls a moment later", doors: true, on: scene{kind: statefulSets},
		do: rollsLater(change{version: "v2", spec: updated("OnDelete")}), expect: gated},
	{who: patcher, what: ship, how: "a StatefulSet with OnDelete, then a template, then rolling", doors: true, on: scene{kind: statefulSets},
		do: rollsLater(change{spec: updated("OnDelete")}, change{version: "v2"}), expect: gated},
	{who: patcher, what: ship, how: "a DaemonSet with OnDelete, then a template, then rolling", doors: true, on: scene{kind: daemonSets},
		do: patches(change{spec: updated("OnDelete")}, change{version: "v2"}, change{spec: updated("RollingUpdate")}), expect: gated},
	{who: patcher, what: ship, how: "a StatefulSet without pods, scaled up later", doors: true, on: scene{kind: statefulSets}, do: fromNothing, expect: gated},
	{who: patcher, what: ship, how: "a Deployment without pods, scaled up later", doors: true, do: fromNothing, expect: gated},
	{who: patcher, what: ship, how: "a Deployment without pods, scaled up by its scale", doors: true, on: scene{at: midway}, do: scaledToNothing, expect: gated},
	{who: patcher, what: shipOld, how: "a Deployment without pods, scaled up with an older template", doors: true, on: scene{at: released},
		do: emptied(change{version: "v1", spec: object{"replicas": 3}}), expect: oldGated},
	{who: patcher, what: shipOld, how: "a Deployment without pods, an older template, then scaled up", doors: true, on: scene{at: released},
		do: emptied(change{version: "v1"}), expect: oldGated},
	{who: patcher, what: shipOld, how: "a Deployment without pods beside an extra one, an older template", doors: true, on: scene{at: released, beside: true},
		do: emptied(change{version: "v1"}), expect: oldGated},
	{who: patcher, what: ship, how: "a Deployment without pods that keeps no history", doors: true,
		do: emptied(change{version: "v2", spec: object{"revisionHistoryLimit": 0}}), expect: gated},
	{who: patcher, what: blockAbort, how: "fills the annotations of a Deployment", doors: true, on: scene{at: midway}, do: fillsWorkload, expect: takenBack},
	{who: patcher, what: blockAbort, how: "fills the annotation that has the number of a revision", doors: true, on: scene{kind: statefulSets, at: midway},
		do: fillsNumber, expect: takenBack},
	{who: patcher, what: ship, how: "a Deployment that 520 managers have applied", doors: true, long: true, do: appliesMuch, expect: gated},
	{who: patcher, what: ship, how: "a Deployment that is recreated, in one patch", doors: true,
		do: patches(change{version: "v2", spec: recreate}), expect: gated},
}

// rollsLater makes the StatefulSet unfit, and has it roll when Weir and its native
// controller have seen what was written.
func rollsLater(changes ...change) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		for _, c := range append(changes, change{spec: updated("RollingUpdate")}) {
			a.tries(u, patch(a.path(), c.body()))
			a.until("that was seen", func(ctx context.Context) error { return a.observed(ctx, "OnDelete") })
		}
	}
}

func surgesFirst(a *app, u *user) {
	a.t.Helper()
	a.tries(u, patch(a.path(), change{spec: surging}.body()))
	a.until("that was seen", func(ctx context.Context) error { return a.observed(ctx, "maxSurge") })
	a.tries(u, patch(a.path(), change{version: "v2"}.body()))
}

// observed wants the native controller to have seen the workload, and the Rollout
// to say what keeps it from being held, if something does.
func (a *app) observed(ctx context.Context, word string) error {
	o, _, err := a.live(ctx)
	if err != nil {
		return err
	}
	seen, unfit := int64(0), false
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		seen, unfit = o.Status.ObservedGeneration, o.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
	case *appsv1.DaemonSet:
		seen, unfit = o.Status.ObservedGeneration, o.Spec.UpdateStrategy.RollingUpdate != nil && o.Spec.UpdateStrategy.RollingUpdate.MaxSurge.String() != "0"
	}
	if seen < o.GetGeneration() {
		return fmt.Errorf("its controller is at generation %d of %d", seen, o.GetGeneration())
	}
	r, err := a.stored(ctx)
	if err == nil && unfit && !strings.Contains(r.Status.Message+fmt.Sprint(r.Status.Conditions), word) {
		err = errors.New("it is " + describe(r))
	}
	return err
}

// saidBefore wants the gate to have held, or the Rollout to have said before that it
// cannot: then nothing on record may look like a release. An owner mends that.
func saidBefore(word string) func(*app) {
	return func(a *app) {
		a.t.Helper()
		a.answered(either...)
		a.until("the attack is over", func(ctx context.Context) error { return errors.Join(a.observed(ctx, word), a.rests(ctx)) })
		if lines, err := a.history(a.t.Context()); err != nil || len(lines) > 0 && a.seen.peak("v2") > 1 {
			a.t.Errorf("nobody released v2, and on file is %q (%v)", lines, err)
		}
		a.asks(here.admin, patch(a.path(), change{spec: object{
			"updateStrategy": object{"type": "RollingUpdate", "rollingUpdate": object{"maxSurge": 0, "maxUnavailable": 1}},
		}}.body()))
		a.until("it can be held", func(ctx context.Context) error {
			r, err := a.stored(ctx)
			if err == nil && r.Status.Phase == v1beta1.PhaseInitial {
				err = errors.New("it is " + describe(r))
			}
			return err
		})
		a.goesOn()
	}
}

// fromNothing changes the template while there is no pod that could be missed.
func fromNothing(a *app, u *user) {
	a.t.Helper()
	a.tries(u, patch(a.path(), change{version: "v2", spec: object{"replicas": 0}}.body()))
	a.until("what is wanted is there", func(ctx context.Context) error {
		o, _, err := a.live(ctx)
		if err != nil {
			return err
		}
		pods, err := a.pods(ctx)
		total := 0
		for _, n := range pods {
			total += n
		}
		if err == nil && total != wants(o) {
			err = fmt.Errorf("runs %v, and %d are wanted", pods, wants(o))
		}
		return err
	})
	a.tries(u, patch(a.path(), change{spec: object{"replicas": 3}}.body()))
}

func scaledToNothing(a *app, u *user) {
	a.t.Helper()
	a.tries(u, patch(a.path()+"/scale", `{"spec":{"replicas":0}}`))
	a.until("no pod is there", a.runs(versions{}))
	a.tries(u, patch(a.path()+"/scale", `{"spec":{"replicas":3}}`))
}

// emptied changes something while no pod is there, waits until weir-controller has seen
// it, and scales up.
func emptied(c change) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		a.seen.forget()
		a.tries(u, patch(a.path()+"/scale", `{"spec":{"replicas":0}}`))
		a.until("no pod is there", a.runs(versions{}))
		got := a.tries(u, patch(a.path(), c.body()))
		if got.code == http.StatusOK {
			a.until("its release has begun", a.waitsAt(1))
			if c.spec["replicas"] == nil {
				a.until("no ReplicaSet of it is left for the native controller to fill", a.hasNoSet(c.version))
			}
		}
		a.tries(u, patch(a.path()+"/scale", `{"spec":{"replicas":3}}`))
	}
}

// fillsWorkload leaves no room in the annotations of the workload, by each way.
func fillsWorkload(a *app, u *user) {
	a.t.Helper()
	for i, size := range []int{180, 60, 11, 60, 11} {
		at := a.path()
		if i > 2 {
			at += "/status"
		}
		key := fmt.Sprintf("example.com/note-%d", i)
		a.tries(u, patch(at, encode(object{"metadata": object{"annotations": object{key: strings.Repeat("x", size<<10)}}})))
	}
}

// fillsNumber leaves no room by what the native controller of Deployments writes: as much
// as kube-apiserver takes beside what is there.
func fillsNumber(a *app, u *user) {
	a.t.Helper()
	const most, number = 256 << 10, "deployment.kubernetes.io/revision"
	for _, at := range words(a.path(), a.path()+"/status") {
		o, _, err := a.live(a.t.Context())
		if err != nil {
			a.t.Fatal(err)
		}
		room := most - len(number)
		for key, value := range o.GetAnnotations() {
			if key != number {
				room -= len(key) + len(value)
			}
		}
		a.tries(u, patch(at, encode(object{"metadata": object{"annotations": object{number: strings.Repeat("9", room)}}})))
	}
}

// appliesMuch has more writers of fields than a workload that runs has, and then ships.
func appliesMuch(a *app, u *user) {
	a.t.Helper()
	owns := encode(object{"apiVersion": "apps/v1", "kind": deployments, "metadata": object{"name": a.name, "annotations": object{"example.com/note": "x"}}})
	for i := range 520 {
		a.tries(u, request{
			method: http.MethodPatch, path: fmt.Sprintf("%s?fieldManager=m-%d", a.path(), i), kind: string(types.ApplyPatchType), body: owns,
		})
	}
	a.tries(u, patch(a.path(), change{version: "v2"}.body()))
}

func wants(o any) int {
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		return int(*o.Spec.Replicas)
	case *appsv1.Deployment:
		return int(*o.Spec.Replicas)
	}
	return 0
}

var templateCells = []cell{
	{who: patcher, what: ship, how: "a label that a StatefulSet's pods do not have by themselves", doors: true, on: scene{kind: statefulSets},
		do: patches(change{template: hashed}), expect: hashGated},
	{who: patcher, what: ship, how: "a label that a DaemonSet's pods do not have by themselves", doors: true, on: scene{kind: daemonSets},
		do: patches(change{template: hashed}), expect: hashGated},
}

// hashed is a label that a native controller writes on pods of Deployments.
var hashed = object{"metadata": object{"labels": object{"pod-template-hash": "other"}}}

// unhashed takes it off again.
var unhashed = object{"metadata": object{"labels": object{"pod-template-hash": nil}}}

func hashGated(a *app) {
	a.t.Helper()
	a.answered(either...)
	a.until("the attack is over", a.rests)
	a.inTime()
	a.atMost(1, "v1+other")
	a.goesOn()
	a.atMost(1, "v1+other")
}
