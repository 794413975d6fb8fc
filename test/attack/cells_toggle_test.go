// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// toggleCells disable a Rollout and enable it again, which its owner may do at any moment.
var toggleCells = []cell{
	{who: editor, what: ship, how: "disables and immediately enables, partition style", scenario: scenario{at: atStep1}, attack: togglesAtOnce, expect: waitsOrRestored},
	{who: editor, what: ship, how: "enables while it is being disabled, partition style", long: true, scenario: scenario{withTraffic: true, at: atStep1}, attack: whileDisabling(enabled), expect: waitsOrRestored},
	{who: editor, what: ship, how: "disables and immediately enables, canary style", long: true, scenario: scenario{canary: true, at: atStep1}, attack: togglesAtOnce, expect: waitsOrRestored},
	{who: editor, what: ship, how: "enables while it is being disabled, canary style", long: true, scenario: scenario{canary: true, withTraffic: true, at: atStep1},
		attack: whileDisabling(enabled), expect: waitsOrRestored},
	{who: editor, what: ship, how: "disables and immediately enables, blue-green", long: true, scenario: scenario{blueGreen: true, at: atStep1}, attack: togglesAtOnce, expect: waitsOrRestored},
	{who: editor, what: ship, how: "enables while it is being disabled, blue-green", scenario: scenario{blueGreen: true, withTraffic: true, at: atStep1}, attack: whileDisabling(enabled), expect: waitsOrRestored},
	{who: editor, what: ship, how: "disables and immediately enables, a StatefulSet", long: true, scenario: scenario{kind: statefulSets, at: atStep1}, attack: togglesAtOnce, expect: waitsOrRestored},
	{who: editor, what: ship, how: "enables while it is being disabled, a StatefulSet", long: true, scenario: scenario{kind: statefulSets, withTraffic: true, at: atStep1},
		attack: whileDisabling(enabled), expect: waitsOrRestored},
	{who: editor, what: ship, how: "disables and immediately enables, a DaemonSet", long: true, scenario: scenario{kind: daemonSets, at: atStep1}, attack: togglesAtOnce, expect: waitsOrRestored},
	{who: editor, what: ship, how: "enables while it is being disabled, a DaemonSet", long: true, scenario: scenario{kind: daemonSets, at: atStep1}, attack: whileDisabling(enabled), expect: waitsOrRestored},

	{who: editor, what: undoAbort, how: "disables and immediately enables, partition style", scenario: scenario{at: aborted}, attack: togglesAtOnce, expect: staysAborted},
	{who: editor, what: undoAbort, how: "enables while it is being disabled, partition style", long: true, scenario: scenario{at: aborted}, attack: whileDisabling(enabled), expect: staysAborted},
	{who: editor, what: undoAbort, how: "disables and immediately enables, canary style", long: true, scenario: scenario{canary: true, at: aborted}, attack: togglesAtOnce, expect: staysAborted},
	{who: editor, what: undoAbort, how: "enables while it is being disabled, canary style", long: true, scenario: scenario{canary: true, at: aborted},
		attack: whileDisabling(enabled), expect: staysAborted},
	{who: editor, what: undoAbort, how: "disables and immediately enables, blue-green", long: true, scenario: scenario{blueGreen: true, at: aborted}, attack: togglesAtOnce, expect: staysAborted},
	{who: editor, what: undoAbort, how: "enables while it is being disabled, blue-green", long: true, scenario: scenario{blueGreen: true, at: aborted}, attack: whileDisabling(enabled), expect: staysAborted},
	{who: editor, what: undoAbort, how: "disables and immediately enables, a StatefulSet", long: true, scenario: scenario{kind: statefulSets, at: aborted}, attack: togglesAtOnce, expect: staysAborted},
	{who: editor, what: undoAbort, how: "enables while it is being disabled, a StatefulSet", scenario: scenario{kind: statefulSets, at: aborted}, attack: whileDisabling(enabled), expect: staysAborted},
	{who: editor, what: undoAbort, how: "disables and immediately enables, a DaemonSet", long: true, scenario: scenario{kind: daemonSets, at: aborted}, attack: togglesAtOnce, expect: staysAbortedOrStable},
	{who: editor, what: undoAbort, how: "enables while it is being disabled, a DaemonSet", long: true, scenario: scenario{kind: daemonSets, at: aborted}, attack: whileDisabling(enabled), expect: staysAbortedOrStable},
}

const (
	enabled  = `{"spec":{"disabled":false}}`
	disabled = `{"spec":{"disabled":true}}`
)

func togglesAtOnce(a *app, u *user) {
	a.t.Helper()
	for range 3 {
		a.attackWith(u, patch(a.api(), disabled))
		a.attackWith(u, patch(a.api(), enabled))
	}
}

// isReconciled returns an error until the Rollout has observed the change and works again. If it is
// Healthy, only one version may run.
func (a *app) isReconciled(ctx context.Context) error {
	was, err := a.getRollout(ctx)
	if err != nil {
		return err
	}
	pods, err := a.pods(ctx)
	if err != nil {
		return err
	}
	r, err := a.getRollout(ctx)
	if err != nil {
		return err
	}
	if r.Status.Phase == v1beta1.PhaseHealthy && r.ResourceVersion == was.ResourceVersion && len(pods) > 1 {
		a.t.Errorf("the Rollout is Healthy, but the pods are %v", pods)
	}
	if r.Status.ObservedGeneration < r.Generation || r.Status.Phase != v1beta1.PhaseHealthy && r.Status.Phase != v1beta1.PhaseProgressing {
		return errors.New("the Rollout is " + describe(r))
	}
	return a.isIdle(ctx)
}

// waitsForOwner reports whether a DaemonSet was restored with OnDelete, whose update a user must
// complete, and whether the Rollout reports this.
func (a *app) waitsForOwner(ctx context.Context) bool {
	o, _, err := a.liveWorkload(ctx)
	r, rErr := a.getRollout(ctx)
	return errors.Join(err, rErr) == nil && replacesPodsManually(o) && strings.Contains(r.Status.Message, "Rollout waits: the workload is paused")
}

// waitsOrRestored expects that the release waits as before, or that the workload is completely
// restored.
func waitsOrRestored(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.eventually("the Rollout works again, or reports what it waits for", func(ctx context.Context) error {
		if a.waitsForOwner(ctx) {
			return nil
		}
		return a.isReconciled(ctx)
	})
	if a.waitsAtStep(1)(a.t.Context()) == nil {
		a.atMost(1, "v2")
		releaseCompletes(a)
	}
	if a.waitsForOwner(a.t.Context()) {
		a.mustSend(testEnv.admin, patch(a.path(), change{spec: updateStrategy("RollingUpdate")}.body()))
	}
	a.eventually("only v2 serves", a.runs(versions{"v2": 3}))
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.checkNextRelease()
}

// staysAborted expects that the aborted version is still held.
func staysAborted(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.eventually("the Rollout works again", a.isReconciled)
	a.eventually("the release is aborted", a.isAborted)
	a.eventually("only v1 serves", a.runs(versions{"v1": 3}))
	gateHolds(a)
}

// staysAbortedOrStable expects that the aborted version is still held, or that the workload was
// restored with the stable template, as a DaemonSet is, if the Rollout was already being disabled.
func staysAbortedOrStable(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.eventually("the Rollout works again", a.isReconciled)
	a.eventually("the Rollout is aborted, or Healthy", func(ctx context.Context) error {
		if a.isAborted(ctx) == nil {
			return nil
		}
		return a.isHealthy(ctx)
	})
	a.eventually("only v1 serves", a.runs(versions{"v1": 3}))
	a.atMost(1, "v2")
	gateHolds(a)
}
