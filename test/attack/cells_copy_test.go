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

// recordReader reads what Weir keeps, and no workload.
const recordReader role = "reads Rollouts and histories only"

func init() {
	roles[recordReader] = []rbacv1.PolicyRule{rule(group, words("rollouts", "rollouthistories", "rollouthistories/status", "rollouts/history", "rollouts/why"), words("get", "list", "watch"))}
	known[recordReader] = authorizationv1.ResourceAttributes{Group: group, Resource: "rollouthistories", Verb: "list"}
	matrix = append(matrix, copyCells...)
}

var copyCells = []cell{
	{who: recordReader, what: learn, how: "reads the template of a workload in a history", on: scene{at: midway}, do: readsCopies, expect: func(a *app) {
		a.answered(http.StatusOK)
		for _, got := range a.answers {
			for _, of := range words(`"containers"`, `"template"`, `restore`) {
				if strings.Contains(got.body, of) {
					a.t.Errorf("an answer has %s: %s", of, got.body)
				}
			}
		}
		a.same()
		a.goesOn()
	}},
}

// readsCopies reads a history, once it has the template, in every way.
func readsCopies(a *app, u *user) {
	a.t.Helper()
	all := "/apis/rollouts.kruise.io/v1alpha1/namespaces/" + a.namespace + "/rollouthistories"
	a.until("a history has the template", func(context.Context) error {
		if got := a.asks(here.admin, get(all)); !strings.Contains(got.body, `"containers"`) {
			return errors.New(got.body)
		}
		return nil
	})
	for _, path := range words(
		all, all+"?resourceVersion=0", all+"?watch=true&resourceVersion=0&timeoutSeconds=3", a.api()+"/history", a.api()+"/history?release=1",
	) {
		a.tries(u, get(path))
	}
}
