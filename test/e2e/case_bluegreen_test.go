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

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// TestCaseBlueGreen runs scenarios of the blue-green style with the API version v1beta1.
func TestCaseBlueGreen(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*testing.T){
		"to the end":               caseBlueGreen,
		"rollback":                 caseBlueGreenRollback,
		"third version":            caseBlueGreenThirdVersion,
		"scaled":                   caseBlueGreenScaled,
		"deleted":                  caseBlueGreenDeletedOrDisabled((*kruiseClient).deleteRollout, nil),
		"disabled":                 caseBlueGreenDeletedOrDisabled((*kruiseClient).disableRollout, nil),
		"disabled with autoscaler": caseBlueGreenDeletedOrDisabled((*kruiseClient).disableRollout, olderScaler()),
		"deleted with autoscaler":  caseBlueGreenDeletedOrDisabled((*kruiseClient).deleteRollout, newerScaler()),
	}
	for _, name := range selectCases(cases, "third version") {
		t.Run(name, cases[name])
	}
}

// blueGreenSteps create half of the pods, then all pods, then move the traffic.
func blueGreenSteps() []v1beta1.Step {
	return []v1beta1.Step{
		withTraffic(manualStep("50%"), "0%"), withTraffic(manualStep("100%"), "0%"), withTraffic(manualStep("100%"), "50%"), withTraffic(manualStep("100%"), "100%"),
	}
}

func newRelease(steps ...v1beta1.Step) v1beta1.Release {
	return v1beta1.Release{Steps: steps, TrafficRoutings: []v1beta1.TrafficRoutingRef{{
		Service: name, GracePeriodSeconds: new(int32(1)), Ingress: &v1beta1.IngressRef{Name: name},
	}}}
}

func newRollout(strategy v1beta1.Strategy) *v1beta1.Rollout {
	return &v1beta1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Name: "rollouts-demo"},
		Spec: v1beta1.RolloutSpec{
			WorkloadRef: v1beta1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name}, Strategy: strategy,
		},
	}
}

func blueGreenScenario() scenario {
	return scenario{replicas: 5, routed: true, rollout: newRollout(v1beta1.Strategy{
		BlueGreen: &v1beta1.BlueGreenStrategy{Release: newRelease(blueGreenSteps()...)},
	})}
}

// hasPodCounts returns a check that the Deployment's status counts this many new pods, and that all
// pods are ready and none is available.
func (c *kruiseClient) hasPodCounts(updated, all int32) func(context.Context) error {
	return func(ctx context.Context) error {
		d, err := c.getDeployment(ctx)
		s := d.Status
		if err == nil && (s.ObservedGeneration != d.Generation || s.UpdatedReplicas != updated || s.Replicas != all ||
			s.ReadyReplicas != all || s.UnavailableReplicas != all) {
			err = fmt.Errorf("want %d new of %d: %+v", updated, all, s)
		}
		return err
	}
}

// savedSettings is the value of the annotation that keeps the owner's settings during a release.
type savedSettings struct {
	MaxUnavailable          *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	MaxSurge                *intstr.IntOrString `json:"maxSurge,omitempty"`
	MinReadySeconds         int32               `json:"minReadySeconds"`
	ProgressDeadlineSeconds *int32              `json:"progressDeadlineSeconds,omitempty"`
}

const originalKey = "rollouts.kruise.io/original-deployment-strategy"

func settingsOf(d *appsv1.Deployment) savedSettings {
	return savedSettings{
		MaxUnavailable: d.Spec.Strategy.RollingUpdate.MaxUnavailable, MaxSurge: d.Spec.Strategy.RollingUpdate.MaxSurge,
		MinReadySeconds: d.Spec.MinReadySeconds, ProgressDeadlineSeconds: d.Spec.ProgressDeadlineSeconds,
	}
}

func ownSettings() savedSettings {
	return savedSettings{MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: new(intstr.FromInt32(1)), ProgressDeadlineSeconds: new(int32(600))}
}

// checkSurge checks that the Deployment is configured to create this share of new pods.
func (c *kruiseClient) checkSurge(share string, stopped bool) {
	c.t.Helper()
	d, err := c.getDeployment(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	if d.Spec.Paused != stopped || d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		c.t.Errorf("paused %t, %s", d.Spec.Paused, d.Spec.Strategy.Type)
	}
	c.checkEqual("the settings", savedSettings{
		MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: new(intstr.FromString(share)),
		MinReadySeconds: 2147483646, ProgressDeadlineSeconds: new(int32(2147483647)),
	}, settingsOf(d))
	var kept savedSettings
	if err := json.Unmarshal([]byte(d.Annotations[originalKey]), &kept); err != nil {
		c.t.Fatal(err)
	}
	c.checkEqual("the saved settings", ownSettings(), kept)
}

// checkSettingsRestored checks that all settings of the owner are restored.
func (c *kruiseClient) checkSettingsRestored(version string) {
	c.t.Helper()
	d, err := c.getDeployment(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	if d.Spec.Paused || d.Annotations[originalKey] != "" || versionOf(&d.Spec.Template.Spec) != version {
		c.t.Errorf("paused %t, annotations %v, %s", d.Spec.Paused, d.Annotations, versionOf(&d.Spec.Template.Spec))
	}
	c.checkEqual("the settings", ownSettings(), settingsOf(d))
}

// releaseToStep1 releases v2 up to the first step: three new pods and five old ones.
func (c *kruiseClient) releaseToStep1() {
	c.t.Helper()
	stable := c.activeReplicaSets(name)[0]
	c.setVersion("v2")
	r := c.awaitPausedStep(1)
	if at := r.releaseStatus(); r.Status.Canary != nil || at.Updated != 3 || at.UpdatedReady != 3 {
		c.t.Errorf("want three new pods: %s", r)
	}
	c.checkNow(c.hasPodCounts(3, 8))
	c.checkSurge("50%", false)
	c.checkProgress(1, 2, stable, c.otherRevision(stable))
	c.checkServicesPinned()
}

// otherRevision returns the active revision that is not the stable one.
func (c *kruiseClient) otherRevision(stable string) string {
	c.t.Helper()
	both := c.activeReplicaSets(name)
	for _, hash := range both {
		if hash != stable && len(both) == 2 {
			return hash
		}
	}
	c.t.Fatalf("want one other revision than %s: %v", stable, both)
	return ""
}

// approveAndAwaitStep approves the current step and waits for the next one.
func (c *kruiseClient) approveAndAwaitStep(step int32) {
	c.t.Helper()
	c.approve()
	c.awaitPausedStep(step)
	c.checkNow(c.hasPodCounts(5, 10))
	c.checkSurge("100%", false)
	c.checkServicesPinned()
}

// goToFullStep goes to the step with all pods, which takes two batches.
func (c *kruiseClient) goToFullStep() {
	c.t.Helper()
	c.checkBatchLabels(3)
	c.approveAndAwaitStep(2)
	c.checkBatchLabels(3, 2)
}

// Case 34: half of the pods, all pods, half of the traffic, all of the traffic.
func caseBlueGreen(t *testing.T) {
	t.Parallel()
	s := blueGreenScenario()
	s.rollout.(*v1beta1.Rollout).Spec.Strategy.BlueGreen.TrafficRoutings[0].GracePeriodSeconds = nil
	c := startScenario(t, s)
	c.releaseToStep1()
	c.goToFullStep()
	c.approveAndAwaitStep(3)
	c.checkCanaryWeight(50)
	c.approveAndAwaitStep(4)
	c.checkCanaryWeight(100)
	c.approve()
	c.eventually("the Rollout is Healthy", c.rolloutSatisfies(inPhase("Healthy")))
	c.awaitAllUpdated()
	c.checkReleaseEnded("v2", "True")
	c.checkSettingsRestored("v2")
	c.checkRestored(workloadTypeLabel)
	c.addPod()
}

// Case 35: jump back to earlier steps, then set the earlier version again.
func caseBlueGreenRollback(t *testing.T) {
	t.Parallel()
	c := startScenario(t, blueGreenScenario())
	c.releaseToStep1()
	c.goToFullStep()
	c.approveAndAwaitStep(3)
	c.checkCanaryWeight(50)
	c.approveAndAwaitStep(4)
	c.checkCanaryWeight(100)
	c.jump(3)
	c.awaitPausedStep(3)
	c.checkCanaryWeight(50)
	c.jump(2)
	c.awaitPausedStep(2)
	c.checkCanaryWeight(0)
	c.checkNow(c.hasPodCounts(5, 10))
	c.setVersion("v1")
	c.eventually("the Rollout is Healthy", c.rolloutSatisfies(inPhase("Healthy")))
	c.awaitAllUpdated()
	c.checkReleaseEnded("v1", "False")
	c.checkSettingsRestored("v1")
	c.checkNoBatchLabels()
}

// Case 36: a third version is refused. When the second template is set again, the release is as
// before, paused. The first template ends the release.
func caseBlueGreenThirdVersion(t *testing.T) {
	t.Parallel()
	c := startScenario(t, blueGreenScenario())
	c.releaseToStep1()
	c.refreshDeployment()
	c.setVersion("v3")
	c.checkNow(c.rolloutSatisfies(stepPaused(1)))
	c.checkAfter(time.Second, "no pod is new", c.hasPodCounts(0, 8))
	c.checkSurge("50%", true)
	c.checkNow(c.rolloutSatisfies(stepPaused(1)))
	c.refreshDeployment()
	c.setVersion("v2")
	c.checkAfter(time.Second, "three pods are new", c.hasPodCounts(3, 8))
	c.checkSurge("50%", true)
	c.consistently("the Deployment stays paused", c.isHeld)
	c.setVersion("v1")
	c.eventually("the Rollout is Healthy", c.rolloutSatisfies(inPhase("Healthy")))
	c.awaitAllUpdated()
	c.checkReleaseEnded("v1", "False")
	c.checkSettingsRestored("v1")
}

// awaitUpdatedPods waits until the pods of a new size are requested and ready, and until the
// Rollout counts the updated ones.
func (c *kruiseClient) awaitUpdatedPods(updated, all int32) {
	c.t.Helper()
	c.checkAfter(3*time.Second, fmt.Sprintf("%d of %d pods are new", updated, all), func(ctx context.Context) error {
		d, err := c.getDeployment(ctx)
		if s := d.Status; err == nil && (s.ObservedGeneration != d.Generation || s.Replicas != all || s.UpdatedReplicas != updated) {
			err = fmt.Errorf("%+v", s)
		}
		return err
	})
	c.eventually("all pods are ready", c.hasPodCounts(updated, all))
	c.checkAfter(time.Second, "the Rollout counts them", c.rolloutSatisfies(func(r *rolloutReading) bool {
		return r.releaseStatus().Updated == updated && r.releaseStatus().UpdatedReady == updated
	}))
}

// Case 37: scaling the Deployment scales both versions.
func caseBlueGreenScaled(t *testing.T) {
	t.Parallel()
	c := startScenario(t, blueGreenScenario())
	c.releaseToStep1()
	for _, to := range []struct{ size, updated, all int32 }{{6, 3, 9}, {7, 4, 11}, {8, 4, 12}, {4, 2, 6}} {
		c.setReplicas(to.size)
		c.awaitUpdatedPods(to.updated, to.all)
		c.checkBatchLabels(int(to.updated))
	}
	c.approve()
	c.awaitPausedStep(2)
	c.checkNow(c.hasPodCounts(4, 8))
	c.checkSurge("100%", false)
	for _, to := range []struct {
		size, updated, all int32
		batches            []int
	}{{7, 7, 14, []int{4, 3}}, {8, 8, 16, []int{4, 4}}, {4, 4, 8, nil}} {
		c.setReplicas(to.size)
		c.awaitUpdatedPods(to.updated, to.all)
		if to.batches != nil {
			c.checkBatchLabels(to.batches...)
		}
	}
}

// Cases 38 to 41: the Rollout is deleted or disabled at the first step. All settings are restored,
// and v2 is released natively. An autoscaler, of either API version, is disabled meanwhile.
func caseBlueGreenDeletedOrDisabled(leave func(*kruiseClient), scaler client.Object) func(*testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		c := startScenario(t, blueGreenScenario())
		if scaler != nil {
			c.create(scaler)
		}
		c.releaseToStep1()
		if scaler != nil {
			c.checkNow(c.autoscalerTargets(name + "-DisableByRollout"))
		}
		leave(c)
		c.checkSettingsRestored("v2")
		c.checkNetworkRestored()
		if scaler != nil {
			c.checkNow(c.autoscalerTargets(name))
		}
		c.awaitAllUpdated()
		c.awaitPods(versions{"v2": 5})
	}
}

func olderScaler() client.Object {
	return &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			MinReplicas:    new(int32(2)), MaxReplicas: 6,
		},
	}
}

func newerScaler() client.Object {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			MinReplicas:    new(int32(2)), MaxReplicas: 6,
		},
	}
}

// deleteRollout deletes the Rollout and waits until it is gone.
func (c *kruiseClient) deleteRollout() {
	c.t.Helper()
	if err := testEnv.client.Delete(c.t.Context(), c.newRolloutObject()); err != nil {
		c.t.Fatal(err)
	}
	c.eventually("the Rollout is gone", c.isGone(&v1beta1.Rollout{}, c.rollout))
}

// disableRollout disables the Rollout and waits until it is Disabled.
func (c *kruiseClient) disableRollout() {
	c.t.Helper()
	c.editPlan(func(r *v1beta1.Rollout) { r.Spec.Disabled = true })
	c.eventually("the Rollout is Disabled", c.rolloutSatisfies(inPhase("Disabled")))
}
