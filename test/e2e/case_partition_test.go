// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// TestCasePartition runs scenarios of the partition style with the API version v1beta1.
func TestCasePartition(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*testing.T){
		"to the end":    casePartition,
		"third version": casePartitionThirdVersion,
		"rollback":      casePartitionRollback,
		"deleted":       casePartitionDeleted,
		"scaled":        casePartitionScaled,
		"plan edited":   casePartitionPlanEdited,
		"disabled":      caseDisabled,
	}
	for _, name := range selectCases(cases, "disabled") {
		t.Run(name, cases[name])
	}
}

// partitionScenario has five even steps, of which the first ones have a traffic weight.
func partitionScenario(traffic ...string) scenario {
	return scenarioWithSteps(evenSteps(traffic...)...)
}

func scenarioWithSteps(steps ...v1beta1.Step) scenario {
	return scenario{replicas: 5, routed: true, rollout: newRollout(v1beta1.Strategy{Canary: &v1beta1.CanaryStrategy{
		Release: newRelease(steps...), EnableExtraWorkloadForCanary: new(false),
	}})}
}

// withoutTraffic removes the Service and the Ingress from a scenario.
func withoutTraffic(s scenario) scenario {
	s.routed = false
	s.rollout.(*v1beta1.Rollout).Spec.Strategy.Canary.TrafficRoutings = nil
	return s
}

// Case 52: a step with traffic, one without, until the end.
func casePartition(t *testing.T) {
	t.Parallel()
	s := scenarioWithSteps(withTraffic(manualStep("20%"), "20%"), manualStep("60%"))
	s.rollout.(*v1beta1.Rollout).Spec.Strategy.Canary.TrafficRoutings[0].GracePeriodSeconds = nil
	c := startScenario(t, s)
	stable := c.activeReplicaSets(name)[0]
	c.setVersion("v2")
	c.awaitPausedStep(1)
	c.checkNow(c.hasReplacedPods(1))
	c.checkProgress(1, 2, stable, c.otherRevision(stable))
	c.checkCanaryWeight(20)
	c.approve()
	c.awaitPausedStep(2)
	c.checkNow(c.hasReplacedPods(3))
	c.checkNetworkRestored()
	c.approve()
	c.eventually("the Rollout is Healthy", c.rolloutSatisfies(inPhase("Healthy")))
	c.awaitAllUpdated()
	c.checkReleaseEnded("v2", "True")
	c.checkRestored(workloadTypeLabel)
	c.addPod()
}

// Case 53: a third version, written together with records of the second version's first step,
// begins at step 1. The stable revision is still the first one.
func casePartitionThirdVersion(t *testing.T) {
	t.Parallel()
	c := startScenario(t, withoutTraffic(scenarioWithSteps(manualStep("20%"), manualStep("60%"), manualStep("100%"))))
	first := c.activeReplicaSets(name)[0]
	c.setVersion("v2")
	c.awaitPausedStep(1)
	c.checkNow(c.hasReplacedPods(1))
	c.refreshDeployment()
	c.approve()
	c.awaitPausedStep(2)
	c.checkNow(c.hasReplacedPods(3))
	c.setVersion("v3")
	c.awaitPausedStep(1)
	c.checkNow(c.hasReplacedPods(1))
	d, err := c.getDeployment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if at, label := c.readRollout().releaseStatus(), d.Labels["rollouts.kruise.io/stable-revision"]; at.StableRevision != label || label != first {
		t.Errorf("stable is %s, labelled %s, was %s", at.StableRevision, label, first)
	}
	c.approve()
	c.awaitPausedStep(2)
	c.checkNow(c.hasReplacedPods(3))
}

// Case 54: the earlier template is set at the second step.
func casePartitionRollback(t *testing.T) {
	t.Parallel()
	c := startScenario(t, scenarioWithSteps(withTraffic(manualStep("20%"), "20%"), manualStep("60%")))
	c.setVersion("v2")
	c.awaitPausedStep(1)
	c.approve()
	c.awaitPausedStep(2)
	c.setVersion("v1")
	c.eventually("the Rollout is Healthy", c.rolloutSatisfies(inPhase("Healthy")))
	c.awaitAllUpdated()
	c.checkReleaseEnded("v1", "False")
}

// Case 55: the Rollout is deleted at the first step.
func casePartitionDeleted(t *testing.T) {
	t.Parallel()
	c := startScenario(t, scenarioWithSteps(withTraffic(manualStep("20%"), "20%"), manualStep("60%")))
	c.setVersion("v2")
	c.awaitPausedStep(1)
	c.deleteRollout()
	d, err := c.getDeployment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d.Spec.Paused || d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		t.Errorf("paused %t, %s", d.Spec.Paused, d.Spec.Strategy.Type)
	}
	c.checkNetworkRestored()
	c.awaitAllUpdated()
}

// Case 56: the number of new pods follows the size of the Deployment.
func casePartitionScaled(t *testing.T) {
	t.Parallel()
	c := startScenario(t, scenarioWithSteps(withTraffic(manualStep("20%"), "20%"), manualStep("60%")))
	c.setVersion("v2")
	c.awaitPausedStep(1)
	readyIs := func(n int32) func(*rolloutReading) bool {
		return func(r *rolloutReading) bool { return r.releaseStatus().CanaryReady == n }
	}
	c.setReplicas(10)
	c.eventually("the Rollout counts two new pods", c.rolloutSatisfies(readyIs(2)))
	c.setReplicas(5)
	c.eventually("the Rollout counts one new pod", c.rolloutSatisfies(readyIs(1)))
	c.checkNow(c.rolloutSatisfies(stepPaused(1)))
	c.approve()
	c.awaitPausedStep(2)
	c.eventually("three new pods run", c.hasReplacedPods(3))
	c.approve()
	c.awaitAllUpdated()
	c.checkReleaseEnded("v2", "True")
}

// Case 57: another size of the only step runs the step again.
func casePartitionPlanEdited(t *testing.T) {
	t.Parallel()
	c := startScenario(t, withoutTraffic(scenarioWithSteps(manualStep("20%"))))
	c.setVersion("v2")
	c.awaitPausedStep(1)
	c.checkNow(c.hasReplacedPods(1))
	c.editPlan(func(r *v1beta1.Rollout) { stepsOf(r)[0].Replicas = new(intstr.FromString("60%")) })
	c.checkAfter(3*time.Second, "the step is processed again", c.rolloutSatisfies(func(r *rolloutReading) bool {
		return r.releaseStatus().RolloutHash == r.Annotations["rollouts.kruise.io/hash"]
	}))
	c.awaitPausedStep(1)
	c.checkNow(c.hasReplacedPods(3))
	c.approve()
	c.eventually("the Rollout is Healthy", c.rolloutSatisfies(inPhase("Healthy")))
	c.awaitAllUpdated()
	c.checkReleaseEnded("v2", "True")
}

// Case 29: a second Rollout for the same workload is refused. A disabled Rollout releases its
// workload at once, and claims it again when it is enabled.
func caseDisabled(t *testing.T) {
	t.Parallel()
	c := &kruiseClient{app: newNamespace(t), version: oldVersion}
	t.Cleanup(c.deleteEverything)
	c.plan = plan{replicas: 10, surge: 1}
	c.rollout = "rollout-first"
	newOne := func(name string) *v1alpha1.Rollout {
		r := newV1alpha1Rollout(withReplicas(v1alpha1.Step{}, 2), v1alpha1.Step{Replicas: new(intstr.FromString("50%"))})
		r.Name, r.Namespace = name, c.namespace
		r.Annotations = map[string]string{"rollouts.kruise.io/rolling-style": "partition"}
		r.Spec.Strategy.Canary.TrafficRoutings = nil
		return r
	}
	c.create(newOne(c.rollout))
	for range 2 {
		if err := testEnv.client.Create(t.Context(), newOne("rollout-second")); err == nil || apierrors.IsAlreadyExists(err) {
			t.Errorf("a second Rollout should be refused: %v", err)
		}
	}
	c.checkAfter(3*time.Second, "there is no workload", c.rolloutSatisfies(inPhase("Initial")))
	d := c.newDeployment()
	d.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(1))
	d.Annotations = map[string]string{"owner": "red"}
	quarter := intstr.FromString("25%")
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &quarter, MaxUnavailable: &quarter}
	c.create(d)
	c.awaitAllUpdated()
	c.awaitInitialHealthy()
	c.guard.atLeast(8)

	c.setVersion("v2")
	c.awaitPausedStep(1)
	if at := c.readRollout().releaseStatus(); at.Canary != 2 || at.CanaryReady != 2 {
		t.Errorf("want two new pods: %s", c.readRollout())
	}
	c.checkNow(c.isHeld)
	c.editV1alpha1Plan(func(r *v1alpha1.Rollout) { r.Spec.Disabled = true })
	c.checkAfter(5*time.Second, "the Deployment is restored", func(ctx context.Context) error {
		if err := c.rolloutSatisfies(inPhase("Disabled"))(ctx); err != nil {
			return err
		}
		return c.isReleased(ctx)
	})
	c.updateDeployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image("v3") })
	c.checkAfter(3*time.Second, "the Deployment is not held", c.isReleased)
	c.editV1alpha1Plan(func(r *v1alpha1.Rollout) { r.Spec.Disabled = false })
	c.checkAfter(3*time.Second, "the Rollout is Healthy", c.rolloutSatisfies(inPhase("Healthy")))
}

// isReleased returns an error if the Deployment is held or a BatchRelease is left.
func (c *kruiseClient) isReleased(ctx context.Context) error {
	d, err := c.getDeployment(ctx)
	if err == nil && d.Spec.Paused {
		err = errors.New("the Deployment is paused")
	}
	if err != nil {
		return err
	}
	return c.isGone(&v1beta1.BatchRelease{}, c.rollout)(ctx)
}
