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

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// What a release needs is deleted while its step waits.
var goneCells = []cell{
	{who: batcher, what: ship, how: "deletes the BatchRelease, by each way", on: scene{at: midway}, do: deletesBatch, expect: denied},
	{who: batcher, what: ship, how: "deletes the BatchRelease of a StatefulSet, by each way", long: true, on: scene{kind: statefulSets, at: midway}, do: deletesBatch, expect: denied},
	{who: batcher, what: ship, how: "deletes the BatchRelease of an extra Deployment, by each way", long: true, on: scene{beside: true, at: midway}, do: deletesBatch, expect: denied},
	{who: driver, what: ship, how: "deletes the BatchRelease and its finalizer", on: scene{at: midway}, do: losesBatch, expect: madeAgain},
	{who: driver, what: ship, how: "deletes the BatchRelease of a StatefulSet and its finalizer", long: true, on: scene{kind: statefulSets, at: midway}, do: losesBatch, expect: madeAgain},
	{who: driver, what: ship, how: "deletes the BatchRelease of a DaemonSet and its finalizer", long: true, on: scene{kind: daemonSets, at: midway}, do: losesBatch, expect: madeAgain},
	{who: driver, what: ship, how: "deletes the BatchRelease of an extra Deployment and its finalizer", long: true, on: scene{beside: true, at: midway}, do: losesBatch, expect: madeAgain},
	{who: driver, what: ship, how: "deletes the BatchRelease of a blue-green release and its finalizer", long: true, on: scene{green: true, at: midway}, do: losesBatch, expect: madeAgain},
	{who: editor, what: destroy, how: "deletes the Deployment beside an extra one, and leaves its sets", on: scene{beside: true, at: midway}, do: leavesSets, expect: setsLeft},
	{who: editor, what: destroy, how: "deletes the routed Deployment beside an extra one, and leaves its sets", long: true, on: scene{beside: true, routed: true, at: midway},
		do: leavesSets, expect: setsLeft},
	{who: manager, what: blockAbort, how: "every verb of a workload that is gone", on: scene{at: midway}, do: losesWorkload(""), expect: saysGone},
	{who: manager, what: blockAbort, how: "every verb of a routed workload that is gone", long: true, on: scene{routed: true, at: midway}, do: losesWorkload(""), expect: saysGone},
	{who: manager, what: blockAbort, how: "every verb of a workload that is gone and kept", long: true, on: scene{at: midway}, do: losesWorkload("example.com/keep"), expect: saysGone},
	{who: manager, what: blockAbort, how: "every verb of a StatefulSet that is gone", long: true, on: scene{kind: statefulSets, at: midway}, do: losesWorkload(""), expect: saysGone},
}

// deletion says what becomes of what belongs to an object.
func deletion(path, policy string) request {
	return request{method: http.MethodDelete, path: path, body: encode(object{"propagationPolicy": policy})}
}

func deletesBatch(a *app, u *user) {
	a.t.Helper()
	path := batchPath(a)
	all := path[:len(path)-len(a.name)-1]
	a.tries(u, patch(path, `{"metadata":{"finalizers":null}}`))
	for _, policy := range words("Background", "Foreground", "Orphan") {
		a.tries(u, deletion(path, policy))
		a.tries(u, deletion(all, policy))
	}
}

// losesBatch is for somebody who may drive releases, and waits until another one is there.
func losesBatch(a *app, u *user) {
	a.t.Helper()
	uid := func(ctx context.Context) (types.UID, error) {
		b := &v1beta1.BatchRelease{}
		err := here.client.Get(ctx, a.key(a.name), b)
		return b.UID, err
	}
	was, err := uid(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	a.tries(u, deletion(batchPath(a), "Background"))
	a.tries(u, patch(batchPath(a), `{"metadata":{"finalizers":null}}`))
	a.until("it is made again", func(ctx context.Context) error {
		now, err := uid(ctx)
		if err == nil && now == was {
			err = errors.New("it is there still")
		}
		return err
	})
}

// madeAgain wants the step to wait with the pods that it had.
func madeAgain(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK, http.StatusNotFound)
	a.until("step 1 waits", a.waitsAt(1))
	runs := versions{"v1": 2, "v2": 1}
	if a.scene.beside || a.scene.green {
		runs["v1"] = 3
	}
	a.until("the step has its pods", a.runs(runs))
	a.atMost(1, "v2")
	finished(a)
	a.goesOn()
}

// serving are the pods of a version by name.
func (a *app) serving(version string) []string {
	a.t.Helper()
	var list corev1.PodList
	if err := here.client.List(a.t.Context(), &list, client.InNamespace(a.namespace), client.MatchingLabels(a.labels())); err != nil {
		a.t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		if p := &list.Items[i]; versionOf(a.scene.kind, p.ObjectMeta, p.Spec) == version && p.DeletionTimestamp == nil {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

func leavesSets(a *app, u *user) {
	a.t.Helper()
	a.was = a.serving("v1")
	a.tries(u, deletion(a.path(), "Orphan"))
}

// setsLeft wants the stable pods to serve all the time, and what was made beside them to
// go; or the deletion to be refused.
func setsLeft(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK, http.StatusConflict)
	if a.answers[0].code == http.StatusConflict {
		a.same()
		a.goesOn()
		return
	}
	a.until("the release is on file as ended", a.ended)
	a.until("v1 alone serves", a.runs(versions{"v1": 3}))
	a.create(a.workload("v1"))
	a.until("the Rollout is Healthy", a.healthy)
	a.until("v1 serves still", a.runs(versions{"v1": 3}))
	if diff := cmp.Diff(a.was, a.serving("v1")); diff != "" {
		a.t.Errorf("stable pods were replaced (-before +now):\n%s", diff)
	}
	a.goesOn()
}

// ended wants the first release to have ended as one whose workload was deleted.
func (a *app) ended(ctx context.Context) error {
	lines, err := a.history(ctx)
	if err == nil && !slices.Contains(lines, "1 deleted") {
		err = fmt.Errorf("on file is %q", lines)
	}
	return err
}

// losesWorkload deletes what is released, which a finalizer may keep, and tries every verb.
func losesWorkload(finalizer string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		if finalizer != "" {
			a.asks(here.admin, patch(a.path(), encode(object{"metadata": object{"finalizers": []string{finalizer}}})))
		}
		a.asks(here.admin, deletion(a.path(), "Background"))
		a.until("the Rollout says that it is gone", func(ctx context.Context) error {
			r, err := a.stored(ctx)
			if err == nil && !strings.HasPrefix(r.Status.Message, notFound) {
				err = errors.New("it is " + describe(r))
			}
			return err
		})
		everyVerbBut()(a, u)
	}
}

const notFound = "Workload Not Found"

// saysGone wants verbs to say why they do nothing, and another workload to be released.
func saysGone(a *app) {
	a.t.Helper()
	a.answered(http.StatusConflict)
	a.until("the release is on file as ended", a.ended)
	if _, _, err := a.live(a.t.Context()); err == nil {
		a.asks(here.admin, patch(a.path(), `{"metadata":{"finalizers":null}}`))
	}
	a.until("no pod is there", a.runs(versions{}))
	a.create(a.workload("v1"))
	a.until("v1 serves", a.runs(versions{"v1": 3}))
	a.until("the Rollout is Healthy", a.healthy)
	a.goesOn()
}
