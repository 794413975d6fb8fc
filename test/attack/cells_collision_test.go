// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/weir-rollouts/weir/internal/collision"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// collisionCells set a template with another image and the short hash of the template that
// is released, or that serves. Anybody can compute one in a second.
var collisionCells = []cell{
	{who: patcher, what: ship, how: "sets a twin of the released template", doors: true, on: scene{at: midway}, do: setsTwin("v2"), expect: gatedTwin},
	{who: patcher, what: ship, how: "sets a twin of the released template, canary style", doors: true, on: scene{beside: true, routed: true, at: midway}, do: setsTwin("v2"), expect: gatedTwin},
	{who: patcher, what: ship, how: "sets a twin of the released template, blue-green style", on: scene{green: true, at: midway}, do: setsTwin("v2"), expect: refusedTwin},
	{who: patcher, what: ship, how: "sets a twin of the released template, a StatefulSet", on: scene{kind: statefulSets, at: midway}, do: setsTwin("v2"), expect: gatedTwin},
	{who: patcher, what: ship, how: "sets a twin of the released template, a DaemonSet", long: true, on: scene{kind: daemonSets, at: midway}, do: setsTwin("v2"), expect: gatedTwin},
	{who: patcher, what: ship, how: "sets a twin of the stable template", doors: true, on: scene{}, do: setsTwin("v1"), expect: gatedTwin},
	{who: patcher, what: ship, how: "sets a twin of the stable template, canary style", on: scene{beside: true, routed: true}, do: setsTwin("v1"), expect: gatedTwin},
	{who: patcher, what: undoAbort, how: "sets a twin of the aborted template", on: scene{at: aborted}, do: setsTwin("v2"), expect: gatedTwin},
}

// setsTwin sets a template of v3 with the short hash of the template of another version. Then
// somebody who had looked at the release before promotes what they saw.
func setsTwin(of string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		_, template, err := a.live(a.t.Context())
		if err != nil {
			a.t.Fatal(err)
		}
		tagged := func(version string) *corev1.PodTemplateSpec {
			t := template.DeepCopy()
			t.Spec.Containers[0].Image = image(version)
			return t
		}
		twin := collision.Of(tagged(of), tagged("v3"))
		before, err := a.stored(a.t.Context())
		if err != nil {
			a.t.Fatal(err)
		}
		a.tries(u, patch(a.path(), change{version: "v3", template: object{"metadata": object{"annotations": twin.Annotations}}}.body()))
		a.until("the twin waits at step 1, or is refused", func(ctx context.Context) error {
			r, err := a.stored(ctx)
			switch {
			case err != nil:
				return err
			case strings.Contains(r.Status.Message, "please rollback first"):
				return nil
			case digestOf(r) == digestOf(before):
				return errors.New("the release is bound to the template before: " + describe(r))
			}
			return a.waitsAt(1)(ctx)
		})
		a.tries(here.admin, post(a.api()+"/promote", encode(object{"expect": object{"updateTemplate": digestOf(before)}})))
	}
}

// digestOf is the digest of the template that is released, or was released last.
func digestOf(r *v1beta1.Rollout) string {
	switch s := r.Status; {
	case s.Canary != nil:
		return s.Canary.UpdateTemplate
	case s.BlueGreen != nil:
		return s.BlueGreen.UpdateTemplate
	}
	return ""
}

// gatedTwin wants the twin to be a release of its own, which nobody has approved.
func gatedTwin(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK, http.StatusConflict)
	if got := a.answers[1]; got.code != http.StatusConflict {
		a.t.Errorf("got %s; want 409, since that template is not released", got)
	}
	a.inTime()
	a.atMost(1, "v3")
	a.goesOn()
	a.atMost(1, "v3")
}

// refusedTwin wants no pod of it at all.
func refusedTwin(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK, http.StatusConflict)
	a.inTime()
	a.atMost(0, "v3")
	a.verb(here.admin, "rollback", "")
	a.until("v1 serves", a.runs(versions{"v1": 3}))
	a.atMost(0, "v3")
	a.goesOn()
}
