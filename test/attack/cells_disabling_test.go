// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

var disablingCells = []cell{
	{who: editor, what: forge, how: "loses its routers while it is being disabled", on: scene{routed: true, at: midway},
		do: whileDisabling(`{"spec":{"strategy":{"canary":{"trafficRoutings":null}}}}`), expect: nothingLeft},
	{who: editor, what: forge, how: "loses its workload while it is being disabled", on: scene{routed: true, at: midway},
		do: whileDisabling(`{"spec":{"workloadRef":{"name":"other"}}}`), expect: nothingLeft},
	{who: editor, what: forge, how: "loses its routers as it is disabled", on: scene{routed: true, at: midway},
		do: func(a *app, u *user) {
			a.tries(u, patch(a.api(), `{"spec":{"disabled":true,"strategy":{"canary":{"trafficRoutings":null}}}}`))
			a.edits(`{"spec":{"disabled":true}}`)
		}, expect: nothingLeft},
	{who: editor, what: forge, how: "loses its strategy while it is being disabled", on: scene{routed: true, at: midway},
		do: whileDisabling(`{"spec":{"strategy":{"canary":null,"blueGreen":{"steps":[{"replicas":"50%"},{"replicas":"100%"}]}}}}`), expect: nothingLeft},
}

// whileDisabling edits the Rollout while the release is being given back, which takes
// as long as the grace period of its routers.
func whileDisabling(body string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		a.edits(`{"spec":{"disabled":true}}`)
		a.until("it is being disabled", func(ctx context.Context) error {
			r, err := a.stored(ctx)
			if err == nil && r.Status.Phase != v1beta1.PhaseDisabling && r.Status.Phase != v1beta1.PhaseDisabled {
				err = errors.New("it is " + describe(r))
			}
			return err
		})
		a.tries(u, patch(a.api(), body))
	}
}

// nothingLeft wants the release to be given back in full.
func nothingLeft(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK, http.StatusUnprocessableEntity, http.StatusConflict, http.StatusForbidden)
	a.until("it is disabled", a.phase(v1beta1.PhaseDisabled))
	a.until("nothing is left beside it", a.tidy)
	a.until("nothing is left on the Deployment", func(ctx context.Context) error {
		o, _, err := a.live(ctx)
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
	a.until("the native controller ends it", a.runs(versions{"v2": 3}))
}

var recreatedCells = []cell{
	{who: editor, what: forge, how: "makes the Deployment again, another one", on: scene{at: midway}, do: remakes(deployments, false), expect: another(false)},
	{who: editor, what: forge, how: "makes the Deployment again while it is aborted", on: scene{at: midway}, do: remakes(deployments, true), expect: another(true)},
	{who: editor, what: forge, how: "makes the routed Deployment again, another one", on: scene{at: midway, routed: true}, do: remakes(deployments, false), expect: another(false)},
	{who: editor, what: forge, how: "makes the StatefulSet again, another one", on: scene{kind: statefulSets, at: midway}, do: remakes(statefulSets, false), expect: another(false)},
	{who: editor, what: forge, how: "makes the StatefulSet again while it is aborted", on: scene{kind: statefulSets, at: midway}, do: remakes(statefulSets, true), expect: another(true)},
	{who: editor, what: forge, how: "makes the DaemonSet again, another one", on: scene{kind: daemonSets, at: midway}, do: remakes(daemonSets, false), expect: another(false)},
}

// remakes deletes the workload and makes one of the same name and another template,
// as fast as one can.
func remakes(kind string, aborting bool) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		if aborting {
			a.verb(here.admin, "abort", "")
		}
		o := a.workload("v3")
		o.GetObjectKind().SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind(kind))
		body := strings.Replace(encode(o), `"apiVersion":"meta.k8s.io/v1"`, `"apiVersion":"apps/v1"`, 1)
		body = strings.Replace(body, `"apiVersion":"v1"`, `"apiVersion":"apps/v1"`, 1)
		a.asks(u, request{method: http.MethodDelete, path: a.path(), body: `{"propagationPolicy":"Background"}`})
		a.until("it is made again", func(ctx context.Context) error {
			got, err := u.send(ctx, post(strings.TrimSuffix(a.path(), "/"+a.name), body))
			if err == nil && got.code != http.StatusCreated {
				err = errors.New(got.String())
			}
			return err
		})
	}
}

// another wants the release to be over, what is on record of it to be true, and the
// new workload to be released like any other.
func another(wasAborted bool) func(*app) {
	return func(a *app) {
		a.t.Helper()
		a.until("the release is over", func(ctx context.Context) error {
			r, err := a.stored(ctx)
			if err == nil && (r.Status.Phase == v1beta1.PhaseProgressing && reason(r) != "Aborted") {
				if err = a.waitsAt(1)(ctx); err == nil { // it may be held as what it is, another version
					err = a.runs(versions{"v1": 2, "v3": 1})(ctx)
				}
			}
			return err
		})
		a.until("pods of the new one serve", func(ctx context.Context) error {
			pods, err := a.pods(ctx)
			if err == nil && (pods["v3"] == 0 || pods["v2"] > 0) {
				err = fmt.Errorf("runs %v", pods)
			}
			return err
		})
		a.until("its end is on file", func(ctx context.Context) error {
			lines, err := a.history(ctx)
			if err == nil && (len(lines) == 0 || lines[0] == "1 ") {
				err = fmt.Errorf("on file is %q", lines)
			}
			return err
		})
		r, err := a.stored(a.t.Context())
		lines, hErr := a.history(a.t.Context())
		if err := errors.Join(client.IgnoreNotFound(err), hErr); err != nil && !apierrors.IsNotFound(err) {
			a.t.Fatal(err)
		}
		untrue := slices.ContainsFunc(lines, func(line string) bool {
			return line == "1 succeeded" || line == "1 cancelled" || line == "2 cancelled"
		})
		if untrue || strings.Contains(r.Status.Message, "cancel") {
			a.t.Errorf("v3 runs, and on record is %q, %q", r.Status.Message, lines)
		}
		if wasAborted && !strings.Contains(strings.Join(a.facts().rollout, "\n"), "abort") && lines[0] == "1 superseded" {
			a.t.Errorf("the release was aborted, and on record is %q", lines)
		}
		a.goesOn()
	}
}
