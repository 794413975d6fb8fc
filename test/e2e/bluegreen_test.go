// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// blueGreenPlan is the default plan in the blue-green style.
func blueGreenPlan() plan {
	p := defaultPlan()
	p.surge, p.unavailable = 1, 0
	steps := []v1beta1.Step{withTraffic(manualStep("50%"), "0%"), withTraffic(manualStep("100%"), "100%")}
	p.customizeRollout = func(r *v1beta1.Rollout) {
		release := r.Spec.Strategy.Canary.Release
		release.Steps = steps
		r.Spec.Strategy = v1beta1.Strategy{BlueGreen: &v1beta1.BlueGreenStrategy{Release: release}}
	}
	return p
}

// waitsAtBlueGreenStep returns a check that a step of a blue-green release is paused.
func (a *app) waitsAtBlueGreenStep(step int32) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err != nil {
			return err
		}
		g := r.Status.BlueGreen
		if g == nil || r.Status.Canary != nil || g.CurrentStepIndex != step || g.State != "StepPaused" || reason(r) != "InRolling" {
			return fmt.Errorf("step %d does not wait: %s, %+v", step, describe(r), g)
		}
		return nil
	}
}

func (a *app) newScaler() *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			MaxReplicas:    20,
		},
	}
}

// autoscalerTargets returns a check of the name that the HorizontalPodAutoscaler scales.
func (a *app) autoscalerTargets(want string) func(context.Context) error {
	return func(ctx context.Context) error {
		h := &autoscalingv2.HorizontalPodAutoscaler{}
		err := testEnv.client.Get(ctx, a.key(name), h)
		if got := h.Spec.ScaleTargetRef.Name; err == nil && got != want {
			err = fmt.Errorf("the autoscaler scales %q, want %q", got, want)
		}
		return err
	}
}

// TestBlueGreen creates all new pods next to the old ones, moves all traffic at once, and deletes
// the old pods last. The autoscaler is disabled during the release, and all settings are restored.
func TestBlueGreen(t *testing.T) {
	t.Parallel()
	a := start(t, blueGreenPlan())
	a.create(a.newScaler())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtBlueGreenStep(1))
	a.eventually("the pods of the step run", a.runs(versions{"v1": 6, "v2": 3}))
	a.checkNow(a.autoscalerTargets(name + "-DisableByRollout"))
	a.promote(1)
	a.eventually("step 2 waits", a.waitsAtBlueGreenStep(2))
	a.eventually("the pods of the step run", a.runs(versions{"v1": 6, "v2": 6}))
	a.checkNow(a.hasCanaryWeight("100"))
	a.consistently("the last step waits, too", a.waitsAtBlueGreenStep(2))
	a.promote(2)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v2": 6})
	a.checkNow(a.autoscalerTargets(name))
	a.checkRestored(workloadTypeLabel)
}

// TestBlueGreenAbort checks that a third template is refused until the second is reverted, that an
// abort deletes the new pods, and that a rollback leaves nothing behind.
func TestBlueGreenAbort(t *testing.T) {
	t.Parallel()
	a := start(t, blueGreenPlan())
	a.create(a.newScaler())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtBlueGreenStep(1))
	a.release("v3")
	a.eventually("v3 is refused", a.messageContains("please rollback first"))
	a.consistently("nothing moves", a.runs(versions{"v1": 6, "v2": 3}))
	a.release("v2")
	a.eventually("step 1 waits again", a.messageContains("manually confirm"))
	a.abort()
	a.eventually("the pods of the step run", a.runs(versions{"v1": 6}))
	a.checkNow(a.isHeld)
	a.checkNow(a.autoscalerTargets(name))
	a.post(testEnv.admin, "retry", "", http.StatusCreated)
	a.eventually("step 1 waits", a.waitsAtBlueGreenStep(1))
	a.eventually("the pods of the step run", a.runs(versions{"v1": 6, "v2": 3}))
	a.post(testEnv.admin, "rollback", "", http.StatusCreated)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v1": 6})
	a.eventually("the autoscaler is enabled again", a.autoscalerTargets(name))
	a.checkRestored(workloadTypeLabel)
}
