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

// The brief's two manifests, with shorter pauses: the first step is approved,
// the second passes by its time.
func TestBrief(t *testing.T) {
	t.Parallel()
	a := space(t)
	a.rollout = "rollouts-demo"
	a.plan.replicas = 6
	here.admin.kubectlWith(a, manifest(t, "echoserver.yaml"), "create", "-f", "-").works()
	a.until("the Deployment is ready", a.runs(versions{"1.10.2": 6}))
	here.admin.kubectlWith(a, manifest(t, "rollout.yaml"), "create", "-f", "-").works("rollouts-demo created")
	a.until("the Rollout is Healthy", a.healthy)
	a.guard = watchPods(a)
	a.guard.atLeast(5) // 25 % of 6 is one pod
	here.admin.kubectl(a, "get", "rollouts").works("NAME", "STATUS", "CANARY_STEP", "CANARY_STATE", "MESSAGE", "AGE", "Healthy")

	here.admin.kubectl(a, "set", "image", "deployment/web", "web=example.com/web:v2").works()
	a.sees(a.held)
	a.until("step 1 waits", a.waitsAt(1))
	a.until("its pods are there", a.runs(versions{"1.10.2": 4, "v2": 2}))
	a.sees(a.weight("20"))
	a.sees(a.serves("web", versions{"1.10.2": 4}))
	a.sees(a.serves("web-canary", versions{"v2": 2}))

	manager := a.may("maria", "weir-release-manager")
	manager.kubectl(a, "create", "--raw", a.path()+"/promote", "-f", "/dev/null").works(`"kind":"Rollout"`, "maria")
	a.until("step 2 waits", a.waitsAt(2))
	a.until("its pods are there", a.runs(versions{"1.10.2": 3, "v2": 3}))
	a.sees(a.weight("50"))
	a.until("the Rollout is Healthy", a.healthy)
	a.until("its pods are there", a.runs(versions{"v2": 6}))
	a.sees(a.onRecord("promote 1 maria applied"))
	a.until("nothing is left beside the application", a.alone)
}

// manifest reads an example, with names and pauses of the tests.
func manifest(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile("../../artifacts/examples/" + file)
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

// A release leaves nothing behind, however it ends.
func TestTraceless(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*app){
		"completed": func(a *app) {
			a.promoteAll()
			a.until("the Rollout is Healthy", a.healthy)
			a.until("its pods are there", a.runs(versions{"v2": 6}))
			a.traceless(workloadType)
		},
		"cancelled": func(a *app) {
			a.cancel("v1")
		},
		"deleted": func(a *app) {
			here.admin.kubectl(a, "delete", "rollout", "web").works()
			a.until("all pods run v2", a.runs(versions{"v2": 6}))
			a.traceless()
		},
		"disabled": func(a *app) {
			a.edit(`{"spec":{"disabled":true}}`)
			a.until("the Rollout is disabled", a.disabled)
			a.until("all pods run v2", a.runs(versions{"v2": 6}))
			a.traceless()
			a.release("v3")
			a.until("nobody holds the Deployment", a.runs(versions{"v3": 6}))
		},
		"disabled and enabled": func(a *app) {
			a.edit(`{"spec":{"disabled":true}}`)
			a.until("the Rollout is disabled", a.disabled)
			a.edit(`{"spec":{"disabled":false}}`)
			a.until("the Rollout is Healthy", a.healthy)
			a.until("all pods run v2", a.runs(versions{"v2": 6}))
			a.release("v3")
			a.sees(a.held)
			a.until("step 1 waits", a.waitsAt(1))
			a.until("its pods are there", a.runs(versions{"v2": 4, "v3": 2}))
		},
		// The native controller may be anywhere between v1 and v2.
		"disabled, enabled and released at once": func(a *app) {
			a.edit(`{"spec":{"disabled":true}}`)
			a.until("the Rollout is disabled", a.disabled)
			a.edit(`{"spec":{"disabled":false}}`)
			a.until("the Rollout is Healthy", a.healthy)
			a.release("v3")
			a.sees(a.held)
			a.until("step 1 waits", a.waitsAt(1))
			a.until("its pods are there", func(ctx context.Context) error {
				if a.runs(versions{"v1": 4, "v3": 2})(ctx) == nil {
					return nil
				}
				return a.runs(versions{"v2": 4, "v3": 2})(ctx)
			})
		},
	}
	for _, name := range some(ends, "completed", "deleted", "disabled and enabled") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start(t, usual())
			a.release("v2")
			a.until("step 1 waits", a.waitsAt(1))
			ends[name](a)
		})
	}
}

// A version whose image cannot be pulled never passes its step, and the message
// says why.
func TestBadImage(t *testing.T) {
	t.Parallel()
	a := start(t, usual())
	a.release("failed")
	a.until("the message names the reason", a.says("step(1/3)", "container web", "ImagePull"))
	a.guard.atMost("failed", 2)
	a.stays("the step should not pass", a.at(1, "StepUpgrade"))
	a.sees(a.weight(""))
	a.post(here.admin, "promote", "", 409, "StepUpgrade")
	a.abort()
	a.isBack("v1")
	a.guard.atMost("failed", 0)

	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	a.promoteAll()
	a.until("the Rollout is Healthy", a.healthy)
	a.until("its pods are there", a.runs(versions{"v2": 6}))
	a.traceless(workloadType)
}

// A timed step passes by itself, and not before its time.
func TestTimedStep(t *testing.T) {
	t.Parallel()
	p := plain()
	p.steps = []v1beta1.Step{timed("1", 3), manual("100%")}
	a := start(t, p)
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	r, err := a.stored(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	since := r.Status.Canary.LastUpdateTime.Time
	a.until("the Rollout is Healthy", func(ctx context.Context) error {
		if err := a.healthy(ctx); err != nil {
			return err
		}
		if waited := time.Since(since); waited < 3*time.Second {
			t.Errorf("the release ended %s after the step had begun to wait", waited)
		}
		return nil
	})
	a.until("its pods are there", a.runs(versions{"v2": 6}))
	a.sees(a.onRecord())
}
