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

// updateStrategy is a spec with an update strategy.
func updateStrategy(kind string) object {
	return object{"updateStrategy": object{"type": kind, "rollingUpdate": nil}}
}

var surgingStrategy = object{"updateStrategy": object{"type": "RollingUpdate", "rollingUpdate": object{"maxSurge": "100%", "maxUnavailable": 0}}}

var fitnessCells = []cell{
	{who: patcher, what: ship, how: "sets maxSurge of a DaemonSet and a template in one patch", admission: true, scenario: scenario{kind: daemonSets},
		attack: patches(change{version: "v2", spec: surgingStrategy}), expect: gateHolds},
	{who: patcher, what: ship, how: "sets maxSurge of a DaemonSet, then a template", admission: true, scenario: scenario{kind: daemonSets},
		attack: surgesFirst, expect: heldOrReported("maxSurge")},
	{who: patcher, what: ship, how: "sets OnDelete and a template of a StatefulSet, then RollingUpdate", admission: true, scenario: scenario{kind: statefulSets},
		attack: rollsLater(change{version: "v2", spec: updateStrategy("OnDelete")}), expect: gateHolds},
	{who: patcher, what: ship, how: "sets OnDelete of a StatefulSet, then a template, then RollingUpdate", admission: true, scenario: scenario{kind: statefulSets},
		attack: rollsLater(change{spec: updateStrategy("OnDelete")}, change{version: "v2"}), expect: gateHolds},
	{who: patcher, what: ship, how: "sets OnDelete of a DaemonSet, then a template, then RollingUpdate", admission: true, scenario: scenario{kind: daemonSets},
		attack: patches(change{spec: updateStrategy("OnDelete")}, change{version: "v2"}, change{spec: updateStrategy("RollingUpdate")}), expect: gateHolds},
	{who: patcher, what: ship, how: "sets a template of a StatefulSet without pods, then scales up", admission: true, scenario: scenario{kind: statefulSets}, attack: changesTemplateAtZero, expect: gateHolds},
	{who: patcher, what: ship, how: "sets a template of a Deployment without pods, then scales up", admission: true, attack: changesTemplateAtZero, expect: gateHolds},
	{who: patcher, what: ship, how: "sets a template of a Deployment without pods, then scales up by the scale subresource", admission: true, scenario: scenario{at: atStep1}, attack: scalesToZero, expect: gateHolds},
	{who: patcher, what: shipOld, how: "scales up a Deployment without pods together with an older template", admission: true, scenario: scenario{at: released},
		attack: changesAtZero(change{version: "v1", spec: object{"replicas": 3}}), expect: holdsOldVersion},
	{who: patcher, what: shipOld, how: "sets an older template of a Deployment without pods, then scales up", admission: true, scenario: scenario{at: released},
		attack: changesAtZero(change{version: "v1"}), expect: holdsOldVersion},
	{who: patcher, what: shipOld, how: "sets an older template of a Deployment without pods, canary style", admission: true, scenario: scenario{at: released, canary: true},
		attack: changesAtZero(change{version: "v1"}), expect: holdsOldVersion},
	{who: patcher, what: ship, how: "sets a template of a Deployment without pods and without revision history", admission: true,
		attack: changesAtZero(change{version: "v2", spec: object{"revisionHistoryLimit": 0}}), expect: gateHolds},
	{who: patcher, what: blockAbort, how: "fills the annotations of a Deployment", admission: true, scenario: scenario{at: atStep1}, attack: fillsWorkload, expect: safetyVerbsWork},
	{who: patcher, what: blockAbort, how: "fills the revision annotation", admission: true, scenario: scenario{kind: statefulSets, at: atStep1},
		attack: fillsRevisionAnnotation, expect: safetyVerbsWork},
	{who: patcher, what: ship, how: "applies a Deployment with 520 field managers", admission: true, long: true, attack: appliesWithManyManagers, expect: gateHolds},
	{who: patcher, what: ship, how: "sets the strategy Recreate and a template in one patch", admission: true,
		attack: patches(change{version: "v2", spec: recreateStrategy}), expect: gateHolds},
}

// rollsLater makes the StatefulSet unsupported, and sets RollingUpdate when Weir and the native
// controller have observed that.
func rollsLater(changes ...change) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		for _, c := range append(changes, change{spec: updateStrategy("RollingUpdate")}) {
			a.attackWith(u, patch(a.path(), c.body()))
			a.eventually("the change is observed", func(ctx context.Context) error { return a.isObserved(ctx, "OnDelete") })
		}
	}
}

func surgesFirst(a *app, u *user) {
	a.t.Helper()
	a.attackWith(u, patch(a.path(), change{spec: surgingStrategy}.body()))
	a.eventually("the change is observed", func(ctx context.Context) error { return a.isObserved(ctx, "maxSurge") })
	a.attackWith(u, patch(a.path(), change{version: "v2"}.body()))
}

// isObserved returns an error until the native controller has observed the workload, and the
// Rollout reports why it cannot be held, if it cannot.
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
		return fmt.Errorf("the native controller has observed generation %d of %d", seen, o.GetGeneration())
	}
	r, err := a.getRollout(ctx)
	if err == nil && unfit && !strings.Contains(r.Status.Message+fmt.Sprint(r.Status.Conditions), word) {
		err = errors.New("the Rollout is " + describe(r))
	}
	return err
}

// heldOrReported expects that the version was held, or that the Rollout had reported before that it
// cannot be held. In the second case no history may claim a release. Then the owner corrects the
// workload.
func heldOrReported(word string) func(*app) {
	return func(a *app) {
		a.t.Helper()
		a.answered(refusedOrNeutralized...)
		a.eventually("the attack is over", func(ctx context.Context) error { return errors.Join(a.isObserved(ctx, word), a.isIdle(ctx)) })
		if lines, err := a.history(a.t.Context()); err != nil || len(lines) > 0 && a.monitor.peak("v2") > 1 {
			a.t.Errorf("no release of v2 was approved, but histories are %q (%v)", lines, err)
		}
		a.mustSend(testEnv.admin, patch(a.path(), change{spec: object{
			"updateStrategy": object{"type": "RollingUpdate", "rollingUpdate": object{"maxSurge": 0, "maxUnavailable": 1}},
		}}.body()))
		a.eventually("the workload can be held", func(ctx context.Context) error {
			r, err := a.getRollout(ctx)
			if err == nil && r.Status.Phase == v1beta1.PhaseInitial {
				err = errors.New("the Rollout is " + describe(r))
			}
			return err
		})
		a.checkNextRelease()
	}
}

// changesTemplateAtZero changes the template while there are no pods.
func changesTemplateAtZero(a *app, u *user) {
	a.t.Helper()
	a.attackWith(u, patch(a.path(), change{version: "v2", spec: object{"replicas": 0}}.body()))
	a.eventually("the desired pods run", func(ctx context.Context) error {
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
			err = fmt.Errorf("runs %v, want %d pods", pods, desiredPods(o))
		}
		return err
	})
	a.attackWith(u, patch(a.path(), change{spec: object{"replicas": 3}}.body()))
}

func scalesToZero(a *app, u *user) {
	a.t.Helper()
	a.attackWith(u, patch(a.path()+"/scale", `{"spec":{"replicas":0}}`))
	a.eventually("there are no pods", a.runs(versions{}))
	a.attackWith(u, patch(a.path()+"/scale", `{"spec":{"replicas":3}}`))
}

// changesAtZero makes a change while there are no pods, waits until weir-controller has observed
// it, and scales up.
func changesAtZero(c change) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		a.monitor.reset()
		a.attackWith(u, patch(a.path()+"/scale", `{"spec":{"replicas":0}}`))
		a.eventually("there are no pods", a.runs(versions{}))
		got := a.attackWith(u, patch(a.path(), c.body()))
		if got.code == http.StatusOK {
			a.eventually("the release has begun", a.waitsAtStep(1))
			if c.spec["replicas"] == nil {
				a.eventually("no empty ReplicaSet of it is left", a.hasNoReplicaSetOf(c.version))
			}
		}
		a.attackWith(u, patch(a.path()+"/scale", `{"spec":{"replicas":3}}`))
	}
}

// fillsWorkload fills the annotations of the workload, by each kind of write.
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

// fillsRevisionAnnotation fills the annotations with the revision annotation of the native
// controller, up to the limit of kube-apiserver.
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

// appliesWithManyManagers adds more field managers than a normal workload has, and then sets a
// version.
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
	{who: patcher, what: ship, how: "sets the label pod-template-hash in the template of a StatefulSet", admission: true, scenario: scenario{kind: statefulSets},
		attack: patches(change{template: podTemplateHashLabel}), expect: holdsHashLabel},
	{who: patcher, what: ship, how: "sets the label pod-template-hash in the template of a DaemonSet", admission: true, scenario: scenario{kind: daemonSets},
		attack: patches(change{template: podTemplateHashLabel}), expect: holdsHashLabel},
}

// podTemplateHashLabel is a label that the Deployment controller sets on pods.
var podTemplateHashLabel = object{"metadata": object{"labels": object{"pod-template-hash": "other"}}}

// removePodTemplateHashLabel removes the label again.
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
