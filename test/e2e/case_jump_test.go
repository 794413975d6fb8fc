// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// TestCaseJump tells stories of jumps, told in v1beta1: back and forth by nextStepIndex, and where
// an edited plan makes a step run again.
func TestCaseJump(t *testing.T) {
	t.Parallel()
	stories := map[string]func(*testing.T){
		"canary":    caseJumpCanary,
		"fewer":     caseJumpFewer,
		"partition": caseJumpPartition,
	}
	for _, name := range some(stories, "fewer") {
		t.Run(name, stories[name])
	}
}

// evenSteps are five equal parts. The last one passes.
func evenSteps(traffic ...string) []v1beta1.Step {
	var steps []v1beta1.Step
	for i, share := range []string{"20%", "40%", "60%", "80%", "100%"} {
		s := manual(share)
		if i > 0 {
			s = timed(share, []int32{0, 600, 600, 600, 0}[i])
		}
		if i < len(traffic) && traffic[i] != "" {
			s = with(s, traffic[i])
		}
		steps = append(steps, s)
	}
	return steps
}

func besideScene() scene {
	return scene{replicas: 5, routed: true, rollout: newRollout(v1beta1.Strategy{Canary: &v1beta1.CanaryStrategy{
		Release: newRelease(evenSteps("20%", "40%", "60%", "80%", "100%")...), EnableExtraWorkloadForCanary: new(true),
	}})}
}

// stepsOf are those of the plan.
func stepsOf(r *v1beta1.Rollout) []v1beta1.Step { return r.Spec.Strategy.Canary.Steps }

// Case 30: with an extra Deployment. Its pods stay on every way back.
func caseJumpCanary(t *testing.T) {
	t.Parallel()
	c := opens(t, besideScene())
	c.ships("v2")
	for step := int32(1); step <= 4; step++ {
		c.pauses(step)
		stable, hash := c.beside("v2", step)
		c.progress(step, step+1, stable, hash)
		c.sends(int(20 * step))
		if step < 4 {
			c.approves()
		}
	}
	c.jumps(3)
	stable, hash := c.beside("v2", 4)
	c.progress(3, 4, stable, hash)
	c.sends(60)
	c.replans(func(r *v1beta1.Rollout) {
		for i, traffic := range []string{"21%", "41%", "61%", "81%", "100%"} {
			stepsOf(r)[i].Traffic = &traffic
		}
	})
	c.after(3*time.Second, "the step is not what it was", c.that(func(r *reading) bool {
		return r.at().RolloutHash == r.Annotations["rollouts.kruise.io/hash"]
	}))
	c.progress(3, 4, stable, hash)
	c.sends(61)
	c.jumps(2)
	c.progress(2, 3, stable, hash)
	c.sends(41)
	c.jumps(1)
	c.progress(1, 2, stable, hash)
	c.sends(21)
	c.beside("v2", 4)
	c.jumps(5)
	c.done("v2", "True")
	if at := c.looks().at(); at.Next != -1 {
		t.Errorf("next is step %d", at.Next)
	}
}

// Case 33: a step ahead, and then a plan of one step, which is refused.
func caseJumpFewer(t *testing.T) {
	t.Parallel()
	c := opens(t, besideScene())
	c.ships("v2")
	c.pauses(1)
	c.beside("v2", 1)
	c.jumps(3)
	c.pauses(3)
	stable, hash := c.beside("v2", 3)
	c.brought(1, 1, 1)
	c.progress(3, 4, stable, hash)
	c.sends(60)
	err := reworks(c, func(r *v1beta1.Rollout) { r.Spec.Strategy.Canary.Steps = stepsOf(r)[:1] })
	if !apierrors.IsInvalid(err) {
		t.Errorf("a plan of one step should be refused: %v", err)
	}
	c.sees(c.that(paused(3)))
}

// replaced wants so many pods to have been replaced, and the Deployment to say so.
func (c *outsider) replaced(pods int32) func(context.Context) error {
	return func(ctx context.Context) error {
		d, err := c.deployment(ctx)
		if err != nil {
			return err
		}
		var strategy struct {
			Paused bool `json:"paused"`
		}
		var extra struct {
			Ready int32 `json:"updatedReadyReplicas"`
		}
		for key, into := range map[string]any{"deployment-strategy": &strategy, "deployment-extra-status": &extra} {
			if err := json.Unmarshal([]byte(d.Annotations["rollouts.kruise.io/"+key]), into); err != nil {
				return fmt.Errorf("reading %s: %w", key, err)
			}
		}
		if s := d.Status; s.UpdatedReplicas != pods || extra.Ready != pods || strategy.Paused {
			return fmt.Errorf("want %d replaced: %d ready, paused %t, %+v", pods, extra.Ready, strategy.Paused, s)
		}
		return nil
	}
}

// Case 31: pods are replaced in place, and only some steps name traffic.
func caseJumpPartition(t *testing.T) {
	t.Parallel()
	c := opens(t, partScene("20%"))
	stable := c.active(name)[0]
	c.ships("v2")
	for step := int32(1); step <= 4; step++ {
		c.pauses(step)
		c.sees(c.replaced(step))
		c.progress(step, step+1, stable, c.other(stable))
		if step == 1 {
			c.sends(20)
		} else {
			c.restored()
		}
		if step < 4 {
			c.approves()
		}
	}
	c.jumps(3)
	c.progress(3, 4, stable, c.other(stable))
	c.sees(c.replaced(4))
	c.restored()
	c.replans(func(r *v1beta1.Rollout) {
		stepsOf(r)[2].Traffic, stepsOf(r)[2].Replicas = new("60%"), new(intstr.FromInt32(3))
	})
	c.after(3*time.Second, "the step is not what it was", c.that(func(r *reading) bool {
		return r.at().RolloutHash == r.Annotations["rollouts.kruise.io/hash"]
	}))
	c.progress(3, 4, stable, c.other(stable))
	c.sees(c.replaced(4))
	c.sends(60)
	c.jumps(2)
	c.progress(2, 3, stable, c.other(stable))
	c.restored()
	c.jumps(1)
	c.progress(1, 2, stable, c.other(stable))
	c.sees(c.replaced(4))
	c.sends(20)
	c.jumps(5)
	c.done("v2", "True")
	if at := c.looks().at(); at.Next != -1 {
		t.Errorf("next is step %d", at.Next)
	}
	c.traceless(workloadType)
}
