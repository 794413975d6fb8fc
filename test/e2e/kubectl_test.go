// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestKubectlReads checks what kubectl shows about Rollouts.
func TestKubectlReads(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	kubectl := func(args ...string) result { return testEnv.admin.kubectl(a, args...) }
	kubectl("get", "rollouts").mustSucceed("NAME", "STATUS", "CANARY_STEP", "CANARY_STATE", "MESSAGE", "AGE", "web", "Healthy", "Completed")
	kubectl("get", "rollouts.v1alpha1.rollouts.kruise.io", "web", "-o", "yaml").mustSucceed("apiVersion: rollouts.kruise.io/v1alpha1", "objectRef:")
	kubectl("get", "rollout", "web", "-o", "yaml").mustSucceed("apiVersion: rollouts.kruise.io/v1beta1", "workloadRef:")
	// kube-apiserver fetches the schemas some time after a server has restarted.
	a.eventually("the schemas are published", func(context.Context) error {
		if r := kubectl("explain", "rollout"); r.failed {
			return errors.New(r.out)
		}
		return nil
	})
	kubectl("explain", "rollout.spec.strategy").mustSucceed("canary", "blueGreen", "paused", "Paused freezes a release")
	kubectl("explain", "rollout.spec.strategy.canary.steps", "--api-version=rollouts.kruise.io/v1alpha1").mustSucceed("weight", "pause")
	kubectl("explain", "rollout", "--recursive").mustSucceed("decisions", "rolloutHash", "gracePeriodSeconds")
	kubectl("api-resources", "--api-group=rollouts.kruise.io").mustSucceed("rollouts", "batchreleases")
	kubectl("auth", "can-i", "create", "rollouts", "--subresource=promote").mustSucceed("yes")
	kubectl("describe", "rollout", "web").mustSucceed("Steps:", "Phase:")
	testEnv.user(t, "nobody").kubectl(a, "get", "rollouts").mustFail("Forbidden", "nobody")
}

func (p plan) yaml() string {
	var steps strings.Builder
	for _, s := range p.steps {
		fmt.Fprintf(&steps, "      - replicas: %s\n", s.Replicas.String())
	}
	return `apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata:
  name: web
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy:
    canary:
      steps:
` + steps.String()
}

// TestKubectlWrites applies manifests with client-side and server-side apply. Invalid ones are
// refused with the name of the field.
func TestKubectlWrites(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	good := planWithoutTraffic().yaml()
	apply := func(manifest string, args ...string) result {
		return testEnv.admin.kubectlWith(a, manifest, append([]string{"apply", "-f", "-"}, args...)...)
	}
	const field = "spec.strategy.canary.steps"
	apply(strings.Replace(good, "replicas: 2", "replicaz: 2", 1)).mustFail("strict", field+"[0].replicaz")
	apply(strings.Replace(good, "replicas: 2", "replicas: 120%", 1)).mustFail("invalid", field+"[0].replicas", "120%")
	apply(strings.Replace(good, "replicas: 2", "replicas: 70%", 1)).mustFail("invalid", field+"[1].replicas")
	apply(strings.Replace(good, "replicas: 2", "replicas: -1", 1)).mustFail("invalid", field+"[0].replicas")
	apply(strings.Replace(good, "kind: Deployment, ", "", 1)).mustFail("invalid", "spec.workloadRef")
	testEnv.admin.kubectl(a, "get", "rollouts").mustSucceed("No resources found")

	apply(good, "--dry-run=server").mustSucceed("created (server dry run)")
	apply(good, "--server-side").mustSucceed("serverside-applied")
	apply(good, "--server-side").mustSucceed("serverside-applied")
	apply(strings.Replace(good, "replicas: 2", "replicas: 1", 1), "--server-side").mustSucceed("serverside-applied")
	testEnv.admin.kubectl(a, "get", "rollout", "web", "-o", "jsonpath={"+"."+field+"[0].replicas}").mustSucceed("1")
	apply(strings.Replace(good, "replicas: 2", "replicas: 3", 1), "--server-side", "--field-manager=other").mustFail("conflict", "steps")
	apply(good).mustSucceed("configured")

	other := strings.Replace(good, "name: web\nspec", "name: web-too\nspec", 1)
	testEnv.admin.kubectlWith(a, other, "create", "-f", "-").mustFail("Conflict", a.namespace+"/web)", "is already managed by Rollout")
	testEnv.admin.kubectlWith(a, good, "create", "-f", "-").mustFail("AlreadyExists")
	testEnv.admin.kubectl(a, "delete", "rollout", "web").mustSucceed("deleted")
	testEnv.admin.kubectlWith(a, other, "create", "-f", "-").mustSucceed("web-too created")
}

// TestKubectlVerbs sends the verbs with kubectl.
func TestKubectlVerbs(t *testing.T) {
	t.Parallel()
	p := defaultPlan()
	p.grace = 3
	a := start(t, p)
	manager, victor := a.userWithClusterRole("maria", "weir-release-manager"), a.userWithClusterRole("victor", "view")
	raw := func(u *user, verb, body string) result {
		return u.kubectlWith(a, body, "create", "--raw", a.path()+"/"+verb, "-f", "-")
	}
	raw(manager, "promote", "").mustFail("no release is in progress", "Healthy")
	raw(manager, "abort", "").mustFail("no release is in progress", "Healthy")
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	raw(victor, "promote", "").mustFail("Forbidden", `"victor"`, "rollouts/promote")
	raw(victor, "abort", "").mustFail("Forbidden", `"victor"`, "rollouts/abort")
	raw(manager, "promote", `{"expect":{"step":2}}`).mustFail("expected step 2", "at step 1")
	raw(manager, "promote", `{"reason":`).mustFail("BadRequest")
	manager.kubectlWith(a, "", "create", "--raw", a.path()+"/promote?dryRun=All", "-f", "-").mustSucceed("maria")
	a.checkNow(a.hasDecisions())
	raw(manager, "promote", `{"reason":"looks good","requestID":"build-1"}`).mustSucceed(`"user":"maria"`, `"reason":"looks good"`)
	raw(manager, "promote", "").mustFail("Conflict", "step")
	raw(manager, "promote", `{"requestID":"build-1"}`).mustSucceed(`"requestID":"build-1"`)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	manager.kubectl(a, "create", "--raw", a.path()+"/promote", "-f", "/dev/null").mustSucceed(`"kind":"Rollout"`)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	raw(manager, "promote", "").mustFail("no release is in progress")
	a.checkNow(a.hasDecisions("promote 1 maria applied", "promote 2 maria applied"))
	testEnv.admin.kubectl(a, "create", "--raw", strings.Replace(a.path(), "/web", "/none", 1)+"/promote", "-f", "/dev/null").mustFail("NotFound")
	testEnv.admin.kubectl(a, "create", "--raw", strings.Replace(a.path(), "v1beta1", "v1alpha1", 1)+"/promote", "-f", "/dev/null").mustFail("no release is in progress")
}

// TestKubectlCannotReleaseHeld runs commands that would release a held Deployment. They have no
// effect.
func TestKubectlCannotReleaseHeld(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	kubectl := func(args ...string) result { return testEnv.admin.kubectl(a, args...) }
	asBefore := func() {
		t.Helper()
		a.checkNow(a.isHeld)
		a.consistently("nothing changes", a.runs(versions{"v1": 4, "v2": 2}))
		a.checkNow(a.waitsAtStep(1))
	}
	a.guard.atMost("v2", 2)
	kubectl("rollout", "undo", "deployment/web").mustFail("paused")
	kubectl("rollout", "restart", "deployment/web").mustFail("paused")
	kubectl("rollout", "resume", "deployment/web").mustSucceed()
	asBefore()
	// The owner may change the strategy, which takes effect after the release.
	kubectl("patch", "deployment", "web", "-p",
		`{"spec":{"paused":false,"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":3,"maxUnavailable":1}}}}`).mustSucceed()
	a.before.deployment.Spec.Strategy.RollingUpdate.MaxSurge.IntVal = 3
	asBefore()
	kubectl("annotate", "deployment", "web", "rollouts.kruise.io/in-progressing-", "batchrelease.rollouts.kruise.io/control-info-").mustSucceed()
	asBefore()
	kubectl("label", "deployment", "web", "rollouts.kruise.io/workload-type-").mustSucceed()
	kubectl("rollout", "resume", "deployment/web").mustSucceed()
	asBefore()
	a.guard.atMost("v2", 3)
	a.post(testEnv.admin, "promote", "", http.StatusCreated)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.cancel("v1")
}

// TestKubectlCannotReleaseAborted runs the same commands after an abort. None of them releases the
// aborted version.
func TestKubectlCannotReleaseAborted(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.abort()
	a.checkAborted("v1")
	a.guard.atMost("v2", 0)
	kubectl := func(args ...string) result { return testEnv.admin.kubectl(a, args...) }
	kubectl("rollout", "undo", "deployment/web").mustFail("paused")
	kubectl("rollout", "restart", "deployment/web").mustFail("paused")
	kubectl("rollout", "resume", "deployment/web").mustSucceed()
	kubectl("patch", "deployment", "web", "-p", `{"spec":{"paused":false,"strategy":{"type":"Recreate","rollingUpdate":null}}}`).mustSucceed()
	a.consistently("v1 stays", a.runs(versions{"v1": 6}))
	a.checkAborted("v1")
	a.cancel("v1")
}
