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
	{who: editor, what: ship, how: "disables and enables at once, in batches", on: scene{at: midway}, do: togglesAtOnce, expect: oneVersion},
	{who: editor, what: ship, how: "enables while it is being disabled, in batches", long: true, on: scene{routed: true, at: midway}, do: whileDisabling(enabled), expect: oneVersion},
	{who: editor, what: ship, how: "disables and enables at once, beside an extra Deployment", long: true, on: scene{beside: true, at: midway}, do: togglesAtOnce, expect: oneVersion},
	{who: editor, what: ship, how: "enables while it is being disabled, beside an extra Deployment", long: true, on: scene{beside: true, routed: true, at: midway},
		do: whileDisabling(enabled), expect: oneVersion},
	{who: editor, what: ship, how: "disables and enables at once, blue-green", long: true, on: scene{green: true, at: midway}, do: togglesAtOnce, expect: oneVersion},
	{who: editor, what: ship, how: "enables while it is being disabled, blue-green", on: scene{green: true, routed: true, at: midway}, do: whileDisabling(enabled), expect: oneVersion},
	{who: editor, what: ship, how: "disables and enables at once, a StatefulSet", long: true, on: scene{kind: statefulSets, at: midway}, do: togglesAtOnce, expect: oneVersion},
	{who: editor, what: ship, how: "enables while it is being disabled, a StatefulSet", long: true, on: scene{kind: statefulSets, routed: true, at: midway},
		do: whileDisabling(enabled), expect: oneVersion},
	{who: editor, what: ship, how: "disables and enables at once, a DaemonSet", long: true, on: scene{kind: daemonSets, at: midway}, do: togglesAtOnce, expect: oneVersion},
	{who: editor, what: ship, how: "enables while it is being disabled, a DaemonSet", long: true, on: scene{kind: daemonSets, at: midway}, do: whileDisabling(enabled), expect: oneVersion},

	{who: editor, what: undoAbort, how: "disables and enables at once, in batches", on: scene{at: aborted}, do: togglesAtOnce, expect: heldStill},
	{who: editor, what: undoAbort, how: "enables while it is being disabled, in batches", long: true, on: scene{at: aborted}, do: whileDisabling(enabled), expect: heldStill},
	{who: editor, what: undoAbort, how: "disables and enables at once, beside an extra Deployment", long: true, on: scene{beside: true, at: aborted}, do: togglesAtOnce, expect: heldStill},
	{who: editor, what: undoAbort, how: "enables while it is being disabled, beside an extra Deployment", long: true, on: scene{beside: true, at: aborted},
		do: whileDisabling(enabled), expect: heldStill},
	{who: editor, what: undoAbort, how: "disables and enables at once, blue-green", long: true, on: scene{green: true, at: aborted}, do: togglesAtOnce, expect: heldStill},
	{who: editor, what: undoAbort, how: "enables while it is being disabled, blue-green", long: true, on: scene{green: true, at: aborted}, do: whileDisabling(enabled), expect: heldStill},
	{who: editor, what: undoAbort, how: "disables and enables at once, a StatefulSet", long: true, on: scene{kind: statefulSets, at: aborted}, do: togglesAtOnce, expect: heldStill},
	{who: editor, what: undoAbort, how: "enables while it is being disabled, a StatefulSet", on: scene{kind: statefulSets, at: aborted}, do: whileDisabling(enabled), expect: heldStill},
	{who: editor, what: undoAbort, how: "disables and enables at once, a DaemonSet", long: true, on: scene{kind: daemonSets, at: aborted}, do: togglesAtOnce, expect: isStable},
	{who: editor, what: undoAbort, how: "enables while it is being disabled, a DaemonSet", long: true, on: scene{kind: daemonSets, at: aborted}, do: whileDisabling(enabled), expect: isStable},
}

const (
	enabled  = `{"spec":{"disabled":false}}`
	disabled = `{"spec":{"disabled":true}}`
)

func togglesAtOnce(a *app, u *user) {
	a.t.Helper()
	for range 3 {
		a.tries(u, patch(a.api(), disabled))
		a.tries(u, patch(a.api(), enabled))
	}
}

// inCharge wants the Rollout to have seen what was written of it, and to be in service.
// Where it is Healthy, one version serves.
func (a *app) inCharge(ctx context.Context) error {
	was, err := a.stored(ctx)
	if err != nil {
		return err
	}
	pods, err := a.pods(ctx)
	if err != nil {
		return err
	}
	r, err := a.stored(ctx)
	if err != nil {
		return err
	}
	if r.Status.Phase == v1beta1.PhaseHealthy && r.ResourceVersion == was.ResourceVersion && len(pods) > 1 {
		a.t.Errorf("it is Healthy, and there are %v", pods)
	}
	if r.Status.ObservedGeneration < r.Generation || r.Status.Phase != v1beta1.PhaseHealthy && r.Status.Phase != v1beta1.PhaseProgressing {
		return errors.New("it is " + describe(r))
	}
	return a.rests(ctx)
}

// waitsForOwner reports whether a DaemonSet was given back with OnDelete, which somebody ends,
// and that the Rollout says so.
func (a *app) waitsForOwner(ctx context.Context) bool {
	o, _, err := a.live(ctx)
	r, rErr := a.stored(ctx)
	return errors.Join(err, rErr) == nil && unfit(o) && strings.Contains(r.Status.Message, "Rollout waits for the workload")
}

// oneVersion wants the release to wait as before, or to have been given back in full.
func oneVersion(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.until("the Rollout is in charge again, or says what it waits for", func(ctx context.Context) error {
		if a.waitsForOwner(ctx) {
			return nil
		}
		return a.inCharge(ctx)
	})
	if a.waitsAt(1)(a.t.Context()) == nil {
		a.atMost(1, "v2")
		finished(a)
	}
	if a.waitsForOwner(a.t.Context()) {
		a.asks(here.admin, patch(a.path(), change{spec: updated("RollingUpdate")}.body()))
	}
	a.until("v2 alone serves", a.runs(versions{"v2": 3}))
	a.until("the Rollout is Healthy", a.healthy)
	a.goesOn()
}

// heldStill wants what was aborted to be held as it was.
func heldStill(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.until("the Rollout is in charge again", a.inCharge)
	a.until("it is aborted", a.aborted)
	a.until("v1 alone serves", a.runs(versions{"v1": 3}))
	gated(a)
}

// isStable wants what was aborted to be held as it was, or, where the Rollout had begun
// to leave, to be given back with the stable template, as a DaemonSet is.
func isStable(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.until("the Rollout is in charge again", a.inCharge)
	a.until("it is aborted, or Healthy", func(ctx context.Context) error {
		if a.aborted(ctx) == nil {
			return nil
		}
		return a.healthy(ctx)
	})
	a.until("v1 alone serves", a.runs(versions{"v1": 3}))
	a.atMost(1, "v2")
	gated(a)
}
