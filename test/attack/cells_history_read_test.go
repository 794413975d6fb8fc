// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// recordReader reads Weir's objects, but no workloads.
const recordReader role = "reads Rollouts and histories only"

func init() {
	roles[recordReader] = []rbacv1.PolicyRule{rule(group, words("rollouts", "rollouthistories", "rollouthistories/status", "rollouts/history", "rollouts/why"), words("get", "list", "watch"))}
	knownBy[recordReader] = authorizationv1.ResourceAttributes{Group: group, Resource: "rollouthistories", Verb: "list"}
	matrix = append(matrix, historyReadCells...)
}

var historyReadCells = []cell{
	{who: recordReader, what: learn, how: "reads the template of a workload in a history", scenario: scenario{at: atStep1}, attack: readsHistories, expect: func(a *app) {
		a.answered(http.StatusOK)
		for _, got := range a.answers {
			for _, of := range words(`"containers"`, `"template"`, `restore`) {
				if strings.Contains(got.body, of) {
					a.t.Errorf("an answer has %s: %s", of, got.body)
				}
			}
		}
		a.checkUnchanged()
		a.checkNextRelease()
	}},
}

// readsHistories reads a history in every way, once it contains the template.
func readsHistories(a *app, u *user) {
	a.t.Helper()
	all := "/apis/rollouts.kruise.io/v1alpha1/namespaces/" + a.namespace + "/rollouthistories"
	a.eventually("a history has the template", func(context.Context) error {
		if got := a.mustSend(testEnv.admin, get(all)); !strings.Contains(got.body, `"containers"`) {
			return errors.New(got.body)
		}
		return nil
	})
	for _, path := range words(
		all, all+"?resourceVersion=0", all+"?watch=true&resourceVersion=0&timeoutSeconds=3", a.api()+"/history", a.api()+"/history?release=1",
	) {
		a.attackWith(u, get(path))
	}
}
