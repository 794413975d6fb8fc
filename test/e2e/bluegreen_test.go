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

// switched is a plan in the blue-green style.
func switched() plan {
	p := usual()
	p.surge, p.unavailable = 1, 0
	steps := []v1beta1.Step{with(manual("50%"), "0%"), with(manual("100%"), "100%")}
	p.change = func(r *v1beta1.Rollout) {
		release := r.Spec.Strategy.Canary.Release
		release.Steps = steps
		r.Spec.Strategy = v1beta1.Strategy{BlueGreen: &v1beta1.BlueGreenStrategy{Release: release}}
	}
	return p
}

// green wants a step of a blue-green release to wait.
func (a *app) green(step int32) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.stored(ctx)
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

// scaled wants the autoscaler to name this as what it scales.
func (a *app) scaled(want string) func(context.Context) error {
	return func(ctx context.Context) error {
		h := &autoscalingv2.HorizontalPodAutoscaler{}
		err := here.client.Get(ctx, a.key(name), h)
		if got := h.Spec.ScaleTargetRef.Name; err == nil && got != want {
			err = fmt.Errorf("the autoscaler scales %q, want %q", got, want)
		}
		return err
	}
}

// New pods come beside the old ones, all requests move at once, and old pods go
// last; the autoscaler does not act meanwhile, and everything is given back.
func TestBlueGreen(t *testing.T) {
	t.Parallel()
	a := start(t, switched())
	a.create(a.newScaler())
	a.release("v2")
	a.until("step 1 waits", a.green(1))
	a.until("its pods are there", a.runs(versions{"v1": 6, "v2": 3}))
	a.sees(a.scaled(name + "-DisableByRollout"))
	a.promote(1)
	a.until("step 2 waits", a.green(2))
	a.until("its pods are there", a.runs(versions{"v1": 6, "v2": 6}))
	a.sees(a.weight("100"))
	a.stays("the last step waits, too", a.green(2))
	a.promote(2)
	a.until("the Rollout is Healthy", a.healthy)
	a.settled(versions{"v2": 6})
	a.sees(a.scaled(name))
	a.traceless(workloadType)
}

// A third revision is refused until the second is taken back; an abort takes the
// new pods, and a rollback leaves nothing behind.
func TestBlueGreenAbort(t *testing.T) {
	t.Parallel()
	a := start(t, switched())
	a.create(a.newScaler())
	a.release("v2")
	a.until("step 1 waits", a.green(1))
	a.release("v3")
	a.until("v3 is refused", a.says("please rollback first"))
	a.stays("nothing moves", a.runs(versions{"v1": 6, "v2": 3}))
	a.release("v2")
	a.until("step 1 waits again", a.says("manually confirm"))
	a.abort()
	a.until("its pods are there", a.runs(versions{"v1": 6}))
	a.sees(a.held)
	a.sees(a.scaled(name))
	a.post(here.admin, "retry", "", http.StatusCreated)
	a.until("step 1 waits", a.green(1))
	a.until("its pods are there", a.runs(versions{"v1": 6, "v2": 3}))
	a.post(here.admin, "rollback", "", http.StatusCreated)
	a.until("the Rollout is Healthy", a.healthy)
	a.settled(versions{"v1": 6})
	a.until("the autoscaler is back", a.scaled(name))
	a.traceless(workloadType)
}
