// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// What somebody makes before a release, leaves behind of it, or keeps of it.
var leftoverCells = []cell{
	{who: batcher, what: ship, how: "makes a BatchRelease of the workload", scenario: scenario{kind: statefulSets, at: atStep1}, attack: createsBatchRelease, expect: gateHolds},
	{who: batcher, what: ship, how: "makes a BatchRelease of the workload at rest", scenario: scenario{kind: statefulSets}, attack: func(a *app, u *user) {
		createsBatchRelease(a, u)
		a.setVersion("v2")
		a.eventually("step 1 waits", a.waitsAtStep(1))
	}, expect: gateHolds},
	{who: batcher, what: blockAbort, how: "keeps the BatchRelease, and deletes it", scenario: scenario{at: atStep1}, attack: deletesWithFinalizer(batchPath), expect: isDenied},
	{who: editor, what: blockAbort, how: "keeps the canary Service and Ingress, and deletes them", scenario: scenario{withTraffic: true, at: atStep1},
		attack: deletesWithFinalizer(ingressPath, servicePath), expect: abortEndsWithKeptObjects},
	{who: editor, what: destroy, how: "deletes the Rollout and leaves behind what it made", scenario: scenario{withTraffic: true, at: atStep1}, attack: func(a *app, u *user) {
		a.attackWith(u, request{method: http.MethodDelete, path: a.api(), body: `{"propagationPolicy":"Orphan"}`})
		a.attackWith(u, request{method: http.MethodDelete, path: api(a.namespace), body: `{"propagationPolicy":"Orphan"}`})
	}, expect: isDenied},
	{who: editor, what: blockAbort, how: "deletes the Rollout first", scenario: scenario{withTraffic: true, at: atStep1}, attack: func(a *app, u *user) {
		m := a.userWithRole(manager)
		a.attackWith(u, request{method: http.MethodDelete, path: a.api(), body: `{}`})
		a.attackWith(m, post(a.api()+"/abort", ""))
	}, expect: abortsDuringDeletion},
	{who: patcher, what: ship, how: "resumes another version for a Rollout that is made again after an abort", admission: true, scenario: scenario{at: aborted},
		attack: recreatesRolloutAndResumes, expect: holdsWhilePaused},
	{who: status, what: forge, how: "says in other letters what only Weir says", scenario: scenario{at: atStep1}, attack: func(a *app, u *user) {
		for _, of := range words("protected", "PROTECTED", "admissionbypassed", "Pr\u043etected", "stalled", "STALLED", "St\u0430lled", "Stalled\u200b", "\u2800") {
			a.attackWith(u, patch(a.api()+"/status", encode(object{"status": object{"conditions": []object{{"type": of, "status": "False", "reason": "Forged"}}}})))
		}
	}, expect: isDenied},
}

func batchPath(a *app) string { return strings.Replace(a.api(), "/rollouts/", "/batchreleases/", 1) }

func servicePath(a *app) string {
	return "/api/v1/namespaces/" + a.namespace + "/services/" + name + "-canary"
}

func ingressPath(a *app) string {
	return "/apis/networking.k8s.io/v1/namespaces/" + a.namespace + "/ingresses/" + name + "-canary"
}

// createsBatchRelease drives the workload of somebody's Rollout to the end, and has another
// Rollout own what does.
func createsBatchRelease(a *app, u *user) {
	a.t.Helper()
	r, err := a.getRollout(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	path := batchPath(a)
	path = path[:strings.LastIndex(path, "/")]
	a.attackWith(u, post(path, encode(object{
		"apiVersion": group + "/v1beta1", "kind": "BatchRelease", "metadata": object{"name": "mine"},
		"spec": object{
			"workloadRef": object{"apiVersion": "apps/v1", "kind": a.scene.kind, "name": a.name},
			"releasePlan": object{"batches": []object{{"canaryReplicas": "100%"}}, "batchPartition": 0},
		},
	})))
	for _, kind := range words("Rollout", "rollout") {
		owner := object{"apiVersion": group + "/v1beta1", "kind": kind, "name": a.name, "uid": r.UID, "controller": true}
		a.attackWith(u, patch(path+"/mine", encode(object{"metadata": object{"ownerReferences": []object{owner}}})))
	}
}

// deletesWithFinalizer puts a finalizer on objects and deletes them.
func deletesWithFinalizer(paths ...func(*app) string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		for _, path := range paths {
			a.attackWith(u, patch(path(a), `{"metadata":{"finalizers":["example.com/keep"]}}`))
			a.attackWith(u, request{method: http.MethodDelete, path: path(a), body: `{}`})
		}
	}
}

// abortEndsWithKeptObjects wants an abort, and what follows it, to end all the same.
func abortEndsWithKeptObjects(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK, http.StatusAccepted)
	a.verb(a.userWithRole(manager), "abort", "")
	a.checkAbortEnds()
	a.verb(a.userWithRole(manager), "rollback", "")
	a.eventually("the Rollout is Healthy", a.isHealthy)
	for _, path := range []func(*app) string{batchPath, ingressPath, servicePath} {
		testEnv.admin.send(a.t.Context(), patch(path(a), `{"metadata":{"finalizers":null}}`)) //nolint:errcheck // most of them are gone
	}
	a.checkNextRelease()
}

// recreatesRolloutAndResumes has the Rollout of an aborted release made again, which finds its workload
// stopped, and resumes that with a version that nobody has approved.
func recreatesRolloutAndResumes(a *app, u *user) {
	a.t.Helper()
	a.mustSend(testEnv.admin, request{method: http.MethodDelete, path: a.api(), body: `{}`})
	a.eventually("the Rollout is gone", a.rolloutIsGone)
	a.create(a.rollout())
	a.eventually("its release is paused", a.hasProgressingReason("Paused"))
	a.attackWith(u, patch(a.path(), change{version: "v3", spec: object{"paused": false}}.body()))
	a.attackWith(u, patch(a.path(), `{"spec":{"paused":false}}`))
}

// holdsWhilePaused wants nothing to move until somebody resumes the release by its verb.
func holdsWhilePaused(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.checkNoLateHold()
	a.eventually("v1 serves", a.runs(versions{"v1": 3}))
	a.atMost(0, "v3")
	a.verb(a.userWithRole(manager), "resume", "")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.atMost(1, "v3")
	a.checkNextRelease()
}

// rolloutIsGone wants the Rollout to be gone.
func (a *app) rolloutIsGone(ctx context.Context) error {
	if _, err := a.getRollout(ctx); !apierrors.IsNotFound(err) {
		return fmt.Errorf("it is there: %w", err)
	}
	return nil
}

// abortsDuringDeletion wants an abort to be heard while the Rollout goes: what it says is so.
func abortsDuringDeletion(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK, http.StatusCreated, http.StatusConflict, http.StatusNotFound)
	if got := a.answers[1]; got.code != http.StatusCreated {
		return // it was too late, and said so
	}
	a.eventually("the Rollout is gone", a.rolloutIsGone)
	a.eventually("v1 serves", a.runs(versions{"v1": 3}))
	a.atMost(1, "v2")
}
