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
var deletionCells = []cell{
	{who: batcher, what: ship, how: "deletes the BatchRelease, by each way", scenario: scenario{at: atStep1}, attack: deletesBatch, expect: isDenied},
	{who: batcher, what: ship, how: "deletes the BatchRelease of a StatefulSet, by each way", long: true, scenario: scenario{kind: statefulSets, at: atStep1}, attack: deletesBatch, expect: isDenied},
	{who: batcher, what: ship, how: "deletes the BatchRelease of an extra Deployment, by each way", long: true, scenario: scenario{canary: true, at: atStep1}, attack: deletesBatch, expect: isDenied},
	{who: driver, what: ship, how: "deletes the BatchRelease and its finalizer", scenario: scenario{at: atStep1}, attack: deletesBatchAndFinalizer, expect: batchIsRecreated},
	{who: driver, what: ship, how: "deletes the BatchRelease of a StatefulSet and its finalizer", long: true, scenario: scenario{kind: statefulSets, at: atStep1}, attack: deletesBatchAndFinalizer, expect: batchIsRecreated},
	{who: driver, what: ship, how: "deletes the BatchRelease of a DaemonSet and its finalizer", long: true, scenario: scenario{kind: daemonSets, at: atStep1}, attack: deletesBatchAndFinalizer, expect: batchIsRecreated},
	{who: driver, what: ship, how: "deletes the BatchRelease of an extra Deployment and its finalizer", long: true, scenario: scenario{canary: true, at: atStep1}, attack: deletesBatchAndFinalizer, expect: batchIsRecreated},
	{who: driver, what: ship, how: "deletes the BatchRelease of a blue-green release and its finalizer", long: true, scenario: scenario{blueGreen: true, at: atStep1}, attack: deletesBatchAndFinalizer, expect: batchIsRecreated},
	{who: editor, what: destroy, how: "deletes the Deployment beside an extra one, and leaves its sets", scenario: scenario{canary: true, at: atStep1}, attack: orphansReplicaSets, expect: stableKeepsServing},
	{who: editor, what: destroy, how: "deletes the routed Deployment beside an extra one, and leaves its sets", long: true, scenario: scenario{canary: true, withTraffic: true, at: atStep1},
		attack: orphansReplicaSets, expect: stableKeepsServing},
	{who: manager, what: blockAbort, how: "every verb of a workload that is gone", scenario: scenario{at: atStep1}, attack: deletesWorkload(""), expect: verbsReportDeletion},
	{who: manager, what: blockAbort, how: "every verb of a routed workload that is gone", long: true, scenario: scenario{withTraffic: true, at: atStep1}, attack: deletesWorkload(""), expect: verbsReportDeletion},
	{who: manager, what: blockAbort, how: "every verb of a workload that is gone and kept", long: true, scenario: scenario{at: atStep1}, attack: deletesWorkload("example.com/keep"), expect: verbsReportDeletion},
	{who: manager, what: blockAbort, how: "every verb of a StatefulSet that is gone", long: true, scenario: scenario{kind: statefulSets, at: atStep1}, attack: deletesWorkload(""), expect: verbsReportDeletion},
}

// deletion says what becomes of what belongs to an object.
func deletion(path, policy string) request {
	return request{method: http.MethodDelete, path: path, body: encode(object{"propagationPolicy": policy})}
}

func deletesBatch(a *app, u *user) {
	a.t.Helper()
	path := batchPath(a)
	all := path[:len(path)-len(a.name)-1]
	a.attackWith(u, patch(path, `{"metadata":{"finalizers":null}}`))
	for _, policy := range words("Background", "Foreground", "Orphan") {
		a.attackWith(u, deletion(path, policy))
		a.attackWith(u, deletion(all, policy))
	}
}

// deletesBatchAndFinalizer is for somebody who may drive releases, and waits until another one is there.
func deletesBatchAndFinalizer(a *app, u *user) {
	a.t.Helper()
	uid := func(ctx context.Context) (types.UID, error) {
		b := &v1beta1.BatchRelease{}
		err := testEnv.client.Get(ctx, a.key(a.name), b)
		return b.UID, err
	}
	was, err := uid(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	a.attackWith(u, deletion(batchPath(a), "Background"))
	a.attackWith(u, patch(batchPath(a), `{"metadata":{"finalizers":null}}`))
	a.eventually("it is made again", func(ctx context.Context) error {
		now, err := uid(ctx)
		if err == nil && now == was {
			err = errors.New("it is there still")
		}
		return err
	})
}

// batchIsRecreated wants the step to wait with the pods that it had.
func batchIsRecreated(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK, http.StatusNotFound)
	a.eventually("step 1 waits", a.waitsAtStep(1))
	runs := versions{"v1": 2, "v2": 1}
	if a.scene.canary || a.scene.blueGreen {
		runs["v1"] = 3
	}
	a.eventually("the step has its pods", a.runs(runs))
	a.atMost(1, "v2")
	releaseCompletes(a)
	a.checkNextRelease()
}

// servingPods are the pods of a version by name.
func (a *app) servingPods(version string) []string {
	a.t.Helper()
	var list corev1.PodList
	if err := testEnv.client.List(a.t.Context(), &list, client.InNamespace(a.namespace), client.MatchingLabels(a.labels())); err != nil {
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

func orphansReplicaSets(a *app, u *user) {
	a.t.Helper()
	a.podsBefore = a.servingPods("v1")
	a.attackWith(u, deletion(a.path(), "Orphan"))
}

// stableKeepsServing wants the stable pods to serve all the time, and what was made beside them to
// go; or the deletion to be refused.
func stableKeepsServing(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK, http.StatusConflict)
	if a.answers[0].code == http.StatusConflict {
		a.checkUnchanged()
		a.checkNextRelease()
		return
	}
	a.eventually("the release is on file as ended", a.endedAsDeleted)
	a.eventually("v1 alone serves", a.runs(versions{"v1": 3}))
	a.create(a.workload("v1"))
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("v1 serves still", a.runs(versions{"v1": 3}))
	if diff := cmp.Diff(a.podsBefore, a.servingPods("v1")); diff != "" {
		a.t.Errorf("stable pods were replaced (-before +now):\n%s", diff)
	}
	a.checkNextRelease()
}

// endedAsDeleted wants the first release to have ended as one whose workload was deleted.
func (a *app) endedAsDeleted(ctx context.Context) error {
	lines, err := a.history(ctx)
	if err == nil && !slices.Contains(lines, "1 deleted") {
		err = fmt.Errorf("on file is %q", lines)
	}
	return err
}

// deletesWorkload deletes what is released, which a finalizer may keep, and tries every verb.
func deletesWorkload(finalizer string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		if finalizer != "" {
			a.mustSend(testEnv.admin, patch(a.path(), encode(object{"metadata": object{"finalizers": []string{finalizer}}})))
		}
		a.mustSend(testEnv.admin, deletion(a.path(), "Background"))
		a.eventually("the Rollout says that it is gone", func(ctx context.Context) error {
			r, err := a.getRollout(ctx)
			if err == nil && !strings.HasPrefix(r.Status.Message, notFound) {
				err = errors.New("it is " + describe(r))
			}
			return err
		})
		everyVerbBut()(a, u)
	}
}

const notFound = "Workload Not Found"

// verbsReportDeletion wants verbs to say why they do nothing, and another workload to be released.
func verbsReportDeletion(a *app) {
	a.t.Helper()
	a.answered(http.StatusConflict)
	a.eventually("the release is on file as ended", a.endedAsDeleted)
	if _, _, err := a.liveWorkload(a.t.Context()); err == nil {
		a.mustSend(testEnv.admin, patch(a.path(), `{"metadata":{"finalizers":null}}`))
	}
	a.eventually("no pod is there", a.runs(versions{}))
	a.create(a.workload("v1"))
	a.eventually("v1 serves", a.runs(versions{"v1": 3}))
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.checkNextRelease()
}
