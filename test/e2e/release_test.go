// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// TestBrief applies the manifests of the project brief with shorter pauses: the first step is
// approved, the second passes after its duration.
func TestBrief(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	a.rollout = "rollouts-demo"
	a.plan.replicas = 6
	testEnv.admin.kubectlWith(a, manifest(t, "../../artifacts/examples/echoserver.yaml"), "create", "-f", "-").mustSucceed()
	a.eventually("the Deployment is ready", a.runs(versions{"1.10.2": 6}))
	testEnv.admin.kubectlWith(a, manifest(t, "testdata/rollout-v1alpha1.yaml"), "create", "-f", "-").mustSucceed("rollouts-demo created")
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.guard = watchPods(a)
	a.guard.atLeast(5) // 25 % of 6 is one pod
	testEnv.admin.kubectl(a, "get", "rollouts").mustSucceed("NAME", "STATUS", "CANARY_STEP", "CANARY_STATE", "MESSAGE", "AGE", "Healthy")

	testEnv.admin.kubectl(a, "set", "image", "deployment/web", "web=example.com/web:v2").mustSucceed()
	a.checkNow(a.isHeld)
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.eventually("the pods of the step run", a.runs(versions{"1.10.2": 4, "v2": 2}))
	a.checkNow(a.hasCanaryWeight("20"))
	a.checkNow(a.serviceSelects("web", versions{"1.10.2": 4}))
	a.checkNow(a.serviceSelects("web-canary", versions{"v2": 2}))

	manager := a.userWithClusterRole("maria", "weir-release-manager")
	manager.kubectl(a, "create", "--raw", a.path()+"/promote", "-f", "/dev/null").mustSucceed(`"kind":"Rollout"`, "maria")
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.eventually("the pods of the step run", a.runs(versions{"1.10.2": 3, "v2": 3}))
	a.checkNow(a.hasCanaryWeight("50"))
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("the pods of the step run", a.runs(versions{"v2": 6}))
	a.checkNow(a.hasDecisions("promote 1 maria applied"))
	a.eventually("no objects of the release are left", a.hasNoReleaseObjects)
}

// manifest reads a file, and replaces its names and pauses.
func manifest(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(
		"echoserver", name,
		"{duration: 60}", "{duration: 600}",
		"{duration: 120}", "{duration: 1}",
		"{duration: 300}", "{duration: 600}",
	).Replace(string(data))
}

// TestReleaseLeavesNothingBehind checks for every end of a release that no objects or annotations
// are left.
func TestReleaseLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*app){
		"completed": func(a *app) {
			a.promoteAll()
			a.eventually("the Rollout is Healthy", a.isHealthy)
			a.eventually("the pods of the step run", a.runs(versions{"v2": 6}))
			a.checkRestored(workloadTypeLabel)
		},
		"cancelled": func(a *app) {
			a.cancel("v1")
		},
		"deleted": func(a *app) {
			testEnv.admin.kubectl(a, "delete", "rollout", "web").mustSucceed()
			a.eventually("all pods run v2", a.runs(versions{"v2": 6}))
			a.checkRestored()
		},
		"disabled": func(a *app) {
			a.patchRollout(`{"spec":{"disabled":true}}`)
			a.eventually("the Rollout is disabled", a.isDisabled)
			a.eventually("all pods run v2", a.runs(versions{"v2": 6}))
			a.checkRestored()
			a.release("v3")
			a.eventually("the Deployment is not held", a.runs(versions{"v3": 6}))
		},
		"disabled and enabled": func(a *app) {
			a.patchRollout(`{"spec":{"disabled":true}}`)
			a.eventually("the Rollout is disabled", a.isDisabled)
			a.patchRollout(`{"spec":{"disabled":false}}`)
			a.eventually("the Rollout is Healthy", a.isHealthy)
			a.eventually("all pods run v2", a.runs(versions{"v2": 6}))
			a.release("v3")
			a.checkNow(a.isHeld)
			a.eventually("step 1 waits", a.waitsAtStep(1))
			a.eventually("the pods of the step run", a.runs(versions{"v2": 4, "v3": 2}))
		},
		// The native controller may be at any point between v1 and v2.
		"disabled, enabled and released at once": func(a *app) {
			a.patchRollout(`{"spec":{"disabled":true}}`)
			a.eventually("the Rollout is disabled", a.isDisabled)
			a.patchRollout(`{"spec":{"disabled":false}}`)
			a.eventually("the Rollout is Healthy", a.isHealthy)
			a.release("v3")
			a.checkNow(a.isHeld)
			a.eventually("step 1 waits", a.waitsAtStep(1))
			a.eventually("the pods of the step run", func(ctx context.Context) error {
				if a.runs(versions{"v1": 4, "v3": 2})(ctx) == nil {
					return nil
				}
				return a.runs(versions{"v2": 4, "v3": 2})(ctx)
			})
		},
	}
	for _, name := range selectCases(ends, "completed", "deleted", "disabled and enabled") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start(t, defaultPlan())
			a.release("v2")
			a.eventually("step 1 waits", a.waitsAtStep(1))
			ends[name](a)
		})
	}
}

// TestBadImage releases an image that cannot be pulled. Its step never passes, and the message
// reports the reason.
func TestBadImage(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	a.release("failed")
	a.eventually("the message names the reason", a.messageContains("step(1/3)", "container web", "ImagePull"))
	a.guard.atMost("failed", 2)
	a.consistently("the step should not pass", a.isAtStage(1, "StepUpgrade"))
	a.checkNow(a.hasCanaryWeight(""))
	a.post(testEnv.admin, "promote", "", 409, "StepUpgrade")
	a.abort()
	a.checkAborted("v1")
	a.guard.atMost("failed", 0)

	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.promoteAll()
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("the pods of the step run", a.runs(versions{"v2": 6}))
	a.checkRestored(workloadTypeLabel)
}

// TestTimedStep checks that a timed step passes without approval, and not before its duration.
func TestTimedStep(t *testing.T) {
	t.Parallel()
	p := planWithoutTraffic()
	p.steps = []v1beta1.Step{timedStep("1", 3), manualStep("100%")}
	a := start(t, p)
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	r, err := a.getRollout(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	since := r.Status.Canary.LastUpdateTime.Time
	a.eventually("the Rollout is Healthy", func(ctx context.Context) error {
		if err := a.isHealthy(ctx); err != nil {
			return err
		}
		if waited := time.Since(since); waited < 3*time.Second {
			t.Errorf("the release ended %s after the step had begun to wait", waited)
		}
		return nil
	})
	a.eventually("the pods of the step run", a.runs(versions{"v2": 6}))
	a.checkNow(a.hasDecisions())
}
