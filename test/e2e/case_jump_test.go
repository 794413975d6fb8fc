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

// TestCaseJump runs scenarios of jumps with the API version v1beta1: forward and back by
// nextStepIndex, and edits of the plan that run a step again.
func TestCaseJump(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*testing.T){
		"canary":      caseJumpCanary,
		"fewer steps": caseJumpFewer,
		"partition":   caseJumpPartition,
	}
	for _, name := range selectCases(cases, "fewer steps") {
		t.Run(name, cases[name])
	}
}

// evenSteps are five steps of equal size. The last one passes without approval.
func evenSteps(traffic ...string) []v1beta1.Step {
	var steps []v1beta1.Step
	for i, share := range []string{"20%", "40%", "60%", "80%", "100%"} {
		s := manualStep(share)
		if i > 0 {
			s = timedStep(share, []int32{0, 600, 600, 600, 0}[i])
		}
		if i < len(traffic) && traffic[i] != "" {
			s = withTraffic(s, traffic[i])
		}
		steps = append(steps, s)
	}
	return steps
}

func canaryScenario() scenario {
	return scenario{replicas: 5, routed: true, rollout: newRollout(v1beta1.Strategy{Canary: &v1beta1.CanaryStrategy{
		Release: newRelease(evenSteps("20%", "40%", "60%", "80%", "100%")...), EnableExtraWorkloadForCanary: new(true),
	}})}
}

// stepsOf returns the steps of the plan.
func stepsOf(r *v1beta1.Rollout) []v1beta1.Step { return r.Spec.Strategy.Canary.Steps }

// Case 30: jumps in the canary style. The pods of the extra Deployment stay on every jump back.
func caseJumpCanary(t *testing.T) {
	t.Parallel()
	c := startScenario(t, canaryScenario())
	c.setVersion("v2")
	for step := int32(1); step <= 4; step++ {
		c.awaitPausedStep(step)
		stable, hash := c.awaitExtraPods("v2", step)
		c.checkProgress(step, step+1, stable, hash)
		c.checkCanaryWeight(int(20 * step))
		if step < 4 {
			c.approve()
		}
	}
	c.jump(3)
	stable, hash := c.awaitExtraPods("v2", 4)
	c.checkProgress(3, 4, stable, hash)
	c.checkCanaryWeight(60)
	c.editPlan(func(r *v1beta1.Rollout) {
		for i, traffic := range []string{"21%", "41%", "61%", "81%", "100%"} {
			stepsOf(r)[i].Traffic = &traffic
		}
	})
	c.checkAfter(3*time.Second, "the step is processed again", c.rolloutSatisfies(func(r *rolloutReading) bool {
		return r.releaseStatus().RolloutHash == r.Annotations["rollouts.kruise.io/hash"]
	}))
	c.checkProgress(3, 4, stable, hash)
	c.checkCanaryWeight(61)
	c.jump(2)
	c.checkProgress(2, 3, stable, hash)
	c.checkCanaryWeight(41)
	c.jump(1)
	c.checkProgress(1, 2, stable, hash)
	c.checkCanaryWeight(21)
	c.awaitExtraPods("v2", 4)
	c.jump(5)
	c.checkReleaseEnded("v2", "True")
	if at := c.readRollout().releaseStatus(); at.Next != -1 {
		t.Errorf("the next step is %d", at.Next)
	}
}

// Case 33: a jump forward, and then a plan of one step, which is refused.
func caseJumpFewer(t *testing.T) {
	t.Parallel()
	c := startScenario(t, canaryScenario())
	c.setVersion("v2")
	c.awaitPausedStep(1)
	c.awaitExtraPods("v2", 1)
	c.jump(3)
	c.awaitPausedStep(3)
	stable, hash := c.awaitExtraPods("v2", 3)
	c.checkBatchLabels(1, 1, 1)
	c.checkProgress(3, 4, stable, hash)
	c.checkCanaryWeight(60)
	err := updateRolloutSpec(c, func(r *v1beta1.Rollout) { r.Spec.Strategy.Canary.Steps = stepsOf(r)[:1] })
	if !apierrors.IsInvalid(err) {
		t.Errorf("a plan of one step should be refused: %v", err)
	}
	c.checkNow(c.rolloutSatisfies(stepPaused(3)))
}

// hasReplacedPods returns a check that this many pods have been replaced, and that the annotations
// of the Deployment agree.
func (c *kruiseClient) hasReplacedPods(pods int32) func(context.Context) error {
	return func(ctx context.Context) error {
		d, err := c.getDeployment(ctx)
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

// Case 31: jumps in the partition style, where only some steps have a traffic weight.
func caseJumpPartition(t *testing.T) {
	t.Parallel()
	c := startScenario(t, partitionScenario("20%"))
	stable := c.activeReplicaSets(name)[0]
	c.setVersion("v2")
	for step := int32(1); step <= 4; step++ {
		c.awaitPausedStep(step)
		c.checkNow(c.hasReplacedPods(step))
		c.checkProgress(step, step+1, stable, c.otherRevision(stable))
		if step == 1 {
			c.checkCanaryWeight(20)
		} else {
			c.checkNetworkRestored()
		}
		if step < 4 {
			c.approve()
		}
	}
	c.jump(3)
	c.checkProgress(3, 4, stable, c.otherRevision(stable))
	c.checkNow(c.hasReplacedPods(4))
	c.checkNetworkRestored()
	c.editPlan(func(r *v1beta1.Rollout) {
		stepsOf(r)[2].Traffic, stepsOf(r)[2].Replicas = new("60%"), new(intstr.FromInt32(3))
	})
	c.checkAfter(3*time.Second, "the step is processed again", c.rolloutSatisfies(func(r *rolloutReading) bool {
		return r.releaseStatus().RolloutHash == r.Annotations["rollouts.kruise.io/hash"]
	}))
	c.checkProgress(3, 4, stable, c.otherRevision(stable))
	c.checkNow(c.hasReplacedPods(4))
	c.checkCanaryWeight(60)
	c.jump(2)
	c.checkProgress(2, 3, stable, c.otherRevision(stable))
	c.checkNetworkRestored()
	c.jump(1)
	c.checkProgress(1, 2, stable, c.otherRevision(stable))
	c.checkNow(c.hasReplacedPods(4))
	c.checkCanaryWeight(20)
	c.jump(5)
	c.checkReleaseEnded("v2", "True")
	if at := c.readRollout().releaseStatus(); at.Next != -1 {
		t.Errorf("the next step is %d", at.Next)
	}
	c.checkRestored(workloadTypeLabel)
}
