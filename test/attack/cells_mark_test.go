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

// Annotations that Weir writes on a workload it holds.
const (
	inProgress   = "rollouts.kruise.io/in-progressing"
	controlInfo  = "batchrelease.rollouts.kruise.io/control-info"
	driving      = "rollouts.kruise.io/deployment-strategy"
	original     = "rollouts.kruise.io/original-deployment-strategy"
	wantedSpec   = "rollouts.kruise.io/wanted-spec"
	extraStatus  = "rollouts.kruise.io/deployment-extra-status"
	workloadType = "rollouts.kruise.io/workload-type"
	rolloutID    = "rollouts.kruise.io/rollout-id"
)

var (
	// allOfThem drives a Deployment to the end as a client of OpenKruise does that has no Rollout.
	allOfThem = object{
		controlInfo: "{}",
		driving:     `{"rollingStyle":"Partition","rollingUpdate":{"maxSurge":3,"maxUnavailable":3},"partition":"100%"}`,
	}
	// recreate is the strategy that goes with it.
	recreate = object{"strategy": object{"type": "Recreate", "rollingUpdate": nil}}
	// pausedToo keeps the native controller out of it.
	pausedToo = object{"paused": true, "strategy": recreate["strategy"]}
	heldByWeb = object{inProgress: `{"rolloutName":"web"}`}
	// unmarked takes off what Weir has written.
	unmarked = object{inProgress: nil, controlInfo: nil, driving: nil, original: nil, wantedSpec: nil, extraStatus: nil}
	// oneShot is all there is to see of a hold, and none of its effect.
	oneShot = object{inProgress: `{"rolloutName":"web"}`, original: `{"type":"RollingUpdate"}`, driving: `{"partition":"100%"}`, controlInfo: "{}"}
)

var markCells = []cell{
	{who: patcher, what: ship, how: "drives the Deployment itself, in one patch", doors: true,
		do: patches(change{version: "v2", annotations: allOfThem, spec: recreate}), expect: gated},
	{who: patcher, what: ship, how: "drives the Deployment itself, paused, in one patch", doors: true,
		do: patches(change{version: "v2", annotations: allOfThem, spec: pausedToo}), expect: gated},
	{who: patcher, what: ship, how: "drives the Deployment itself, annotations first", doors: true,
		do: patches(change{annotations: allOfThem, spec: recreate}, change{version: "v2"}), expect: gated},
	{who: patcher, what: ship, how: "drives the Deployment itself, annotations first by the status", doors: true,
		do: drivesByStatus, expect: gated},
	{who: patcher, what: ship, how: "drives the Deployment itself while the Rollout is paused", doors: true,
		on: scene{change: func(r *v1beta1.Rollout) { r.Spec.Strategy.Paused = new(true) }},
		do: patches(change{version: "v2", annotations: allOfThem, spec: recreate}), expect: gatedWhilePaused},
	{who: patcher, what: ship, how: "drives the Deployment itself while a Service is missing", doors: true,
		on: scene{change: func(r *v1beta1.Rollout) {
			r.Spec.Strategy.Canary.TrafficRoutings = []v1beta1.TrafficRoutingRef{{
				Service: name, GracePeriodSeconds: new(int32(1)), Ingress: &v1beta1.IngressRef{Name: name},
			}}
		}},
		do: patches(change{version: "v2", annotations: allOfThem, spec: recreate}), expect: gatedWithoutService},
	{who: patcher, what: ship, how: "drives the Deployment itself when it is held", doors: true, on: scene{at: midway},
		do: patches(change{annotations: allOfThem, spec: recreate}, change{annotations: allOfThem, version: "v3"}), expect: gated},
	{who: patcher, what: skip, how: "drives the held Deployment by its status", doors: true, on: scene{at: midway},
		do: drivesByStatus, expect: gated},
	{who: patcher, what: ship, how: "takes the marks off a held Deployment", doors: true, on: scene{at: midway},
		do: patches(change{annotations: unmarked, labels: object{workloadType: nil, stableLabel: nil}, spec: object{"paused": false}},
			change{spec: object{"paused": false}}), expect: gated},
	{who: patcher, what: ship, how: "takes the marks off a held Deployment by its status", doors: true, on: scene{at: midway},
		do: unmarksByStatus, expect: marked},
	{who: patcher, what: ship, how: "takes the label off first", doors: true,
		do: patches(change{labels: object{workloadType: nil}}, change{version: "v2"}), expect: gated},
	{who: patcher, what: ship, how: "names a release and marks it as under way, then sets a version", doors: true,
		do:     patches(change{labels: object{rolloutID: "7"}, annotations: object{inProgress: "true"}}, change{labels: object{rolloutID: "8"}, version: "v2"}),
		expect: gated},
	{who: patcher, what: ship, how: "marks a Deployment as held by another", doors: true,
		do: patches(change{version: "v2", annotations: object{inProgress: `{"rolloutName":"other"}`}}), expect: gated},
	{who: patcher, what: ship, how: "marks a Deployment as held first", doors: true,
		do: patches(change{annotations: heldByWeb}, change{version: "v2"}, change{spec: object{"paused": false}}), expect: gated},
	{who: patcher, what: ship, how: "marks a StatefulSet as held in one patch", doors: true, on: scene{kind: statefulSets},
		do: patches(change{version: "v2", annotations: oneShot}), expect: gated},
	{who: patcher, what: ship, how: "marks a StatefulSet as held first", doors: true, on: scene{kind: statefulSets},
		do: patches(change{annotations: heldByWeb}, change{version: "v2"}), expect: gated},
	{who: patcher, what: ship, how: "marks a StatefulSet as held by its status first", doors: true, on: scene{kind: statefulSets},
		do: marksByStatus, expect: gated},
	{who: patcher, what: skip, how: "lowers the partition of a held StatefulSet", doors: true, on: scene{kind: statefulSets, at: midway},
		do: patches(change{spec: object{"updateStrategy": object{"rollingUpdate": object{"partition": 0}}}},
			change{annotations: unmarked, spec: object{"updateStrategy": object{"rollingUpdate": object{"partition": 0}}}}), expect: gated},
	{who: patcher, what: ship, how: "marks a DaemonSet as held in one patch", doors: true, on: scene{kind: daemonSets},
		do: patches(change{version: "v2", annotations: oneShot}), expect: gated},
	{who: patcher, what: ship, how: "marks a DaemonSet as held first", doors: true, on: scene{kind: daemonSets},
		do: patches(change{annotations: heldByWeb}, change{version: "v2"}), expect: gated},
	{who: patcher, what: ship, how: "marks a DaemonSet as held by its status first", doors: true, on: scene{kind: daemonSets},
		do: marksByStatus, expect: gated},
	{who: patcher, what: skip, how: "has a held DaemonSet roll", doors: true, on: scene{kind: daemonSets, at: midway},
		do: patches(change{spec: object{"updateStrategy": object{"type": "RollingUpdate"}}},
			change{annotations: unmarked, spec: object{"updateStrategy": object{"type": "RollingUpdate"}}}), expect: gated},
	{who: patcher, what: blockAbort, how: "drives the Deployment itself again and again", doors: true, on: scene{at: midway},
		do: drivesWhileAborting, expect: func(a *app) { a.ends(); gated(a) }},
}

func drivesByStatus(a *app, u *user) {
	a.t.Helper()
	a.tries(u, patch(a.path()+"/status", change{annotations: allOfThem}.body()))
	a.tries(u, patch(a.path(), change{version: "v3", spec: recreate}.body()))
}

func marksByStatus(a *app, u *user) {
	a.t.Helper()
	a.tries(u, patch(a.path()+"/status", change{annotations: oneShot}.body()))
	a.tries(u, patch(a.path(), change{version: "v2"}.body()))
}

func unmarksByStatus(a *app, u *user) {
	a.t.Helper()
	a.tries(u, patch(a.path()+"/status", change{annotations: unmarked}.body()))
	a.tries(u, patch(a.path(), change{spec: object{"paused": false}}.body()))
}

func drivesWhileAborting(a *app, u *user) {
	a.t.Helper()
	a.verb(here.admin, "abort", "")
	for range 10 {
		a.tries(u, patch(a.path(), change{annotations: allOfThem, spec: recreate}.body()))
		a.tries(u, patch(a.path()+"/status", change{annotations: allOfThem}.body()))
	}
}

// marked wants the Deployment to be held as before, and the gate to have held.
func marked(a *app) {
	a.t.Helper()
	a.until("the Deployment is marked and paused", func(ctx context.Context) error {
		o, _, err := a.live(ctx)
		if err == nil && o.GetAnnotations()[inProgress] == "" {
			err = errors.New("it is not marked")
		}
		return err
	})
	gated(a)
}

// gatedWhilePaused wants no pod at all until the Rollout is resumed.
func gatedWhilePaused(a *app) {
	a.t.Helper()
	a.answered(either...)
	a.until("the attack is over", a.rests)
	a.atMost(0, "v2")
	a.edits(`{"spec":{"strategy":{"paused":false}}}`)
	gated(a)
}

// gatedWithoutService wants no pod at all until the Service is there.
func gatedWithoutService(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK, http.StatusForbidden, http.StatusUnprocessableEntity)
	a.until("the attack is over", a.rests)
	a.atMost(0, "v2")
	a.create(a.service())
	a.create(a.ingress())
	gated(a)
}
