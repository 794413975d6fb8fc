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

// collisionCells set a template with another image whose short hash is equal to that of the
// released or stable template. Such a template can be computed in a second.
var collisionCells = []cell{
	{who: patcher, what: ship, how: "sets a template with the hash of the released one", admission: true, scenario: scenario{at: atStep1}, attack: setsCollidingTemplate("v2"), expect: collidingTemplateIsHeld},
	{who: patcher, what: ship, how: "sets a template with the hash of the released one, canary style", admission: true, scenario: scenario{canary: true, withTraffic: true, at: atStep1}, attack: setsCollidingTemplate("v2"), expect: collidingTemplateIsHeld},
	{who: patcher, what: ship, how: "sets a template with the hash of the released one, blue-green style", scenario: scenario{blueGreen: true, at: atStep1}, attack: setsCollidingTemplate("v2"), expect: collidingTemplateIsRefused},
	{who: patcher, what: ship, how: "sets a template with the hash of the released one, a StatefulSet", scenario: scenario{kind: statefulSets, at: atStep1}, attack: setsCollidingTemplate("v2"), expect: collidingTemplateIsHeld},
	{who: patcher, what: ship, how: "sets a template with the hash of the released one, a DaemonSet", long: true, scenario: scenario{kind: daemonSets, at: atStep1}, attack: setsCollidingTemplate("v2"), expect: collidingTemplateIsHeld},
	{who: patcher, what: ship, how: "sets a template with the hash of the stable one", admission: true, scenario: scenario{}, attack: setsCollidingTemplate("v1"), expect: collidingTemplateIsHeld},
	{who: patcher, what: ship, how: "sets a template with the hash of the stable one, canary style", scenario: scenario{canary: true, withTraffic: true}, attack: setsCollidingTemplate("v1"), expect: collidingTemplateIsHeld},
	{who: patcher, what: undoAbort, how: "sets a template with the hash of the aborted one", scenario: scenario{at: aborted}, attack: setsCollidingTemplate("v2"), expect: collidingTemplateIsHeld},
}

// setsCollidingTemplate sets a template of v3 with the short hash of the template of another
// version. Then a user who had read the release before promotes it.
func setsCollidingTemplate(of string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		_, template, err := a.liveWorkload(a.t.Context())
		if err != nil {
			a.t.Fatal(err)
		}
		tagged := func(version string) *corev1.PodTemplateSpec {
			t := template.DeepCopy()
			t.Spec.Containers[0].Image = image(version)
			return t
		}
		twin := collision.Of(tagged(of), tagged("v3"))
		before, err := a.getRollout(a.t.Context())
		if err != nil {
			a.t.Fatal(err)
		}
		a.attackWith(u, patch(a.path(), change{version: "v3", template: object{"metadata": object{"annotations": twin.Annotations}}}.body()))
		a.eventually("the template waits at step 1, or is refused", func(ctx context.Context) error {
			r, err := a.getRollout(ctx)
			switch {
			case err != nil:
				return err
			case strings.Contains(r.Status.Message, "please rollback first"):
				return nil
			case digestOf(r) == digestOf(before):
				return errors.New("the release still belongs to the previous template: " + describe(r))
			}
			return a.waitsAtStep(1)(ctx)
		})
		a.attackWith(testEnv.admin, post(a.api()+"/promote", encode(object{"expect": object{"updateTemplate": digestOf(before)}})))
	}
}

// digestOf returns the digest of the template that is released, or was released last.
func digestOf(r *v1beta1.Rollout) string {
	switch s := r.Status; {
	case s.Canary != nil:
		return s.Canary.UpdateTemplate
	case s.BlueGreen != nil:
		return s.BlueGreen.UpdateTemplate
	}
	return ""
}

// collidingTemplateIsHeld expects a separate release of the colliding template, which has no
// approval.
func collidingTemplateIsHeld(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK, http.StatusConflict)
	if got := a.answers[1]; got.code != http.StatusConflict {
		a.t.Errorf("got %s; want 409, since that template is not released", got)
	}
	a.checkNoLateHold()
	a.atMost(1, "v3")
	a.checkNextRelease()
	a.atMost(1, "v3")
}

// collidingTemplateIsRefused expects no pod of the colliding template.
func collidingTemplateIsRefused(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK, http.StatusConflict)
	a.checkNoLateHold()
	a.atMost(0, "v3")
	a.verb(testEnv.admin, "rollback", "")
	a.eventually("v1 serves", a.runs(versions{"v1": 3}))
	a.atMost(0, "v3")
	a.checkNextRelease()
}
