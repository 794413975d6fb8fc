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

// deletionCells delete objects that a release needs while its step is paused.
var deletionCells = []cell{
	{who: batcher, what: ship, how: "deletes the BatchRelease with each propagation policy", scenario: scenario{at: atStep1}, attack: deletesBatch, expect: isDenied},
	{who: batcher, what: ship, how: "deletes the BatchRelease of a StatefulSet with each propagation policy", long: true, scenario: scenario{kind: statefulSets, at: atStep1}, attack: deletesBatch, expect: isDenied},
	{who: batcher, what: ship, how: "deletes the BatchRelease of a canary release with each propagation policy", long: true, scenario: scenario{canary: true, at: atStep1}, attack: deletesBatch, expect: isDenied},
	{who: driver, what: ship, how: "deletes the BatchRelease and its finalizer", scenario: scenario{at: atStep1}, attack: deletesBatchAndFinalizer, expect: batchIsRecreated},
	{who: driver, what: ship, how: "deletes the BatchRelease of a StatefulSet and its finalizer", long: true, scenario: scenario{kind: statefulSets, at: atStep1}, attack: deletesBatchAndFinalizer, expect: batchIsRecreated},
	{who: driver, what: ship, how: "deletes the BatchRelease of a DaemonSet and its finalizer", long: true, scenario: scenario{kind: daemonSets, at: atStep1}, attack: deletesBatchAndFinalizer, expect: batchIsRecreated},
	{who: driver, what: ship, how: "deletes the BatchRelease of a canary release and its finalizer", long: true, scenario: scenario{canary: true, at: atStep1}, attack: deletesBatchAndFinalizer, expect: batchIsRecreated},
	{who: driver, what: ship, how: "deletes the BatchRelease of a blue-green release and its finalizer", long: true, scenario: scenario{blueGreen: true, at: atStep1}, attack: deletesBatchAndFinalizer, expect: batchIsRecreated},
	{who: editor, what: destroy, how: "deletes the Deployment of a canary release and orphans its ReplicaSets", scenario: scenario{canary: true, at: atStep1}, attack: orphansReplicaSets, expect: stableKeepsServing},
	{who: editor, what: destroy, how: "deletes the routed Deployment of a canary release and orphans its ReplicaSets", long: true, scenario: scenario{canary: true, withTraffic: true, at: atStep1},
		attack: orphansReplicaSets, expect: stableKeepsServing},
	{who: manager, what: blockAbort, how: "every verb after the workload was deleted", scenario: scenario{at: atStep1}, attack: deletesWorkload(""), expect: verbsReportDeletion},
	{who: manager, what: blockAbort, how: "every verb after the routed workload was deleted", long: true, scenario: scenario{withTraffic: true, at: atStep1}, attack: deletesWorkload(""), expect: verbsReportDeletion},
	{who: manager, what: blockAbort, how: "every verb after the workload was deleted and kept by a finalizer", long: true, scenario: scenario{at: atStep1}, attack: deletesWorkload("example.com/keep"), expect: verbsReportDeletion},
	{who: manager, what: blockAbort, how: "every verb after the StatefulSet was deleted", long: true, scenario: scenario{kind: statefulSets, at: atStep1}, attack: deletesWorkload(""), expect: verbsReportDeletion},
}

// deletion is a delete request with a propagation policy.
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

// deletesBatchAndFinalizer is for users who may drive releases. It waits until the BatchRelease is
// recreated.
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
	a.eventually("the BatchRelease is recreated", func(ctx context.Context) error {
		now, err := uid(ctx)
		if err == nil && now == was {
			err = errors.New("the BatchRelease still exists")
		}
		return err
	})
}

// batchIsRecreated expects that the step is paused with the pods that it had.
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

// servingPods returns the names of the pods of a version.
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

// stableKeepsServing expects that the stable pods serve all the time and that the objects of the
// release are deleted, or that the deletion is refused.
func stableKeepsServing(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK, http.StatusConflict)
	if a.answers[0].code == http.StatusConflict {
		a.checkUnchanged()
		a.checkNextRelease()
		return
	}
	a.eventually("the history of the release has ended", a.endedAsDeleted)
	a.eventually("v1 alone serves", a.runs(versions{"v1": 3}))
	a.create(a.workload("v1"))
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("v1 still serves", a.runs(versions{"v1": 3}))
	if diff := cmp.Diff(a.podsBefore, a.servingPods("v1")); diff != "" {
		a.t.Errorf("stable pods were replaced (-before +now):\n%s", diff)
	}
	a.checkNextRelease()
}

// endedAsDeleted returns an error unless the first release has ended with a deleted workload.
func (a *app) endedAsDeleted(ctx context.Context) error {
	lines, err := a.history(ctx)
	if err == nil && !slices.Contains(lines, "1 deleted") {
		err = fmt.Errorf("histories are %q", lines)
	}
	return err
}

// deletesWorkload deletes the workload, which a finalizer may keep, and tries every verb.
func deletesWorkload(finalizer string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		if finalizer != "" {
			a.mustSend(testEnv.admin, patch(a.path(), encode(object{"metadata": object{"finalizers": []string{finalizer}}})))
		}
		a.mustSend(testEnv.admin, deletion(a.path(), "Background"))
		a.eventually("the Rollout reports the missing workload", func(ctx context.Context) error {
			r, err := a.getRollout(ctx)
			if err == nil && !strings.HasPrefix(r.Status.Message, notFound) {
				err = errors.New("the Rollout is " + describe(r))
			}
			return err
		})
		everyVerbBut()(a, u)
	}
}

const notFound = "Workload Not Found"

// verbsReportDeletion expects that verbs report why they have no effect, and that a new workload
// can be released.
func verbsReportDeletion(a *app) {
	a.t.Helper()
	a.answered(http.StatusConflict)
	a.eventually("the history of the release has ended", a.endedAsDeleted)
	if _, _, err := a.liveWorkload(a.t.Context()); err == nil {
		a.mustSend(testEnv.admin, patch(a.path(), `{"metadata":{"finalizers":null}}`))
	}
	a.eventually("there are no pods", a.runs(versions{}))
	a.create(a.workload("v1"))
	a.eventually("v1 serves", a.runs(versions{"v1": 3}))
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.checkNextRelease()
}
