// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// permission is a request and the users who may send it. All requests are dry runs.
type permission struct {
	name         string
	method, path string
	body         string
	who          string
}

const everybody = "view edit admin promoter manager author starred wild"

// permissions is the table of docs/permissions.md. Paths are relative to the namespace.
var permissions = []permission{
	{"read a Rollout", "GET", "rollouts/web", "", everybody},
	{"read its status", "GET", "rollouts/web/status", "", "view edit admin promoter manager wild"},
	{"list BatchReleases", "GET", "batchreleases", "", "view edit admin promoter manager wild"},
	{"create a Rollout", "POST", "rollouts", other, "edit admin author wild"},
	{"update a Rollout", "PATCH", "rollouts/web", `{"metadata":{"labels":{"a":"b"}}}`, "edit admin wild"},
	{"disable a Rollout", "PATCH", "rollouts/web", `{"spec":{"disabled":true}}`, "edit admin wild"},
	{"pause by the spec", "PATCH", "rollouts/web", `{"spec":{"strategy":{"paused":true}}}`, "edit admin wild"},
	{"delete a Rollout", "DELETE", "rollouts/web", "", "edit admin wild"},
	{"delete all Rollouts", "DELETE", "rollouts", "", "edit admin wild"},
	{"write a BatchRelease", "PATCH", "batchreleases/web", `{"metadata":{"labels":{"a":"b"}}}`, "wild"},
	{"delete a BatchRelease", "DELETE", "batchreleases/web", "", "wild"},
	{"promote", "POST", "rollouts/web/promote", `{}`, "admin promoter manager starred wild"},
	{"promote to the end", "POST", "rollouts/web/promote", `{"full":true}`, "admin promoter manager starred wild"},
	{"pause", "POST", "rollouts/web/pause", `{}`, "admin promoter manager wild"},
	{"abort", "POST", "rollouts/web/abort", `{}`, "admin manager wild"},
	{"roll back", "POST", "rollouts/web/rollback", `{}`, "admin manager wild"},
	{"jump", "POST", "rollouts/web/jump", `{"step":2}`, "admin manager wild"},
	{"approve by the status", "PATCH", "rollouts/web/status", `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`, "admin promoter manager wild"},
	{"jump by the status", "PATCH", "rollouts/web/status", `{"status":{"canaryStatus":{"nextStepIndex":3}}}`, "admin manager wild"},
	{"approve by the spec", "PATCH", "rollouts/web", noPause, "admin wild"},
	// Neither verb is possible now, but only permitted users get that error.
	{"resume", "POST", "rollouts/web/resume", `{}`, "admin promoter manager wild"},
	{"retry", "POST", "rollouts/web/retry", `{}`, "admin manager wild"},
}

// noPause is the plan of the test with a first step that does not wait.
const noPause = `{"spec":{"strategy":{"canary":{"steps":[{"replicas":2,"pause":{"duration":0}},{"replicas":"50%"},{"replicas":"100%"}]}}}}`

const other = `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"Rollout","metadata":{"name":"other"},"spec":{
	"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"other"},
	"strategy":{"canary":{"steps":[{"replicas":"20%"},{"replicas":"100%"}]}}}}`

// TestPermissions checks that each role may do exactly what the table lists, through kube-apiserver
// and as a user, while step 1 of a release is paused.
func TestPermissions(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	verbs := func(resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"rollouts.kruise.io"}, Resources: []string{resource}, Verbs: verbs}
	}
	users := map[string]*user{
		"view": a.userWithClusterRole("perm-view", "view"), "edit": a.userWithClusterRole("perm-edit", "edit"), "admin": a.userWithClusterRole("perm-admin", "admin"),
		"promoter": a.userWithClusterRole("perm-promoter", "weir-promoter"), "manager": a.userWithClusterRole("perm-manager", "weir-release-manager"),
		// The permission to create Rollouts includes no verb. In RBAC, "*/promote" and "*" are
		// wildcards, but "rollouts/*" is not.
		"author":  a.userWithRules("perm-author", verbs("rollouts", "create", "get"), verbs("rollouts/*", "*")),
		"starred": a.userWithRules("perm-starred", verbs("*/promote", "create"), verbs("rollouts", "get")),
		"wild":    a.userWithRules("perm-wild", verbs("*", "*")),
		"nobody":  testEnv.user(t, "perm-nobody"),
	}
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	for _, p := range permissions {
		for role, u := range users {
			if strings.Contains(" "+p.who+" ", " "+role+" ") {
				// The aggregation of Weir's roles takes a moment, and kube-apiserver caches refusals for seconds.
				a.eventually(p.name+" as "+role, func(ctx context.Context) error {
					err := u.dryRun(ctx, a, p)
					if err != nil && !errors.Is(err, errForbidden) {
						t.Fatalf("%s as %s: %v", p.name, role, err)
					}
					return err
				})
			} else if err := u.dryRun(t.Context(), a, p); !errors.Is(err, errForbidden) {
				t.Errorf("%s as %s should be forbidden, but the answer is %v", p.name, role, err)
			}
		}
	}
	a.checkNow(a.hasDecisions())
}

var errForbidden = errors.New("forbidden")

// dryRun sends a request that stores nothing.
func (u *user) dryRun(ctx context.Context, a *app, p permission) error {
	url := u.host + "/apis/rollouts.kruise.io/v1beta1/namespaces/" + a.namespace + "/" + p.path
	if p.method != http.MethodGet {
		url += "?dryRun=All"
	}
	request, err := http.NewRequestWithContext(ctx, p.method, url, strings.NewReader(p.body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if p.method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := u.http.Do(request)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	switch response.StatusCode {
	case http.StatusOK, http.StatusCreated:
		return nil
	case http.StatusConflict:
		if p.name == "resume" || p.name == "retry" {
			return nil
		}
	case http.StatusForbidden:
		return fmt.Errorf("%w: %s", errForbidden, body)
	}
	return fmt.Errorf("%s: %s", response.Status, body)
}
