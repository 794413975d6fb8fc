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

// What a user finds out with kubectl alone.
func TestKubectlReads(t *testing.T) {
	t.Parallel()
	a := start(t, usual())
	kubectl := func(args ...string) result { return here.admin.kubectl(a, args...) }
	kubectl("get", "rollouts").works("NAME", "STATUS", "CANARY_STEP", "CANARY_STATE", "MESSAGE", "AGE", "web", "Healthy", "Completed")
	kubectl("get", "rollouts.v1alpha1.rollouts.kruise.io", "web", "-o", "yaml").works("apiVersion: rollouts.kruise.io/v1alpha1", "objectRef:")
	kubectl("get", "rollout", "web", "-o", "yaml").works("apiVersion: rollouts.kruise.io/v1beta1", "workloadRef:")
	// kube-apiserver learns schemas some time after a server has come back.
	a.until("the schemas are known", func(context.Context) error {
		if r := kubectl("explain", "rollout"); r.failed {
			return errors.New(r.out)
		}
		return nil
	})
	kubectl("explain", "rollout.spec.strategy").works("canary", "blueGreen", "paused", "Paused freezes a release")
	kubectl("explain", "rollout.spec.strategy.canary.steps", "--api-version=rollouts.kruise.io/v1alpha1").works("weight", "pause")
	kubectl("explain", "rollout", "--recursive").works("decisions", "rolloutHash", "gracePeriodSeconds")
	kubectl("api-resources", "--api-group=rollouts.kruise.io").works("rollouts", "batchreleases")
	kubectl("auth", "can-i", "create", "rollouts/promote").works("yes")
	kubectl("describe", "rollout", "web").works("Steps:", "Phase:")
	here.user(t, "nobody").kubectl(a, "get", "rollouts").fails("Forbidden", "nobody")
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

// Manifests are applied from either side, and wrong ones are refused with the
// field that is wrong.
func TestKubectlWrites(t *testing.T) {
	t.Parallel()
	a := space(t)
	good := plain().yaml()
	apply := func(manifest string, args ...string) result {
		return here.admin.kubectlWith(a, manifest, append([]string{"apply", "-f", "-"}, args...)...)
	}
	const field = "spec.strategy.canary.steps"
	apply(strings.Replace(good, "replicas: 2", "replicaz: 2", 1)).fails("strict", field+"[0].replicaz")
	apply(strings.Replace(good, "replicas: 2", "replicas: 120%", 1)).fails("invalid", field+"[0].replicas", "120%")
	apply(strings.Replace(good, "replicas: 2", "replicas: 70%", 1)).fails("invalid", field+"[1].replicas")
	apply(strings.Replace(good, "replicas: 2", "replicas: -1", 1)).fails("invalid", field+"[0].replicas")
	apply(strings.Replace(good, "kind: Deployment, ", "", 1)).fails("invalid", "spec.workloadRef")
	here.admin.kubectl(a, "get", "rollouts").works("No resources found")

	apply(good, "--dry-run=server").works("created (server dry run)")
	apply(good, "--server-side").works("serverside-applied")
	apply(good, "--server-side").works("serverside-applied")
	apply(strings.Replace(good, "replicas: 2", "replicas: 1", 1), "--server-side").works("serverside-applied")
	here.admin.kubectl(a, "get", "rollout", "web", "-o", "jsonpath={"+"."+field+"[0].replicas}").works("1")
	apply(strings.Replace(good, "replicas: 2", "replicas: 3", 1), "--server-side", "--field-manager=other").fails("conflict", "steps")
	apply(good).works("configured")

	other := strings.Replace(good, "name: web\nspec", "name: web-too\nspec", 1)
	here.admin.kubectlWith(a, other, "create", "-f", "-").fails("Conflict", a.namespace+"/web)", "claimed")
	here.admin.kubectlWith(a, good, "create", "-f", "-").fails("AlreadyExists")
	here.admin.kubectl(a, "delete", "rollout", "web").works("deleted")
	here.admin.kubectlWith(a, other, "create", "-f", "-").works("web-too created")
}

// The verbs, as kubectl sends them.
func TestKubectlVerbs(t *testing.T) {
	t.Parallel()
	p := usual()
	p.grace = 3
	a := start(t, p)
	manager, victor := a.may("maria", "weir-release-manager"), a.may("victor", "view")
	raw := func(u *user, verb, body string) result {
		return u.kubectlWith(a, body, "create", "--raw", a.path()+"/"+verb, "-f", "-")
	}
	raw(manager, "promote", "").fails("no release is in progress", "Healthy")
	raw(manager, "abort", "").fails("no release is in progress", "Healthy")
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	raw(victor, "promote", "").fails("Forbidden", `"victor"`, "rollouts/promote")
	raw(victor, "abort", "").fails("Forbidden", `"victor"`, "rollouts/abort")
	raw(manager, "promote", `{"expect":{"step":2}}`).fails("expected step 2", "at step 1")
	raw(manager, "promote", `{"reason":`).fails("BadRequest")
	manager.kubectlWith(a, "", "create", "--raw", a.path()+"/promote?dryRun=All", "-f", "-").works("maria")
	a.sees(a.onRecord())
	raw(manager, "promote", `{"reason":"looks good","requestID":"build-1"}`).works(`"user":"maria"`, `"reason":"looks good"`)
	raw(manager, "promote", "").fails("Conflict", "step")
	raw(manager, "promote", `{"requestID":"build-1"}`).works(`"requestID":"build-1"`)
	a.until("step 2 waits", a.waitsAt(2))
	manager.kubectl(a, "create", "--raw", a.path()+"/promote", "-f", "/dev/null").works(`"kind":"Rollout"`)
	a.until("the Rollout is Healthy", a.healthy)
	raw(manager, "promote", "").fails("no release is in progress")
	a.sees(a.onRecord("promote 1 maria applied", "promote 2 maria applied"))
	here.admin.kubectl(a, "create", "--raw", strings.Replace(a.path(), "/web", "/none", 1)+"/promote", "-f", "/dev/null").fails("NotFound")
	here.admin.kubectl(a, "create", "--raw", strings.Replace(a.path(), "v1beta1", "v1alpha1", 1)+"/promote", "-f", "/dev/null").fails("no release is in progress")
}

// A user's commands that would move a held Deployment change nothing.
func TestHeldAgainstKubectl(t *testing.T) {
	t.Parallel()
	a := start(t, usual())
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	kubectl := func(args ...string) result { return here.admin.kubectl(a, args...) }
	asBefore := func() {
		t.Helper()
		a.sees(a.held)
		a.stays("nothing changes", a.runs(versions{"v1": 4, "v2": 2}))
		a.sees(a.waitsAt(1))
	}
	a.guard.atMost("v2", 2)
	kubectl("rollout", "undo", "deployment/web").fails("paused")
	kubectl("rollout", "restart", "deployment/web").fails("paused")
	kubectl("rollout", "resume", "deployment/web").works()
	asBefore()
	// An owner may change the strategy, for the time after the release.
	kubectl("patch", "deployment", "web", "-p",
		`{"spec":{"paused":false,"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":3,"maxUnavailable":1}}}}`).works()
	a.before.deployment.Spec.Strategy.RollingUpdate.MaxSurge.IntVal = 3
	asBefore()
	kubectl("annotate", "deployment", "web", "rollouts.kruise.io/in-progressing-", "batchrelease.rollouts.kruise.io/control-info-").works()
	asBefore()
	kubectl("label", "deployment", "web", "rollouts.kruise.io/workload-type-").works()
	kubectl("rollout", "resume", "deployment/web").works()
	asBefore()
	a.guard.atMost("v2", 3)
	a.post(here.admin, "promote", "", http.StatusCreated)
	a.until("step 2 waits", a.waitsAt(2))
	a.cancel("v1")
}

// So it is after an abort: the aborted version comes back by no command.
func TestAbortedAgainstKubectl(t *testing.T) {
	t.Parallel()
	a := start(t, usual())
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	a.abort()
	a.isBack("v1")
	a.guard.atMost("v2", 0)
	kubectl := func(args ...string) result { return here.admin.kubectl(a, args...) }
	kubectl("rollout", "undo", "deployment/web").fails("paused")
	kubectl("rollout", "restart", "deployment/web").fails("paused")
	kubectl("rollout", "resume", "deployment/web").works()
	kubectl("patch", "deployment", "web", "-p", `{"spec":{"paused":false,"strategy":{"type":"Recreate","rollingUpdate":null}}}`).works()
	a.stays("v1 stays", a.runs(versions{"v1": 6}))
	a.isBack("v1")
	a.cancel("v1")
}
