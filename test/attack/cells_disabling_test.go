// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

var disablingCells = []cell{
	{who: editor, what: forge, how: "removes the routers while the Rollout is being disabled", scenario: scenario{withTraffic: true, at: atStep1},
		attack: whileDisabling(`{"spec":{"strategy":{"canary":{"trafficRoutings":null}}}}`), expect: restoredCompletely},
	{who: editor, what: forge, how: "removes the workload while the Rollout is being disabled", scenario: scenario{withTraffic: true, at: atStep1},
		attack: whileDisabling(`{"spec":{"workloadRef":{"name":"other"}}}`), expect: restoredCompletely},
	{who: editor, what: forge, how: "removes the routers and disables the Rollout", scenario: scenario{withTraffic: true, at: atStep1},
		attack: func(a *app, u *user) {
			a.attackWith(u, patch(a.api(), `{"spec":{"disabled":true,"strategy":{"canary":{"trafficRoutings":null}}}}`))
			a.patchRollout(`{"spec":{"disabled":true}}`)
		}, expect: restoredCompletely},
	{who: editor, what: forge, how: "removes the strategy while the Rollout is being disabled", scenario: scenario{withTraffic: true, at: atStep1},
		attack: whileDisabling(`{"spec":{"strategy":{"canary":null,"blueGreen":{"steps":[{"replicas":"50%"},{"replicas":"100%"}]}}}}`), expect: restoredCompletely},
}

// whileDisabling edits the Rollout while its release is being undone, which takes as long as the
// grace period of its routers.
func whileDisabling(body string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		a.patchRollout(`{"spec":{"disabled":true}}`)
		a.eventually("the Rollout is being disabled", func(ctx context.Context) error {
			r, err := a.getRollout(ctx)
			if err == nil && r.Status.Phase != v1beta1.PhaseDisabling && r.Status.Phase != v1beta1.PhaseDisabled {
				err = errors.New("the Rollout is " + describe(r))
			}
			return err
		})
		a.attackWith(u, patch(a.api(), body))
	}
}

// restoredCompletely expects that the workload is completely restored.
func restoredCompletely(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK, http.StatusUnprocessableEntity, http.StatusConflict, http.StatusForbidden)
	a.eventually("the Rollout is disabled", a.isInPhase(v1beta1.PhaseDisabled))
	a.eventually("no objects of the release are left", a.hasNoReleaseObjects)
	a.eventually("nothing is left on the Deployment", func(ctx context.Context) error {
		o, _, err := a.liveWorkload(ctx)
		if err != nil {
			return err
		}
		for key := range o.GetAnnotations() {
			if strings.Contains(key, "kruise.io") {
				return fmt.Errorf("annotation %s is left", key)
			}
		}
		return nil
	})
	a.eventually("the native controller completes the release", a.runs(versions{"v2": 3}))
}

var recreatedCells = []cell{
	{who: editor, what: forge, how: "recreates the Deployment with another template", scenario: scenario{at: atStep1}, attack: recreatesWorkload("v3", false, false), expect: releasesRecreated("v3")},
	{who: editor, what: forge, how: "recreates the Deployment with the stable template", scenario: scenario{at: atStep1}, attack: recreatesWorkload("v1", false, false), expect: releasesRecreated("v1")},
	{who: editor, what: forge, how: "recreates the Deployment with its records", scenario: scenario{at: atStep1}, attack: recreatesWorkload("v3", false, true), expect: releasesRecreated("v3")},
	{who: editor, what: forge, how: "recreates the Deployment while it is aborted", scenario: scenario{at: atStep1}, attack: recreatesWorkload("v3", true, false), expect: releasesRecreated("v3")},
	{who: editor, what: forge, how: "recreates the Deployment with its records while it is aborted", scenario: scenario{at: atStep1}, attack: recreatesWorkload("v3", true, true), expect: releasesRecreated("v3")},
	{who: editor, what: forge, how: "recreates the routed Deployment with another template", scenario: scenario{at: atStep1, withTraffic: true}, attack: recreatesWorkload("v3", false, false), expect: releasesRecreated("v3")},
	{who: editor, what: forge, how: "recreates the StatefulSet with another template", scenario: scenario{kind: statefulSets, at: atStep1}, attack: recreatesWorkload("v3", false, false), expect: releasesRecreated("v3")},
	{who: editor, what: forge, how: "recreates the StatefulSet while it is aborted", scenario: scenario{kind: statefulSets, at: atStep1}, attack: recreatesWorkload("v3", true, false), expect: releasesRecreated("v3")},
	{who: editor, what: forge, how: "recreates the DaemonSet with another template", scenario: scenario{kind: daemonSets, at: atStep1}, attack: recreatesWorkload("v3", false, false), expect: releasesRecreated("v3")},
}

// recreatesWorkload deletes the workload and immediately creates another one with the same name and
// another template: a new object, or the previous one with its annotations, as kubectl replace
// --force does.
func recreatesWorkload(version string, aborting, withMarks bool) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		if aborting {
			a.verb(testEnv.admin, "abort", "")
		}
		fields := object{}
		if err := json.Unmarshal([]byte(a.mustSend(u, get(a.path())).body), &fields); err != nil {
			a.t.Fatal(err)
		}
		made := fields["metadata"].(object)
		meta := object{"name": a.name, "labels": a.labels()}
		if withMarks {
			meta["labels"], meta["annotations"] = made["labels"], made["annotations"]
		} else {
			fields = object{"apiVersion": fields["apiVersion"], "kind": a.scene.kind}
			fields["spec"] = specOf(a.workload(version))
		}
		fields["metadata"] = meta
		delete(fields, "status")
		body := strings.ReplaceAll(encode(fields), image("v2"), image(version))
		a.mustSend(u, request{method: http.MethodDelete, path: a.path(), body: `{"propagationPolicy":"Background"}`})
		a.eventually("the workload is recreated", func(ctx context.Context) error {
			got, err := u.send(ctx, post(strings.TrimSuffix(a.path(), "/"+a.name), body))
			if err == nil && got.code != http.StatusCreated {
				err = errors.New(got.String())
			}
			return err
		})
	}
}

func specOf(o client.Object) any {
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		return o.Spec
	case *appsv1.DaemonSet:
		return o.Spec
	case *appsv1.Deployment:
		return o.Spec
	}
	return nil
}

// releasesRecreated expects that the first release has ended with a correct history, and that the
// new workload is released like any other.
func releasesRecreated(version string) func(*app) {
	return func(a *app) {
		a.t.Helper()
		a.eventually("the first release has ended and has a history", func(ctx context.Context) error {
			lines, err := a.history(ctx)
			if err == nil && (len(lines) == 0 || lines[0] == "1 " || lines[0] == "1 aborted" && a.isAborted(ctx) == nil) {
				err = fmt.Errorf("histories are %q", lines)
			}
			return err
		})
		a.eventually("the new workload serves, or is held as another version", func(ctx context.Context) error {
			pods, err := a.pods(ctx)
			if err == nil && (pods[version] == 0 || pods["v2"] > 0) {
				err = fmt.Errorf("runs %v", pods)
			}
			return errors.Join(err, a.isIdle(ctx), a.nextTemplateIsHeld(ctx))
		})
		r, err := a.getRollout(a.t.Context())
		lines, hErr := a.history(a.t.Context())
		if err := errors.Join(err, hErr); err != nil {
			a.t.Fatal(err)
		}
		untrue := slices.ContainsFunc(lines, func(line string) bool {
			return line == "1 succeeded" || line == "1 disabled" || strings.HasSuffix(line, " cancelled") && version != "v1"
		})
		if untrue || strings.Contains(r.Status.Message, "cancel") && version != "v1" {
			a.t.Errorf("the workload of the first release was deleted, but its history is %q, %q", r.Status.Message, lines)
		}
		a.checkNextRelease()
	}
}

// nextTemplateIsHeld returns an error if the next template would not be held yet.
func (a *app) nextTemplateIsHeld(ctx context.Context) error {
	r, err := a.getRollout(ctx)
	if err == nil && r.Status.Phase == v1beta1.PhaseInitial {
		err = errors.New(describe(r))
	}
	return err
}
