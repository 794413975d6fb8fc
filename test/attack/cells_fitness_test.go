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
func updateStrategy(kind string) object {
	return object{"updateStrategy": object{"type": kind, "rollingUpdate": nil}}
}

var surgingStrategy = object{"updateStrategy": object{"type": "RollingUpdate", "rollingUpdate": object{"maxSurge": "100%", "maxUnavailable": 0}}}

var fitnessCells = []cell{
	{who: patcher, what: ship, how: "a DaemonSet that surges, in one patch", admission: true, scenario: scenario{kind: daemonSets},
		attack: patches(change{version: "v2", spec: surgingStrategy}), expect: gateHolds},
	{who: patcher, what: ship, how: "a DaemonSet that surges, surge first", admission: true, scenario: scenario{kind: daemonSets},
		attack: surgesFirst, expect: heldOrReported("maxSurge")},
	{who: patcher, what: ship, how: "a StatefulSet with OnDelete, which rolls a moment later", admission: true, scenario: scenario{kind: statefulSets},
		attack: rollsLater(change{version: "v2", spec: updateStrategy("OnDelete")}), expect: gateHolds},
	{who: patcher, what: ship, how: "a StatefulSet with OnDelete, then a template, then rolling", admission: true, scenario: scenario{kind: statefulSets},
		attack: rollsLater(change{spec: updateStrategy("OnDelete")}, change{version: "v2"}), expect: gateHolds},
	{who: patcher, what: ship, how: "a DaemonSet with OnDelete, then a template, then rolling", admission: true, scenario: scenario{kind: daemonSets},
		attack: patches(change{spec: updateStrategy("OnDelete")}, change{version: "v2"}, change{spec: updateStrategy("RollingUpdate")}), expect: gateHolds},
	{who: patcher, what: ship, how: "a StatefulSet without pods, scaled up later", admission: true, scenario: scenario{kind: statefulSets}, attack: changesTemplateAtZero, expect: gateHolds},
	{who: patcher, what: ship, how: "a Deployment without pods, scaled up later", admission: true, attack: changesTemplateAtZero, expect: gateHolds},
	{who: patcher, what: ship, how: "a Deployment without pods, scaled up by its scale", admission: true, scenario: scenario{at: atStep1}, attack: scalesToZero, expect: gateHolds},
	{who: patcher, what: shipOld, how: "a Deployment without pods, scaled up with an older template", admission: true, scenario: scenario{at: released},
		attack: changesAtZero(change{version: "v1", spec: object{"replicas": 3}}), expect: holdsOldVersion},
	{who: patcher, what: shipOld, how: "a Deployment without pods, an older template, then scaled up", admission: true, scenario: scenario{at: released},
		attack: changesAtZero(change{version: "v1"}), expect: holdsOldVersion},
	{who: patcher, what: shipOld, how: "a Deployment without pods beside an extra one, an older template", admission: true, scenario: scenario{at: released, canary: true},
		attack: changesAtZero(change{version: "v1"}), expect: holdsOldVersion},
	{who: patcher, what: ship, how: "a Deployment without pods that keeps no history", admission: true,
		attack: changesAtZero(change{version: "v2", spec: object{"revisionHistoryLimit": 0}}), expect: gateHolds},
	{who: patcher, what: blockAbort, how: "fills the annotations of a Deployment", admission: true, scenario: scenario{at: atStep1}, attack: fillsWorkload, expect: safetyVerbsWork},
	{who: patcher, what: blockAbort, how: "fills the annotation that has the number of a revision", admission: true, scenario: scenario{kind: statefulSets, at: atStep1},
		attack: fillsRevisionAnnotation, expect: safetyVerbsWork},
	{who: patcher, what: ship, how: "a Deployment that 520 managers have applied", admission: true, long: true, attack: appliesWithManyManagers, expect: gateHolds},
	{who: patcher, what: ship, how: "a Deployment that is recreated, in one patch", admission: true,
		attack: patches(change{version: "v2", spec: recreateStrategy}), expect: gateHolds},
}

// rollsLater makes the StatefulSet unfit, and has it roll when Weir and its native
// controller have seen what was written.
func rollsLater(changes ...change) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		for _, c := range append(changes, change{spec: updateStrategy("RollingUpdate")}) {
			a.attackWith(u, patch(a.path(), c.body()))
			a.eventually("that was seen", func(ctx context.Context) error { return a.isObserved(ctx, "OnDelete") })
		}
	}
}

func surgesFirst(a *app, u *user) {
	a.t.Helper()
	a.attackWith(u, patch(a.path(), change{spec: surgingStrategy}.body()))
	a.eventually("that was seen", func(ctx context.Context) error { return a.isObserved(ctx, "maxSurge") })
	a.attackWith(u, patch(a.path(), change{version: "v2"}.body()))
}

// isObserved wants the native controller to have seen the workload, and the Rollout
// to say what keeps it from being held, if something does.
func (a *app) isObserved(ctx context.Context, word string) error {
	o, _, err := a.liveWorkload(ctx)
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
	r, err := a.getRollout(ctx)
	if err == nil && unfit && !strings.Contains(r.Status.Message+fmt.Sprint(r.Status.Conditions), word) {
		err = errors.New("it is " + describe(r))
	}
	return err
}

// heldOrReported wants the gate to have held, or the Rollout to have said before that it
// cannot: then nothing on record may look like a release. An owner mends that.
func heldOrReported(word string) func(*app) {
	return func(a *app) {
		a.t.Helper()
		a.answered(refusedOrNeutralized...)
		a.eventually("the attack is over", func(ctx context.Context) error { return errors.Join(a.isObserved(ctx, word), a.isIdle(ctx)) })
		if lines, err := a.history(a.t.Context()); err != nil || len(lines) > 0 && a.seen.peak("v2") > 1 {
			a.t.Errorf("nobody released v2, and on file is %q (%v)", lines, err)
		}
		a.mustSend(testEnv.admin, patch(a.path(), change{spec: object{
			"updateStrategy": object{"type": "RollingUpdate", "rollingUpdate": object{"maxSurge": 0, "maxUnavailable": 1}},
		}}.body()))
		a.eventually("it can be held", func(ctx context.Context) error {
			r, err := a.getRollout(ctx)
			if err == nil && r.Status.Phase == v1beta1.PhaseInitial {
				err = errors.New("it is " + describe(r))
			}
			return err
		})
		a.checkNextRelease()
	}
}

// changesTemplateAtZero changes the template while there is no pod that could be missed.
func changesTemplateAtZero(a *app, u *user) {
	a.t.Helper()
	a.attackWith(u, patch(a.path(), change{version: "v2", spec: object{"replicas": 0}}.body()))
	a.eventually("what is wanted is there", func(ctx context.Context) error {
		o, _, err := a.liveWorkload(ctx)
		if err != nil {
			return err
		}
		pods, err := a.pods(ctx)
		total := 0
		for _, n := range pods {
			total += n
		}
		if err == nil && total != desiredPods(o) {
			err = fmt.Errorf("runs %v, and %d are wanted", pods, desiredPods(o))
		}
		return err
	})
	a.attackWith(u, patch(a.path(), change{spec: object{"replicas": 3}}.body()))
}

func scalesToZero(a *app, u *user) {
	a.t.Helper()
	a.attackWith(u, patch(a.path()+"/scale", `{"spec":{"replicas":0}}`))
	a.eventually("no pod is there", a.runs(versions{}))
	a.attackWith(u, patch(a.path()+"/scale", `{"spec":{"replicas":3}}`))
}

// changesAtZero changes something while no pod is there, waits until weir-controller has seen
// it, and scales up.
func changesAtZero(c change) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		a.seen.reset()
		a.attackWith(u, patch(a.path()+"/scale", `{"spec":{"replicas":0}}`))
		a.eventually("no pod is there", a.runs(versions{}))
		got := a.attackWith(u, patch(a.path(), c.body()))
		if got.code == http.StatusOK {
			a.eventually("its release has begun", a.waitsAtStep(1))
			if c.spec["replicas"] == nil {
				a.eventually("no ReplicaSet of it is left for the native controller to fill", a.hasNoReplicaSetOf(c.version))
			}
		}
		a.attackWith(u, patch(a.path()+"/scale", `{"spec":{"replicas":3}}`))
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
		a.attackWith(u, patch(at, encode(object{"metadata": object{"annotations": object{key: strings.Repeat("x", size<<10)}}})))
	}
}

// fillsRevisionAnnotation leaves no room by what the native controller of Deployments writes: as much
// as kube-apiserver takes beside what is there.
func fillsRevisionAnnotation(a *app, u *user) {
	a.t.Helper()
	const most, number = 256 << 10, "deployment.kubernetes.io/revision"
	for _, at := range words(a.path(), a.path()+"/status") {
		o, _, err := a.liveWorkload(a.t.Context())
		if err != nil {
			a.t.Fatal(err)
		}
		room := most - len(number)
		for key, value := range o.GetAnnotations() {
			if key != number {
				room -= len(key) + len(value)
			}
		}
		a.attackWith(u, patch(at, encode(object{"metadata": object{"annotations": object{number: strings.Repeat("9", room)}}})))
	}
}

// appliesWithManyManagers has more writers of fields than a workload that runs has, and then ships.
func appliesWithManyManagers(a *app, u *user) {
	a.t.Helper()
	owns := encode(object{"apiVersion": "apps/v1", "kind": deployments, "metadata": object{"name": a.name, "annotations": object{"example.com/note": "x"}}})
	for i := range 520 {
		a.attackWith(u, request{
			method: http.MethodPatch, path: fmt.Sprintf("%s?fieldManager=m-%d", a.path(), i), kind: string(types.ApplyPatchType), body: owns,
		})
	}
	a.attackWith(u, patch(a.path(), change{version: "v2"}.body()))
}

func desiredPods(o any) int {
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		return int(*o.Spec.Replicas)
	case *appsv1.Deployment:
		return int(*o.Spec.Replicas)
	}
	return 0
}

var templateCells = []cell{
	{who: patcher, what: ship, how: "a label that a StatefulSet's pods do not have by themselves", admission: true, scenario: scenario{kind: statefulSets},
		attack: patches(change{template: podTemplateHashLabel}), expect: holdsHashLabel},
	{who: patcher, what: ship, how: "a label that a DaemonSet's pods do not have by themselves", admission: true, scenario: scenario{kind: daemonSets},
		attack: patches(change{template: podTemplateHashLabel}), expect: holdsHashLabel},
}

// podTemplateHashLabel is a label that a native controller writes on pods of Deployments.
var podTemplateHashLabel = object{"metadata": object{"labels": object{"pod-template-hash": "other"}}}

// removePodTemplateHashLabel takes it off again.
var removePodTemplateHashLabel = object{"metadata": object{"labels": object{"pod-template-hash": nil}}}

func holdsHashLabel(a *app) {
	a.t.Helper()
	a.answered(refusedOrNeutralized...)
	a.eventually("the attack is over", a.isIdle)
	a.checkNoLateHold()
	a.atMost(1, "v1+other")
	a.checkNextRelease()
	a.atMost(1, "v1+other")
}
