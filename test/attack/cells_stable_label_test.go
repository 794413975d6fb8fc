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

// stableLabel names the stable revision. Weir writes the label and must not trust it.
const stableLabel = "rollouts.kruise.io/stable-revision"

var labelCells = []cell{
	{who: patcher, what: ship, how: "labels the new template as stable in the same patch", admission: true,
		attack: forgesStableLabel(func(hash string) []change { return []change{{version: "v2", labels: object{stableLabel: hash}}} }), expect: gateHolds},
	{who: patcher, what: ship, how: "labels the new template as stable first", admission: true,
		attack: forgesStableLabel(func(hash string) []change {
			return []change{{labels: object{stableLabel: hash}}, {version: "v2"}}
		}), expect: gateHolds},
	{who: patcher, what: ship, how: "labels the new template as stable while it is held", admission: true, scenario: scenario{at: atStep1},
		attack: forgesStableLabel(func(hash string) []change { return []change{{labels: object{stableLabel: hash}}} }), expect: gateHolds},
	{who: patcher, what: ship, how: "labels the new template as stable by apply", admission: true, attack: forgesStableLabelByApply, expect: gateHolds},
	{who: patcher, what: ship, how: "sets a template, reads its hash, reverts, and sets it with the label", admission: true, attack: revertsAndForgesStableLabel, expect: gateHolds},
	{who: patcher, what: ship, how: "labels the new template of a StatefulSet as stable", admission: true, scenario: scenario{kind: statefulSets},
		attack: forgesStableLabel(func(hash string) []change { return []change{{version: "v2", labels: object{stableLabel: hash}}} }), expect: gateHolds},
	{who: patcher, what: ship, how: "labels the new template of a StatefulSet as stable by its status", admission: true, scenario: scenario{kind: statefulSets},
		attack: forgesStableLabelByStatus, expect: gateHolds},
	{who: patcher, what: ship, how: "labels the new template of a DaemonSet as stable", admission: true, scenario: scenario{kind: daemonSets},
		attack: forgesStableLabel(func(hash string) []change { return []change{{version: "v2", labels: object{stableLabel: hash}}} }), expect: gateHolds},
	{who: patcher, what: shipOld, how: "labels the previous version as stable", admission: true, scenario: scenario{at: released}, attack: forgesOldStableLabel, expect: holdsOldVersion},
	{who: patcher, what: undoAbort, how: "labels the aborted version as stable", admission: true, scenario: scenario{at: aborted},
		attack: forgesStableLabel(func(hash string) []change {
			return []change{{labels: object{stableLabel: hash}}, {version: "v2", labels: object{stableLabel: hash}}}
		}), expect: gateHolds},
	{who: patcher, what: undoAbort, how: "sets the stable template and the aborted one", admission: true, scenario: scenario{at: aborted},
		attack: patches(change{version: "v1"}, change{version: "v2"}), expect: gateHolds},
	{who: patcher, what: undoAbort, how: "resumes the Deployment and removes its records", admission: true, scenario: scenario{at: aborted},
		attack: patches(change{annotations: removeHoldRecords, spec: object{"paused": false}}, change{spec: object{"paused": false}}), expect: gateHolds},
}

// forgesStableLabel uses the revision hash of v2, which the attacker reads from a copy of the
// workload in another namespace.
func forgesStableLabel(with func(hash string) []change) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		patches(with(a.revisionInCopy("v2"))...)(a, u)
	}
}

// revisionInCopy creates the same workload in another namespace and returns its revision.
func (a *app) revisionInCopy(version string) string {
	a.t.Helper()
	o := a.workload(version)
	o.SetNamespace(a.otherNamespace())
	a.create(o)
	var hash string
	a.eventually("the copy has a revision", func(ctx context.Context) (err error) {
		hash, err = a.revision(ctx, o.GetNamespace(), version)
		return err
	})
	return hash
}

// revision returns the revision that the native controller gives a version.
func (a *app) revision(ctx context.Context, namespace, version string) (string, error) {
	in := client.InNamespace(namespace)
	if a.scene.kind == deployments {
		var sets appsv1.ReplicaSetList
		if err := testEnv.client.List(ctx, &sets, in); err != nil {
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
	if err := testEnv.client.List(ctx, &list, in); err != nil {
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

func forgesStableLabelByApply(a *app, u *user) {
	a.t.Helper()
	applied := object{
		"apiVersion": "apps/v1", "kind": deployments, "metadata": object{"name": a.name, "labels": object{stableLabel: a.revisionInCopy("v2")}},
		"spec": object{"template": object{"spec": object{"containers": []object{{"name": name, "image": image("v2")}}}}},
	}
	a.attackWith(u, request{
		method: http.MethodPatch, path: a.path() + "?fieldManager=attacker&force=true", kind: applyPatch, body: encode(applied),
	})
}

func forgesStableLabelByStatus(a *app, u *user) {
	a.t.Helper()
	a.attackWith(u, patch(a.path()+"/status", change{labels: object{stableLabel: a.revisionInCopy("v2")}}.body()))
	a.attackWith(u, patch(a.path(), change{version: "v2"}.body()))
}

func revertsAndForgesStableLabel(a *app, u *user) {
	a.t.Helper()
	a.attackWith(u, patch(a.path(), change{version: "v2"}.body()))
	a.eventually("step 1 waits", a.waitsAtStep(1))
	hash, err := a.revision(a.t.Context(), a.namespace, "v2")
	if err != nil {
		a.t.Fatal(err)
	}
	a.attackWith(u, patch(a.path(), change{version: "v1"}.body()))
	a.eventually("the release is cancelled", a.isHealthy)
	a.eventually("all pods run v1 again", a.runs(versions{"v1": 3}))
	a.attackWith(u, patch(a.path(), change{version: "v2", labels: object{stableLabel: hash}}.body()))
}

// forgesOldStableLabel sets the previous version, which was approved once, but has no approval now.
func forgesOldStableLabel(a *app, u *user) {
	a.t.Helper()
	hash, err := a.revision(a.t.Context(), a.namespace, "v1")
	if err != nil {
		a.t.Fatal(err)
	}
	a.monitor.reset()
	a.attackWith(u, patch(a.path(), change{version: "v1", labels: object{stableLabel: hash}}.body()))
}

func holdsOldVersion(a *app) {
	a.t.Helper()
	a.answered(refusedOrNeutralized...)
	a.eventually("the attack is over", a.isIdle)
	a.t.Logf("the highest counts were %s", a.monitor)
	a.checkNoLateHold()
	a.atMost(1, "v1")
	a.checkNextRelease()
	a.atMost(1, "v1")
}

// reset forgets the highest counts.
func (w *monitor) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.most)
}
