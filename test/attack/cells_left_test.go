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
var leftCells = []cell{
	{who: batcher, what: ship, how: "makes a BatchRelease of the workload", on: scene{kind: statefulSets, at: midway}, do: makesBatch, expect: gated},
	{who: batcher, what: ship, how: "makes a BatchRelease of the workload at rest", on: scene{kind: statefulSets}, do: func(a *app, u *user) {
		makesBatch(a, u)
		a.ships("v2")
		a.until("step 1 waits", a.waitsAt(1))
	}, expect: gated},
	{who: batcher, what: blockAbort, how: "keeps the BatchRelease, and deletes it", on: scene{at: midway}, do: keeps(batchPath), expect: denied},
	{who: editor, what: blockAbort, how: "keeps the canary Service and Ingress, and deletes them", on: scene{routed: true, at: midway},
		do: keeps(ingressPath, servicePath), expect: endsKept},
	{who: editor, what: destroy, how: "deletes the Rollout and leaves behind what it made", on: scene{routed: true, at: midway}, do: func(a *app, u *user) {
		a.tries(u, request{method: http.MethodDelete, path: a.api(), body: `{"propagationPolicy":"Orphan"}`})
		a.tries(u, request{method: http.MethodDelete, path: api(a.namespace), body: `{"propagationPolicy":"Orphan"}`})
	}, expect: denied},
	{who: editor, what: blockAbort, how: "deletes the Rollout first", on: scene{routed: true, at: midway}, do: func(a *app, u *user) {
		m := a.as(manager)
		a.tries(u, request{method: http.MethodDelete, path: a.api(), body: `{}`})
		a.tries(m, post(a.api()+"/abort", ""))
	}, expect: staysPaused},
	{who: patcher, what: ship, how: "resumes another version for a Rollout that is made again after an abort", doors: true, on: scene{at: aborted},
		do: resumesLater, expect: gatedPaused},
	{who: status, what: forge, how: "says in other letters what only Weir says", on: scene{at: midway}, do: func(a *app, u *user) {
		for _, of := range words("protected", "PROTECTED", "admissionbypassed", "Pr\u043etected", "stalled", "STALLED", "St\u0430lled", "Stalled\u200b", "\u2800") {
			a.tries(u, patch(a.api()+"/status", encode(object{"status": object{"conditions": []object{{"type": of, "status": "False", "reason": "Forged"}}}})))
		}
	}, expect: denied},
}

func batchPath(a *app) string { return strings.Replace(a.api(), "/rollouts/", "/batchreleases/", 1) }

func servicePath(a *app) string {
	return "/api/v1/namespaces/" + a.namespace + "/services/" + name + "-canary"
}

func ingressPath(a *app) string {
	return "/apis/networking.k8s.io/v1/namespaces/" + a.namespace + "/ingresses/" + name + "-canary"
}

// makesBatch drives the workload of somebody's Rollout to the end, and has another
// Rollout own what does.
func makesBatch(a *app, u *user) {
	a.t.Helper()
	r, err := a.stored(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	path := batchPath(a)
	path = path[:strings.LastIndex(path, "/")]
	a.tries(u, post(path, encode(object{
		"apiVersion": group + "/v1beta1", "kind": "BatchRelease", "metadata": object{"name": "mine"},
		"spec": object{
			"workloadRef": object{"apiVersion": "apps/v1", "kind": a.scene.kind, "name": a.name},
			"releasePlan": object{"batches": []object{{"canaryReplicas": "100%"}}, "batchPartition": 0},
		},
	})))
	for _, kind := range words("Rollout", "rollout") {
		owner := object{"apiVersion": group + "/v1beta1", "kind": kind, "name": a.name, "uid": r.UID, "controller": true}
		a.tries(u, patch(path+"/mine", encode(object{"metadata": object{"ownerReferences": []object{owner}}})))
	}
}

// keeps puts a finalizer on objects and deletes them.
func keeps(paths ...func(*app) string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		for _, path := range paths {
			a.tries(u, patch(path(a), `{"metadata":{"finalizers":["example.com/keep"]}}`))
			a.tries(u, request{method: http.MethodDelete, path: path(a), body: `{}`})
		}
	}
}

// endsKept wants an abort, and what follows it, to end all the same.
func endsKept(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK, http.StatusAccepted)
	a.verb(a.as(manager), "abort", "")
	a.ends()
	a.verb(a.as(manager), "rollback", "")
	a.until("the Rollout is Healthy", a.healthy)
	for _, path := range []func(*app) string{batchPath, ingressPath, servicePath} {
		here.admin.send(a.t.Context(), patch(path(a), `{"metadata":{"finalizers":null}}`)) //nolint:errcheck // most of them are gone
	}
	a.goesOn()
}

// resumesLater has the Rollout of an aborted release made again, which finds its workload
// stopped, and resumes that with a version that nobody has approved.
func resumesLater(a *app, u *user) {
	a.t.Helper()
	a.asks(here.admin, request{method: http.MethodDelete, path: a.api(), body: `{}`})
	a.until("the Rollout is gone", a.gone)
	a.create(a.rollout())
	a.until("its release is paused", a.doing("Paused"))
	a.tries(u, patch(a.path(), change{version: "v3", spec: object{"paused": false}}.body()))
	a.tries(u, patch(a.path(), `{"spec":{"paused":false}}`))
}

// gatedPaused wants nothing to move until somebody resumes the release by its verb.
func gatedPaused(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.inTime()
	a.until("v1 serves", a.runs(versions{"v1": 3}))
	a.atMost(0, "v3")
	a.verb(a.as(manager), "resume", "")
	a.until("step 1 waits", a.waitsAt(1))
	a.atMost(1, "v3")
	a.goesOn()
}

// gone wants the Rollout to be gone.
func (a *app) gone(ctx context.Context) error {
	if _, err := a.stored(ctx); !apierrors.IsNotFound(err) {
		return fmt.Errorf("it is there: %w", err)
	}
	return nil
}

// staysPaused wants an abort to be heard while the Rollout goes: what it says is so.
func staysPaused(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK, http.StatusCreated, http.StatusConflict, http.StatusNotFound)
	if got := a.answers[1]; got.code != http.StatusCreated {
		return // it was too late, and said so
	}
	a.until("the Rollout is gone", a.gone)
	a.until("v1 serves", a.runs(versions{"v1": 3}))
	a.atMost(1, "v2")
}
