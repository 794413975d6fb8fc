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

// leftoverCells create objects before a release, or keep objects of an earlier one.
var leftoverCells = []cell{
	{who: batcher, what: ship, how: "creates a BatchRelease for the workload", scenario: scenario{kind: statefulSets, at: atStep1}, attack: createsBatchRelease, expect: gateHolds},
	{who: batcher, what: ship, how: "creates a BatchRelease for the workload without a release", scenario: scenario{kind: statefulSets}, attack: func(a *app, u *user) {
		createsBatchRelease(a, u)
		a.setVersion("v2")
		a.eventually("step 1 waits", a.waitsAtStep(1))
	}, expect: gateHolds},
	{who: batcher, what: blockAbort, how: "deletes the BatchRelease and keeps it with a finalizer", scenario: scenario{at: atStep1}, attack: deletesWithFinalizer(batchPath), expect: isDenied},
	{who: editor, what: blockAbort, how: "deletes the canary Service and Ingress and keeps them with finalizers", scenario: scenario{withTraffic: true, at: atStep1},
		attack: deletesWithFinalizer(ingressPath, servicePath), expect: abortEndsWithKeptObjects},
	{who: editor, what: destroy, how: "deletes the Rollout and orphans its objects", scenario: scenario{withTraffic: true, at: atStep1}, attack: func(a *app, u *user) {
		a.attackWith(u, request{method: http.MethodDelete, path: a.api(), body: `{"propagationPolicy":"Orphan"}`})
		a.attackWith(u, request{method: http.MethodDelete, path: api(a.namespace), body: `{"propagationPolicy":"Orphan"}`})
	}, expect: isDenied},
	{who: editor, what: blockAbort, how: "deletes the Rollout first", scenario: scenario{withTraffic: true, at: atStep1}, attack: func(a *app, u *user) {
		m := a.userWithRole(manager)
		a.attackWith(u, request{method: http.MethodDelete, path: a.api(), body: `{}`})
		a.attackWith(m, post(a.api()+"/abort", ""))
	}, expect: abortsDuringDeletion},
	{who: patcher, what: ship, how: "recreates the Rollout after an abort and resumes another version", admission: true, scenario: scenario{at: aborted},
		attack: recreatesRolloutAndResumes, expect: holdsWhilePaused},
	{who: status, what: forge, how: "writes Weir's annotations in another case", scenario: scenario{at: atStep1}, attack: func(a *app, u *user) {
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

// createsBatchRelease creates a BatchRelease that releases the workload completely, owned by
// another Rollout.
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

// abortEndsWithKeptObjects expects that an abort, and the steps after it, end nevertheless.
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

// recreatesRolloutAndResumes recreates the Rollout of an aborted release, whose workload is still
// paused, and unpauses the workload with a version that has no approval.
func recreatesRolloutAndResumes(a *app, u *user) {
	a.t.Helper()
	a.mustSend(testEnv.admin, request{method: http.MethodDelete, path: a.api(), body: `{}`})
	a.eventually("the Rollout is gone", a.rolloutIsGone)
	a.create(a.rollout())
	a.eventually("the release is paused", a.hasProgressingReason("Paused"))
	a.attackWith(u, patch(a.path(), change{version: "v3", spec: object{"paused": false}}.body()))
	a.attackWith(u, patch(a.path(), `{"spec":{"paused":false}}`))
}

// holdsWhilePaused expects no new pods until a user resumes the release with the verb.
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

// rolloutIsGone returns an error if the Rollout exists.
func (a *app) rolloutIsGone(ctx context.Context) error {
	if _, err := a.getRollout(ctx); !apierrors.IsNotFound(err) {
		return fmt.Errorf("the Rollout exists: %w", err)
	}
	return nil
}

// abortsDuringDeletion expects that an abort during the deletion of the Rollout has the effect that
// its response describes.
func abortsDuringDeletion(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK, http.StatusCreated, http.StatusConflict, http.StatusNotFound)
	if got := a.answers[1]; got.code != http.StatusCreated {
		return // the abort was too late, and the response reports it
	}
	a.eventually("the Rollout is gone", a.rolloutIsGone)
	a.eventually("v1 serves", a.runs(versions{"v1": 3}))
	a.atMost(1, "v2")
}
