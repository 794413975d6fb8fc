// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"net/http"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// Annotations that Weir writes on a held workload.
const (
	inProgress                 = "rollouts.kruise.io/in-progressing"
	controlInfo                = "batchrelease.rollouts.kruise.io/control-info"
	strategyAnnotation         = "rollouts.kruise.io/deployment-strategy"
	originalStrategyAnnotation = "rollouts.kruise.io/original-deployment-strategy"
	wantedSpec                 = "rollouts.kruise.io/wanted-spec"
	extraStatus                = "rollouts.kruise.io/deployment-extra-status"
	workloadType               = "rollouts.kruise.io/workload-type"
	rolloutID                  = "rollouts.kruise.io/rollout-id"
)

var (
	// fullPartition are annotations with which a client of OpenKruise releases a Deployment
	// completely without a Rollout.
	fullPartition = object{
		controlInfo:        "{}",
		strategyAnnotation: `{"rollingStyle":"Partition","rollingUpdate":{"maxSurge":3,"maxUnavailable":3},"partition":"100%"}`,
	}
	// recreateStrategy is the Deployment strategy for these annotations.
	recreateStrategy = object{"strategy": object{"type": "Recreate", "rollingUpdate": nil}}
	// pausedAndRecreate also pauses the Deployment for the native controller.
	pausedAndRecreate = object{"paused": true, "strategy": recreateStrategy["strategy"]}
	holdRecords       = object{inProgress: `{"rolloutName":"web"}`}
	// removeHoldRecords removes the annotations of a hold.
	removeHoldRecords = object{inProgress: nil, controlInfo: nil, strategyAnnotation: nil, originalStrategyAnnotation: nil, wantedSpec: nil, extraStatus: nil}
	// allHoldRecords are all annotations of a hold, without pausing the workload.
	allHoldRecords = object{inProgress: `{"rolloutName":"web"}`, originalStrategyAnnotation: `{"type":"RollingUpdate"}`, strategyAnnotation: `{"partition":"100%"}`, controlInfo: "{}"}
)

var recordAnnotationCells = []cell{
	{who: patcher, what: ship, how: "annotates the Deployment and sets a template in one patch", admission: true,
		attack: patches(change{version: "v2", annotations: fullPartition, spec: recreateStrategy}), expect: gateHolds},
	{who: patcher, what: ship, how: "annotates and pauses the Deployment and sets a template in one patch", admission: true,
		attack: patches(change{version: "v2", annotations: fullPartition, spec: pausedAndRecreate}), expect: gateHolds},
	{who: patcher, what: ship, how: "annotates the Deployment, then sets a template", admission: true,
		attack: patches(change{annotations: fullPartition, spec: recreateStrategy}, change{version: "v2"}), expect: gateHolds},
	{who: patcher, what: ship, how: "annotates the Deployment by its status, then sets a template", admission: true,
		attack: annotatesByStatus, expect: gateHolds},
	{who: patcher, what: ship, how: "annotates the Deployment while the Rollout is paused", admission: true,
		scenario: scenario{customizeRollout: func(r *v1beta1.Rollout) { r.Spec.Strategy.Paused = new(true) }},
		attack:   patches(change{version: "v2", annotations: fullPartition, spec: recreateStrategy}), expect: holdsUntilResumed},
	{who: patcher, what: ship, how: "annotates the Deployment while a Service is missing", admission: true,
		scenario: scenario{customizeRollout: func(r *v1beta1.Rollout) {
			r.Spec.Strategy.Canary.TrafficRoutings = []v1beta1.TrafficRoutingRef{{
				Service: name, GracePeriodSeconds: new(int32(1)), Ingress: &v1beta1.IngressRef{Name: name},
			}}
		}},
		attack: patches(change{version: "v2", annotations: fullPartition, spec: recreateStrategy}), expect: holdsUntilServiceExists},
	{who: patcher, what: ship, how: "annotates the Deployment when it is held", admission: true, scenario: scenario{at: atStep1},
		attack: patches(change{annotations: fullPartition, spec: recreateStrategy}, change{annotations: fullPartition, version: "v3"}), expect: gateHolds},
	{who: patcher, what: skip, how: "annotates the held Deployment by its status", admission: true, scenario: scenario{at: atStep1},
		attack: annotatesByStatus, expect: gateHolds},
	{who: patcher, what: ship, how: "removes the records of a held Deployment", admission: true, scenario: scenario{at: atStep1},
		attack: patches(change{annotations: removeHoldRecords, labels: object{workloadType: nil, stableLabel: nil}, spec: object{"paused": false}},
			change{spec: object{"paused": false}}), expect: gateHolds},
	{who: patcher, what: ship, how: "removes the records of a held Deployment by its status", admission: true, scenario: scenario{at: atStep1},
		attack: removesHoldRecordsByStatus, expect: staysHeld},
	{who: patcher, what: ship, how: "removes the label first", admission: true,
		attack: patches(change{labels: object{workloadType: nil}}, change{version: "v2"}), expect: gateHolds},
	{who: patcher, what: ship, how: "sets a rollout-id and the in-progress annotation, then a version", admission: true,
		attack: patches(change{labels: object{rolloutID: "7"}, annotations: object{inProgress: "true"}}, change{labels: object{rolloutID: "8"}, version: "v2"}),
		expect: gateHolds},
	{who: patcher, what: ship, how: "marks a Deployment as held by another", admission: true,
		attack: patches(change{version: "v2", annotations: object{inProgress: `{"rolloutName":"other"}`}}), expect: gateHolds},
	{who: patcher, what: ship, how: "marks a Deployment as held first", admission: true,
		attack: patches(change{annotations: holdRecords}, change{version: "v2"}, change{spec: object{"paused": false}}), expect: gateHolds},
	{who: patcher, what: ship, how: "marks a StatefulSet as held in one patch", admission: true, scenario: scenario{kind: statefulSets},
		attack: patches(change{version: "v2", annotations: allHoldRecords}), expect: gateHolds},
	{who: patcher, what: ship, how: "marks a StatefulSet as held first", admission: true, scenario: scenario{kind: statefulSets},
		attack: patches(change{annotations: holdRecords}, change{version: "v2"}), expect: gateHolds},
	{who: patcher, what: ship, how: "marks a StatefulSet as held by its status first", admission: true, scenario: scenario{kind: statefulSets},
		attack: writesHoldRecordsByStatus, expect: gateHolds},
	{who: patcher, what: skip, how: "lowers the partition of a held StatefulSet", admission: true, scenario: scenario{kind: statefulSets, at: atStep1},
		attack: patches(change{spec: object{"updateStrategy": object{"rollingUpdate": object{"partition": 0}}}},
			change{annotations: removeHoldRecords, spec: object{"updateStrategy": object{"rollingUpdate": object{"partition": 0}}}}), expect: gateHolds},
	{who: patcher, what: ship, how: "marks a DaemonSet as held in one patch", admission: true, scenario: scenario{kind: daemonSets},
		attack: patches(change{version: "v2", annotations: allHoldRecords}), expect: gateHolds},
	{who: patcher, what: ship, how: "marks a DaemonSet as held first", admission: true, scenario: scenario{kind: daemonSets},
		attack: patches(change{annotations: holdRecords}, change{version: "v2"}), expect: gateHolds},
	{who: patcher, what: ship, how: "marks a DaemonSet as held by its status first", admission: true, scenario: scenario{kind: daemonSets},
		attack: writesHoldRecordsByStatus, expect: gateHolds},
	{who: patcher, what: skip, how: "sets RollingUpdate of a held DaemonSet", admission: true, scenario: scenario{kind: daemonSets, at: atStep1},
		attack: patches(change{spec: object{"updateStrategy": object{"type": "RollingUpdate"}}},
			change{annotations: removeHoldRecords, spec: object{"updateStrategy": object{"type": "RollingUpdate"}}}), expect: gateHolds},
	{who: patcher, what: blockAbort, how: "annotates the Deployment repeatedly during an abort", admission: true, scenario: scenario{at: atStep1},
		attack: annotatesWhileAborting, expect: func(a *app) { a.checkAbortEnds(); gateHolds(a) }},
}

func annotatesByStatus(a *app, u *user) {
	a.t.Helper()
	a.attackWith(u, patch(a.path()+"/status", change{annotations: fullPartition}.body()))
	a.attackWith(u, patch(a.path(), change{version: "v3", spec: recreateStrategy}.body()))
}

func writesHoldRecordsByStatus(a *app, u *user) {
	a.t.Helper()
	a.attackWith(u, patch(a.path()+"/status", change{annotations: allHoldRecords}.body()))
	a.attackWith(u, patch(a.path(), change{version: "v2"}.body()))
}

func removesHoldRecordsByStatus(a *app, u *user) {
	a.t.Helper()
	a.attackWith(u, patch(a.path()+"/status", change{annotations: removeHoldRecords}.body()))
	a.attackWith(u, patch(a.path(), change{spec: object{"paused": false}}.body()))
}

func annotatesWhileAborting(a *app, u *user) {
	a.t.Helper()
	a.verb(testEnv.admin, "abort", "")
	for range 10 {
		a.attackWith(u, patch(a.path(), change{annotations: fullPartition, spec: recreateStrategy}.body()))
		a.attackWith(u, patch(a.path()+"/status", change{annotations: fullPartition}.body()))
	}
}

// staysHeld expects that the Deployment is held as before, and that no version was released.
func staysHeld(a *app) {
	a.t.Helper()
	a.eventually("the Deployment is held", func(ctx context.Context) error {
		o, _, err := a.liveWorkload(ctx)
		if err == nil && o.GetAnnotations()[inProgress] == "" {
			err = errors.New("the Deployment is not held")
		}
		return err
	})
	gateHolds(a)
}

// holdsUntilResumed expects no new pod until the Rollout is resumed.
func holdsUntilResumed(a *app) {
	a.t.Helper()
	a.answered(refusedOrNeutralized...)
	a.eventually("the attack is over", a.isIdle)
	a.atMost(0, "v2")
	a.patchRollout(`{"spec":{"strategy":{"paused":false}}}`)
	gateHolds(a)
}

// holdsUntilServiceExists expects no new pod until the Service exists.
func holdsUntilServiceExists(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK, http.StatusForbidden, http.StatusUnprocessableEntity)
	a.eventually("the attack is over", a.isIdle)
	a.atMost(0, "v2")
	a.create(a.service())
	a.create(a.ingress())
	gateHolds(a)
}
