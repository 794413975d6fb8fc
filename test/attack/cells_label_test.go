// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stableLabel says which revision serves. Weir writes it; it must not be believed.
const stableLabel = "rollouts.kruise.io/stable-revision"

var labelCells = []cell{
	{who: patcher, what: ship, how: "calls the new template stable in the same patch", doors: true,
		do: callsStable(func(hash string) []change { return []change{{version: "v2", labels: object{stableLabel: hash}}} }), expect: gated},
	{who: patcher, what: ship, how: "calls the new template stable first", doors: true,
		do: callsStable(func(hash string) []change {
			return []change{{labels: object{stableLabel: hash}}, {version: "v2"}}
		}), expect: gated},
	{who: patcher, what: ship, how: "calls the new template stable while it is held", doors: true, on: scene{at: midway},
		do: callsStable(func(hash string) []change { return []change{{labels: object{stableLabel: hash}}} }), expect: gated},
	{who: patcher, what: ship, how: "calls the new template stable by apply", doors: true, do: callsStableByApply, expect: gated},
	{who: patcher, what: ship, how: "sets, reads, reverts, and sets with the label", doors: true, do: setsReadsSets, expect: gated},
	{who: patcher, what: ship, how: "calls the new template of a StatefulSet stable", doors: true, on: scene{kind: statefulSets},
		do: callsStable(func(hash string) []change { return []change{{version: "v2", labels: object{stableLabel: hash}}} }), expect: gated},
	{who: patcher, what: ship, how: "calls the new template of a StatefulSet stable by its status", doors: true, on: scene{kind: statefulSets},
		do: callsStableByStatus, expect: gated},
	{who: patcher, what: ship, how: "calls the new template of a DaemonSet stable", doors: true, on: scene{kind: daemonSets},
		do: callsStable(func(hash string) []change { return []change{{version: "v2", labels: object{stableLabel: hash}}} }), expect: gated},
	{who: patcher, what: shipOld, how: "calls the one before stable", doors: true, on: scene{at: released}, do: callsOldStable, expect: oldGated},
	{who: patcher, what: undoAbort, how: "calls what was aborted stable", doors: true, on: scene{at: aborted},
		do: callsStable(func(hash string) []change {
			return []change{{labels: object{stableLabel: hash}}, {version: "v2", labels: object{stableLabel: hash}}}
		}), expect: gated},
	{who: patcher, what: undoAbort, how: "sets the stable template and the aborted one", doors: true, on: scene{at: aborted},
		do: patches(change{version: "v1"}, change{version: "v2"}), expect: gated},
	{who: patcher, what: undoAbort, how: "resumes the Deployment and takes its marks off", doors: true, on: scene{at: aborted},
		do: patches(change{annotations: unmarked, spec: object{"paused": false}}, change{spec: object{"paused": false}}), expect: gated},
}

// callsStable is an attack with the name of the revision of v2, learnt from a copy
// in a namespace of the attacker's own.
func callsStable(with func(hash string) []change) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		patches(with(a.learns("v2"))...)(a, u)
	}
}

// learns makes the same workload elsewhere and reads what its revision is called.
func (a *app) learns(version string) string {
	a.t.Helper()
	o := a.workload(version)
	o.SetNamespace(a.elsewhere())
	a.create(o)
	var hash string
	a.until("the copy has a revision", func(ctx context.Context) (err error) {
		hash, err = a.revision(ctx, o.GetNamespace(), version)
		return err
	})
	return hash
}

// revision is what the native controller calls a version.
func (a *app) revision(ctx context.Context, namespace, version string) (string, error) {
	in := client.InNamespace(namespace)
	if a.scene.kind == deployments {
		var sets appsv1.ReplicaSetList
		if err := here.client.List(ctx, &sets, in); err != nil {
			return "", err
		}
		for i := range sets.Items {
			if s := &sets.Items[i]; versionOf(deployments, s.ObjectMeta, s.Spec.Template.Spec) == version {
				return s.Labels["pod-template-hash"], nil
			}
		}
		return "", errors.New("no ReplicaSet yet")
	}
	var list appsv1.ControllerRevisionList
	if err := here.client.List(ctx, &list, in); err != nil {
		return "", err
	}
	newest := int64(0)
	found := ""
	for i := range list.Items {
		if r := &list.Items[i]; r.Revision > newest {
			newest, found = r.Revision, r.Name
			if a.scene.kind == daemonSets {
				found = r.Labels["controller-revision-hash"]
			}
		}
	}
	if found == "" {
		return "", errors.New("no ControllerRevision yet")
	}
	return found, nil
}

func callsStableByApply(a *app, u *user) {
	a.t.Helper()
	applied := object{
		"apiVersion": "apps/v1", "kind": deployments, "metadata": object{"name": a.name, "labels": object{stableLabel: a.learns("v2")}},
		"spec": object{"template": object{"spec": object{"containers": []object{{"name": name, "image": image("v2")}}}}},
	}
	a.tries(u, request{
		method: http.MethodPatch, path: a.path() + "?fieldManager=attacker&force=true", kind: applyPatch, body: encode(applied),
	})
}

func callsStableByStatus(a *app, u *user) {
	a.t.Helper()
	a.tries(u, patch(a.path()+"/status", change{labels: object{stableLabel: a.learns("v2")}}.body()))
	a.tries(u, patch(a.path(), change{version: "v2"}.body()))
}

func setsReadsSets(a *app, u *user) {
	a.t.Helper()
	a.tries(u, patch(a.path(), change{version: "v2"}.body()))
	a.until("step 1 waits", a.waitsAt(1))
	hash, err := a.revision(a.t.Context(), a.namespace, "v2")
	if err != nil {
		a.t.Fatal(err)
	}
	a.tries(u, patch(a.path(), change{version: "v1"}.body()))
	a.until("it is cancelled", a.healthy)
	a.until("v1 is back", a.runs(versions{"v1": 3}))
	a.tries(u, patch(a.path(), change{version: "v2", labels: object{stableLabel: hash}}.body()))
}

// callsOldStable ships what was there before, which was approved once and is not now.
func callsOldStable(a *app, u *user) {
	a.t.Helper()
	hash, err := a.revision(a.t.Context(), a.namespace, "v1")
	if err != nil {
		a.t.Fatal(err)
	}
	a.seen.forget()
	a.tries(u, patch(a.path(), change{version: "v1", labels: object{stableLabel: hash}}.body()))
}

func oldGated(a *app) {
	a.t.Helper()
	a.answered(either...)
	a.until("the attack is over", a.rests)
	a.t.Logf("at most there were %s", a.seen)
	a.inTime()
	a.atMost(1, "v1")
	a.goesOn()
	a.atMost(1, "v1")
}

// forget begins to count anew.
func (w *witness) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.most)
}
