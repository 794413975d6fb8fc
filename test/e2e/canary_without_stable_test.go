// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// reportsIrreversible returns an error unless the condition reports that the release cannot be
// reverted.
func (a *app) reportsIrreversible(ctx context.Context) error {
	r, err := a.getRollout(ctx)
	if err != nil {
		return err
	}
	for _, c := range r.Status.Conditions {
		if c.Type == "Revertible" && c.Status == "False" && c.Reason == "StableGone" {
			return nil
		}
	}
	return fmt.Errorf("no condition says that the stable version was deleted: %s", describe(r))
}

// startCanaryWithoutStable starts a canary release and deletes its stable ReplicaSet, so that only
// the pods of the extra Deployment serve. From then on, a pod must be ready at every moment.
func startCanaryWithoutStable(t *testing.T) *app {
	t.Helper()
	p := canaryPlan()
	p.steps = []v1beta1.Step{manualStep("2"), manualStep("50%")}
	p.withTraffic = false
	a := start(t, p)
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.deleteReplicaSetOf("v1")
	a.eventually("only pods of v2 are left", a.runs(versions{"v2": 2}))
	a.guard.atLeast(1)
	a.checkNow(a.waitsAtStep(1))
	return a
}

// TestCanaryWithoutStableReverted sets the earlier template, as the message recommends. Its pods
// become ready before those of the extra Deployment are deleted.
func TestCanaryWithoutStableReverted(t *testing.T) {
	t.Parallel()
	a := startCanaryWithoutStable(t)
	a.eventually("the condition reports that the release cannot be reverted", a.reportsIrreversible)
	a.checkNow(a.messageContains("abort and rollback cannot go back to it"))
	a.release("v1")
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.checkNow(a.hasExtraDeployment(0))
	a.awaitPods(versions{"v1": 6})
	a.checkRestored(workloadTypeLabel)
}

// TestCanaryWithoutStableSuperseded sets another template. The pods that serve stay until the steps
// have created others.
func TestCanaryWithoutStableSuperseded(t *testing.T) {
	t.Parallel()
	a := startCanaryWithoutStable(t)
	a.release("v3")
	a.eventually("pods of v3 run in addition to those that serve", a.runs(versions{"v2": 2, "v3": 2}))
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.promote(1)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.promote(2)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.checkNow(a.hasExtraDeployment(0))
	a.awaitPods(versions{"v3": 6})
	a.checkRestored(workloadTypeLabel)
}

// TestCanaryWithoutStableDeleted deletes the Rollout. The pods of the Deployment become ready
// first.
func TestCanaryWithoutStableDeleted(t *testing.T) {
	t.Parallel()
	a := startCanaryWithoutStable(t)
	r := a.newRollout()
	r.Namespace = a.namespace
	if err := testEnv.client.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	a.eventually("the Rollout is gone", a.isGone(&v1beta1.Rollout{}, name))
	a.awaitPods(versions{"v2": 6})
	a.checkNow(a.hasExtraDeployment(0))
	a.checkRestored()
}
