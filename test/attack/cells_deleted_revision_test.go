// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// deletedRevisionCells delete ControllerRevisions, in which native controllers keep versions. The
// StatefulSet controller does not watch their deletion.
var deletedRevisionCells = []cell{
	{who: reviser, what: blockAbort, how: "deletes the new revision of a StatefulSet", scenario: scenario{kind: statefulSets, at: atStep1}, attack: deletesRevision("v2"), expect: deletionHasNoEffect(releaseIsRolledBack)},
	{who: reviser, what: blockAbort, how: "deletes the new revision of a StatefulSet that is promoted", scenario: scenario{kind: statefulSets, at: atStep1}, attack: deletesRevision("v2"), expect: deletionHasNoEffect(releaseCompletes)},
	{who: reviser, what: blockAbort, how: "deletes the new revision of a DaemonSet", scenario: scenario{kind: daemonSets, at: atStep1}, attack: deletesRevision("v2"), expect: deletionHasNoEffect(releaseIsRolledBack)},
	{who: reviser, what: blockAbort, how: "deletes the stable revision of a StatefulSet", scenario: scenario{kind: statefulSets, at: atStep1}, attack: deletesRevision("v1"), expect: deletionHasNoEffect(abortStallsAndTemplateEnds)},
	{who: reviser, what: blockAbort, how: "deletes the stable revision of a DaemonSet", scenario: scenario{kind: daemonSets, at: atStep1}, attack: deletesRevision("v1"), expect: deletionHasNoEffect(abortStallsAndTemplateEnds)},
	{who: reviser, what: undoAbort, how: "deletes a revision of a StatefulSet whose Rollout is then disabled", scenario: scenario{kind: statefulSets, at: aborted}, attack: deletesRevision("v2"), expect: deletionHasNoEffect(func(a *app) {
		a.t.Helper()
		a.patchRollout(`{"spec":{"disabled":true}}`)
		a.eventually("the Rollout is disabled", a.isInPhase(v1beta1.PhaseDisabled))
		a.eventually("v1 serves", a.runs(versions{"v1": 3}))
		a.atMost(1, "v2")
	})},
}

func deletesRevision(version string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		list := &appsv1.ControllerRevisionList{}
		if err := testEnv.client.List(a.t.Context(), list, client.InNamespace(a.namespace)); err != nil {
			a.t.Fatal(err)
		}
		for _, r := range list.Items {
			if strings.Contains(string(r.Data.Raw), `"`+image(version)+`"`) {
				a.attackWith(u, request{method: http.MethodDelete, path: "/apis/apps/v1/namespaces/" + a.namespace + "/controllerrevisions/" + r.Name})
			}
		}
	}
}

// deletionHasNoEffect expects that the deletion is allowed, and that the release ends as given.
func deletionHasNoEffect(end func(*app)) func(*app) {
	return func(a *app) {
		a.t.Helper()
		a.answered(http.StatusOK)
		end(a)
	}
}

// abortStallsAndTemplateEnds expects that an abort stalls, and that the earlier template, set by
// the owner, ends the release.
func abortStallsAndTemplateEnds(a *app) {
	a.t.Helper()
	a.verb(testEnv.admin, "abort", "")
	a.eventually("the Rollout reports the deleted revision", a.isStalledFor("StableGone"))
	a.verb(testEnv.admin, "rollback", "")
	a.setVersion("v1")
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("v1 serves", a.runs(versions{"v1": 3}))
	a.atMost(1, "v2")
}
