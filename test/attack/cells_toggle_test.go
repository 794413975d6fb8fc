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

// toggleCells disable a Rollout and enable it again, which its owner may at any moment.
var toggleCells = []cell{
	{who: editor, what: ship, how: "disables and enables at once, in batches", scenario: scenario{at: atStep1}, attack: togglesAtOnce, expect: waitsOrRestored},
	{who: editor, what: ship, how: "enables while it is being disabled, in batches", long: true, scenario: scenario{withTraffic: true, at: atStep1}, attack: whileDisabling(enabled), expect: waitsOrRestored},
	{who: editor, what: ship, how: "disables and enables at once, beside an extra Deployment", long: true, scenario: scenario{canary: true, at: atStep1}, attack: togglesAtOnce, expect: waitsOrRestored},
	{who: editor, what: ship, how: "enables while it is being disabled, beside an extra Deployment", long: true, scenario: scenario{canary: true, withTraffic: true, at: atStep1},
		attack: whileDisabling(enabled), expect: waitsOrRestored},
	{who: editor, what: ship, how: "disables and enables at once, blue-green", long: true, scenario: scenario{blueGreen: true, at: atStep1}, attack: togglesAtOnce, expect: waitsOrRestored},
	{who: editor, what: ship, how: "enables while it is being disabled, blue-green", scenario: scenario{blueGreen: true, withTraffic: true, at: atStep1}, attack: whileDisabling(enabled), expect: waitsOrRestored},
	{who: editor, what: ship, how: "disables and enables at once, a StatefulSet", long: true, scenario: scenario{kind: statefulSets, at: atStep1}, attack: togglesAtOnce, expect: waitsOrRestored},
	{who: editor, what: ship, how: "enables while it is being disabled, a StatefulSet", long: true, scenario: scenario{kind: statefulSets, withTraffic: true, at: atStep1},
		attack: whileDisabling(enabled), expect: waitsOrRestored},
	{who: editor, what: ship, how: "disables and enables at once, a DaemonSet", long: true, scenario: scenario{kind: daemonSets, at: atStep1}, attack: togglesAtOnce, expect: waitsOrRestored},
	{who: editor, what: ship, how: "enables while it is being disabled, a DaemonSet", long: true, scenario: scenario{kind: daemonSets, at: atStep1}, attack: whileDisabling(enabled), expect: waitsOrRestored},

	{who: editor, what: undoAbort, how: "disables and enables at once, in batches", scenario: scenario{at: aborted}, attack: togglesAtOnce, expect: staysAborted},
	{who: editor, what: undoAbort, how: "enables while it is being disabled, in batches", long: true, scenario: scenario{at: aborted}, attack: whileDisabling(enabled), expect: staysAborted},
	{who: editor, what: undoAbort, how: "disables and enables at once, beside an extra Deployment", long: true, scenario: scenario{canary: true, at: aborted}, attack: togglesAtOnce, expect: staysAborted},
	{who: editor, what: undoAbort, how: "enables while it is being disabled, beside an extra Deployment", long: true, scenario: scenario{canary: true, at: aborted},
		attack: whileDisabling(enabled), expect: staysAborted},
	{who: editor, what: undoAbort, how: "disables and enables at once, blue-green", long: true, scenario: scenario{blueGreen: true, at: aborted}, attack: togglesAtOnce, expect: staysAborted},
	{who: editor, what: undoAbort, how: "enables while it is being disabled, blue-green", long: true, scenario: scenario{blueGreen: true, at: aborted}, attack: whileDisabling(enabled), expect: staysAborted},
	{who: editor, what: undoAbort, how: "disables and enables at once, a StatefulSet", long: true, scenario: scenario{kind: statefulSets, at: aborted}, attack: togglesAtOnce, expect: staysAborted},
	{who: editor, what: undoAbort, how: "enables while it is being disabled, a StatefulSet", scenario: scenario{kind: statefulSets, at: aborted}, attack: whileDisabling(enabled), expect: staysAborted},
	{who: editor, what: undoAbort, how: "disables and enables at once, a DaemonSet", long: true, scenario: scenario{kind: daemonSets, at: aborted}, attack: togglesAtOnce, expect: staysAbortedOrStable},
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

// isReconciled wants the Rollout to have seen what was written of it, and to be in service.
// Where it is Healthy, one version serves.
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
		a.t.Errorf("it is Healthy, and there are %v", pods)
	}
	if r.Status.ObservedGeneration < r.Generation || r.Status.Phase != v1beta1.PhaseHealthy && r.Status.Phase != v1beta1.PhaseProgressing {
		return errors.New("it is " + describe(r))
	}
	return a.isIdle(ctx)
}

// waitsForOwner reports whether a DaemonSet was given back with OnDelete, which somebody ends,
// and that the Rollout says so.
func (a *app) waitsForOwner(ctx context.Context) bool {
	o, _, err := a.liveWorkload(ctx)
	r, rErr := a.getRollout(ctx)
	return errors.Join(err, rErr) == nil && replacesPodsManually(o) && strings.Contains(r.Status.Message, "Rollout waits for the workload")
}

// waitsOrRestored wants the release to wait as before, or to have been given back in full.
func waitsOrRestored(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.eventually("the Rollout is in charge again, or says what it waits for", func(ctx context.Context) error {
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
	a.eventually("v2 alone serves", a.runs(versions{"v2": 3}))
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.checkNextRelease()
}

// staysAborted wants what was aborted to be held as it was.
func staysAborted(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.eventually("the Rollout is in charge again", a.isReconciled)
	a.eventually("it is aborted", a.isAborted)
	a.eventually("v1 alone serves", a.runs(versions{"v1": 3}))
	gateHolds(a)
}

// staysAbortedOrStable wants what was aborted to be held as it was, or, where the Rollout had begun
// to leave, to be given back with the stable template, as a DaemonSet is.
func staysAbortedOrStable(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.eventually("the Rollout is in charge again", a.isReconciled)
	a.eventually("it is aborted, or Healthy", func(ctx context.Context) error {
		if a.isAborted(ctx) == nil {
			return nil
		}
		return a.isHealthy(ctx)
	})
	a.eventually("v1 alone serves", a.runs(versions{"v1": 3}))
	a.atMost(1, "v2")
	gateHolds(a)
}
