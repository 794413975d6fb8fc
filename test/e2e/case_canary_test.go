// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// TestCaseCanary runs scenarios of the canary style with the API version v1alpha1.
func TestCaseCanary(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*testing.T){
		"three pods":    caseCanaryThreePods,
		"to the end":    caseCanary,
		"rollback":      caseCanaryRollback,
		"third version": caseCanaryThirdVersion,
		"scaled up":     caseCanaryScaledUp,
		"scaled down":   caseCanaryScaledDown,
		"paused":        caseCanaryPaused,
		"deleted":       caseCanaryDeleted,
		"bad image":     caseCanaryBadImage,
		"plan edited":   caseCanaryPlanEdited,
		"matches":       caseCanaryMatches,
		"node port":     caseCanaryNodePort,
	}
	for _, name := range selectCases(cases, "matches") {
		t.Run(name, cases[name])
	}
}

// Case 9: five steps with three pods. The extra pods get additional labels, except for one that the
// template of the owner sets.
func caseCanaryThreePods(t *testing.T) {
	t.Parallel()
	s := v1alpha1Scenario(3, weightStep(20), weightStep(40), weightStep(60), weightStep(80), weightStep(90))
	s.rollout.(*v1alpha1.Rollout).Spec.Strategy.Canary.PatchPodTemplateMetadata = &v1alpha1.PodTemplateMetadata{
		Labels: map[string]string{"pod": "canary"}, Annotations: map[string]string{"pod": "canary"},
	}
	s.deployment = func(d *appsv1.Deployment) {
		d.Spec.Template.Labels["pod"], d.Spec.Template.Labels["pod-template-hash"] = "stable", "abcdefg"
		d.Spec.Template.Annotations = map[string]string{"pod": "stable"}
	}
	c := startScenario(t, s)
	c.setVersion("v2")
	c.eventually("the Deployment stays paused at the old version", c.isPausedAtOldVersion)
	for i, weight := range []int{20, 40, 60, 80, 90} {
		c.awaitPausedStep(int32(i + 1))
		c.awaitExtraPods("v2", []int32{1, 2, 2, 3, 3}[i])
		c.checkCanaryWeight(weight)
		if m := c.extraDeployment().Spec.Template; m.Labels["pod"] != "canary" || m.Annotations["pod"] != "canary" {
			t.Errorf("the extra pods have labels %v, annotations %v", m.Labels, m.Annotations)
		}
		c.approve()
	}
	c.checkReleaseEnded("v2", "True")
}

// Case 10: a release of two steps. Both Deployments name the revision alike.
func caseCanary(t *testing.T) {
	t.Parallel()
	s := v1alpha1Scenario(5, withReplicas(weightStep(20), 2), weightStep(60))
	s.rollout.(*v1alpha1.Rollout).Spec.Strategy.Canary.TrafficRoutings[0].GracePeriodSeconds = nil
	c := startScenario(t, s)
	c.setVersion("v2")
	c.checkAfter(2*time.Second, "the Deployment stays paused at the old version", c.isPausedAtOldVersion)
	c.awaitPausedStep(1)
	stable, hash := c.awaitExtraPods("v2", 2)
	c.checkCanaryWeight(20)
	c.checkProgress(1, 2, stable, hash)
	c.approve()
	c.awaitPausedStep(2)
	c.awaitExtraPods("v2", 3)
	c.checkCanaryWeight(60)
	c.approve()
	c.checkReleaseEnded("v2", "True")
	if left := c.activeReplicaSets(name); !slices.Equal(left, []string{hash}) {
		t.Errorf("the Deployment has %v, want %s", left, hash)
	}
	c.checkNow(c.hasExtraDeployment(0))
	c.checkRestored(workloadTypeLabel)
	c.addPod()
}

// Case 11: setting the earlier template ends the release.
func caseCanaryRollback(t *testing.T) {
	t.Parallel()
	c := startScenario(t, v1alpha1Scenario(5, defaultV1alpha1Steps()...))
	c.setVersion("v2")
	c.eventually("the Deployment stays paused at the old version", c.isPausedAtOldVersion)
	c.awaitPausedStep(1)
	stable, _ := c.awaitExtraPods("v2", 1)
	c.refreshDeployment()
	c.setVersion("v1")
	c.checkReleaseEnded("v1", "False")
	if at := c.readRollout().releaseStatus(); at.StableRevision != stable {
		t.Errorf("stable is %s, was %s", at.StableRevision, stable)
	}
	c.guard.atMost("v2", 0)
	c.awaitPods(versions{"v1": 5})
}

// Case 12: a third version replaces the second one, and begins at step 1.
func caseCanaryThirdVersion(t *testing.T) {
	t.Parallel()
	c := startScenario(t, v1alpha1Scenario(5, weightStep(20), weightStep(40), withDuration(weightStep(60), 1), withDuration(weightStep(80), 1), withDuration(weightStep(100), 1)))
	c.setVersion("v2")
	c.eventually("the Deployment stays paused at the old version", c.isPausedAtOldVersion)
	c.awaitPausedStep(1)
	stable, second := c.awaitExtraPods("v2", 1)
	c.checkProgress(1, 2, stable, second)
	c.approve()
	c.awaitPausedStep(2)
	c.setVersion("v3")
	c.awaitPausedStep(1)
	same, third := c.awaitExtraPods("v3", 1)
	c.checkCanaryWeight(20)
	c.checkProgress(1, 2, stable, third)
	if same != stable || third == second {
		t.Errorf("stable %s, then %s; second %s, third %s", stable, same, second, third)
	}
	c.approve()
	c.awaitPausedStep(2)
	c.approve()
	c.checkReleaseEnded("v3", "True")
}

// Case 13: the extra Deployment grows when the Deployment is scaled up.
func caseCanaryScaledUp(t *testing.T) {
	t.Parallel()
	c := startScenario(t, v1alpha1Scenario(5, withDuration(weightStep(20), 1), weightStep(40), withDuration(weightStep(60), 1), withDuration(weightStep(100), 0)))
	c.setVersion("v2")
	c.awaitPausedStep(2)
	_, hash := c.awaitExtraPods("v2", 2)
	c.setReplicas(10)
	c.checkAfter(3*time.Second, "four pods are requested", func(context.Context) error {
		if n := *c.extraDeployment().Spec.Replicas; n != 4 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	c.eventually("four pods are ready", c.hasReadyExtraPods(4))
	c.checkAfter(time.Second, "the Rollout counts four pods", c.rolloutSatisfies(func(r *rolloutReading) bool {
		return stepPaused(2)(r) && r.releaseStatus().Canary == 4 && r.releaseStatus().CanaryReady == 4 && r.releaseStatus().PodTemplateHash == hash
	}))
	c.eventually("ten pods of the stable version run", c.isPausedAtOldVersion)
	c.awaitExtraPods("v2", 4)
	c.guard.atLeast(10)
	c.approve()
	c.checkReleaseEnded("v2", "True")
}

// Case 14: the extra Deployment does not shrink when the Deployment is scaled down.
func caseCanaryScaledDown(t *testing.T) {
	t.Parallel()
	c := startScenario(t, v1alpha1Scenario(10, withDuration(weightStep(20), 1), withDuration(weightStep(40), 1), weightStep(60), withDuration(weightStep(100), 0)))
	c.setVersion("v2")
	c.awaitPausedStep(3)
	c.awaitExtraPods("v2", 6)
	c.setReplicas(5)
	c.checkAfter(3*time.Second, "five pods are left", c.isPausedAtOldVersion)
	c.awaitPausedStep(3)
	c.awaitExtraPods("v2", 6)
	c.approve()
	c.checkReleaseEnded("v2", "True")
}

// Case 15: spec.strategy.paused stops the release.
func caseCanaryPaused(t *testing.T) {
	t.Parallel()
	c := startScenario(t, v1alpha1Scenario(5, withDuration(weightStep(20), 2), withDuration(weightStep(40), 2), withDuration(weightStep(60), 1), withDuration(weightStep(80), 1), withDuration(weightStep(100), 0)))
	c.setVersion("v2")
	c.checkAfter(3*time.Second, "the Deployment stays paused at the old version", c.isPausedAtOldVersion)
	c.editV1alpha1Plan(func(r *v1alpha1.Rollout) { r.Spec.Strategy.Paused = new(true) })
	was := c.readRollout()
	if was.Status.Phase != "Progressing" {
		t.Fatalf("the Rollout should be Progressing: %s", was)
	}
	c.checkAfter(6*time.Second, "the release is paused", c.rolloutSatisfies(func(r *rolloutReading) bool {
		p := r.condition("Progressing")
		return p.Reason == "Paused" && p.Status == "True" && r.releaseStatus().Step == was.releaseStatus().Step
	}))
	c.editV1alpha1Plan(func(r *v1alpha1.Rollout) { r.Spec.Strategy.Paused = new(false) })
	c.checkReleaseEnded("v2", "True")
}

// Case 16: the Rollout is deleted with foreground propagation during a step.
func caseCanaryDeleted(t *testing.T) {
	t.Parallel()
	c := startScenario(t, v1alpha1Scenario(5, withDuration(weightStep(20), 10), withDuration(weightStep(60), 10), withDuration(weightStep(100), 10)))
	c.setVersion("v2")
	c.checkAfter(3*time.Second, "the Deployment stays paused at the old version", c.isPausedAtOldVersion)
	if err := testEnv.client.DeleteAllOf(t.Context(), &v1alpha1.Rollout{}, client.InNamespace(c.namespace),
		client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	c.eventually("the Rollout is gone", c.isGone(&v1beta1.Rollout{}, c.rollout))
	c.updateDeployment(func(d *appsv1.Deployment) { d.Spec.Paused = false })
	c.awaitAllUpdated()
	c.checkNetworkRestored()
	c.checkDeploymentComplete("v2")
	c.checkNow(c.hasExtraDeployment(0))
}

// Case 17: a version whose pods do not start is reported, and then replaced.
func caseCanaryBadImage(t *testing.T) {
	t.Parallel()
	c := startScenario(t, v1alpha1Scenario(5, withDuration(weightStep(20), 1), withDuration(weightStep(60), 1), withDuration(weightStep(100), 1)))
	c.setVersion("failed")
	c.eventually("the Deployment stays paused at the old version", c.isPausedAtOldVersion)
	c.checkAfter(5*time.Second, "one new pod is created", c.rolloutSatisfies(func(r *rolloutReading) bool {
		at := r.releaseStatus()
		return r.Status.Phase == "Progressing" && at.Step == 1 && at.State == "StepUpgrade" && at.Canary == 1 && at.CanaryReady == 0
	}))
	c.guard.atMost("failed", 1)
	c.setVersion("v3")
	c.checkReleaseEnded("v3", "True")
}

// Case 18: the plan is replaced by one with fewer steps during the release.
func caseCanaryPlanEdited(t *testing.T) {
	t.Parallel()
	c := startScenario(t, v1alpha1Scenario(10, defaultV1alpha1Steps()...))
	c.setVersion("v2")
	c.awaitPausedStep(1)
	stable, hash := c.awaitExtraPods("v2", 2)
	c.editV1alpha1Plan(func(r *v1alpha1.Rollout) {
		r.Spec = newV1alpha1Rollout(weightStep(10), weightStep(30), withDuration(weightStep(100), 1)).Spec
	})
	c.awaitPausedStep(2)
	if err := testEnv.client.Get(t.Context(), c.key(c.rollout), &v1alpha1.BatchRelease{}); err != nil {
		t.Error(err)
	}
	c.awaitExtraPods("v2", 3)
	c.checkProgress(2, 3, stable, hash)
	c.checkCanaryWeight(30)
	c.approve()
	c.checkReleaseEnded("v2", "True")
}

// Case 19: requests are routed by header matches first, then by weight.
func caseCanaryMatches(t *testing.T) {
	t.Parallel()
	chosen := withReplicas(v1alpha1.Step{Matches: []v1alpha1.RouteMatch{
		{Headers: []v1alpha1.ValueMatch{{Type: new("RegularExpression"), Name: "user_id", Value: "123456"}}},
		{Headers: []v1alpha1.ValueMatch{{Name: "canary-by-cookie", Value: "demo"}}},
	}}, 1)
	c := startScenario(t, v1alpha1Scenario(3, chosen, withReplicas(weightStep(30), 2)))
	c.setVersion("v2")
	c.awaitPausedStep(1)
	stable, hash := c.awaitExtraPods("v2", 1)
	c.checkProgress(1, 2, stable, hash)
	c.checkServicesPinned()
	c.checkEqual("the rules", map[string]string{
		"canary": "true", "canary-by-header": "user_id", "canary-by-header-pattern": "123456", "canary-by-cookie": "demo",
	}, c.canaryRules())
	c.approve()
	c.awaitPausedStep(2)
	c.awaitExtraPods("v2", 2)
	c.checkEqual("the rules", map[string]string{"canary": "true", "canary-weight": "30"}, c.canaryRules())
	c.approve()
	c.checkReleaseEnded("v2", "True")
}

// Case 22: the canary Service of a NodePort Service has no node port.
func caseCanaryNodePort(t *testing.T) {
	t.Parallel()
	s := v1alpha1Scenario(5, withReplicas(weightStep(20), 2))
	s.service = func(service *corev1.Service) {
		service.Spec.Type = corev1.ServiceTypeNodePort
		service.Spec.Ports[0].NodePort = 30000
	}
	c := startScenario(t, s)
	c.setVersion("v2")
	c.awaitPausedStep(1)
	stable, hash := c.awaitExtraPods("v2", 2)
	c.checkCanaryWeight(20)
	c.checkProgress(1, -1, stable, hash)
	c.checkNow(c.canaryServiceMatches)
	c.approve()
	c.checkReleaseEnded("v2", "True")
	if left := c.activeReplicaSets(name); !slices.Equal(left, []string{hash}) {
		t.Errorf("the Deployment has %v, want %s", left, hash)
	}
}
