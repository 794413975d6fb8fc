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

// TestCaseBlueGreen tells stories of the blue-green style, told in v1beta1.
func TestCaseBlueGreen(t *testing.T) {
	t.Parallel()
	stories := map[string]func(*testing.T){
		"to the end":     caseBlueGreen,
		"back":           caseBlueGreenBack,
		"third":          caseBlueGreenThird,
		"scaled":         caseBlueGreenScaled,
		"deleted":        caseBlueGreenLeft((*outsider).removes, nil),
		"disabled":       caseBlueGreenLeft((*outsider).disables, nil),
		"scaler":         caseBlueGreenLeft((*outsider).disables, olderScaler()),
		"scaler deleted": caseBlueGreenLeft((*outsider).removes, newerScaler()),
	}
	for _, name := range some(stories, "third") {
		t.Run(name, stories[name])
	}
}

// blueGreenSteps are half of the pods, all of them, and then the requests.
func blueGreenSteps() []v1beta1.Step {
	return []v1beta1.Step{
		with(manual("50%"), "0%"), with(manual("100%"), "0%"), with(manual("100%"), "50%"), with(manual("100%"), "100%"),
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

func greenScene() scene {
	return scene{replicas: 5, routed: true, rollout: newRollout(v1beta1.Strategy{
		BlueGreen: &v1beta1.BlueGreenStrategy{Release: newRelease(blueGreenSteps()...)},
	})}
}

// counted wants the Deployment to tell so of its pods: how many are new, and
// that all of them are ready though none is available.
func (c *outsider) counted(updated, all int32) func(context.Context) error {
	return func(ctx context.Context) error {
		d, err := c.deployment(ctx)
		s := d.Status
		if err == nil && (s.ObservedGeneration != d.Generation || s.UpdatedReplicas != updated || s.Replicas != all ||
			s.ReadyReplicas != all || s.UnavailableReplicas != all) {
			err = fmt.Errorf("want %d new of %d: %+v", updated, all, s)
		}
		return err
	}
}

// written is what stands in the annotation meanwhile.
type written struct {
	MaxUnavailable          *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	MaxSurge                *intstr.IntOrString `json:"maxSurge,omitempty"`
	MinReadySeconds         int32               `json:"minReadySeconds"`
	ProgressDeadlineSeconds *int32              `json:"progressDeadlineSeconds,omitempty"`
}

const originalKey = "rollouts.kruise.io/original-deployment-strategy"

func settingsOf(d *appsv1.Deployment) written {
	return written{
		MaxUnavailable: d.Spec.Strategy.RollingUpdate.MaxUnavailable, MaxSurge: d.Spec.Strategy.RollingUpdate.MaxSurge,
		MinReadySeconds: d.Spec.MinReadySeconds, ProgressDeadlineSeconds: d.Spec.ProgressDeadlineSeconds,
	}
}

func ownSettings() written {
	return written{MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: new(intstr.FromInt32(1)), ProgressDeadlineSeconds: new(int32(600))}
}

// surges wants the Deployment to be set up for a share of new pods.
func (c *outsider) surges(share string, stopped bool) {
	c.t.Helper()
	d, err := c.deployment(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	if d.Spec.Paused != stopped || d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		c.t.Errorf("paused %t, %s", d.Spec.Paused, d.Spec.Strategy.Type)
	}
	c.same("the settings", written{
		MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: new(intstr.FromString(share)),
		MinReadySeconds: 2147483646, ProgressDeadlineSeconds: new(int32(2147483647)),
	}, settingsOf(d))
	var kept written
	if err := json.Unmarshal([]byte(d.Annotations[originalKey]), &kept); err != nil {
		c.t.Fatal(err)
	}
	c.same("what is kept", ownSettings(), kept)
}

// isOwn wants everything that the owner wrote, at once.
func (c *outsider) isOwn(version string) {
	c.t.Helper()
	d, err := c.deployment(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	if d.Spec.Paused || d.Annotations[originalKey] != "" || versionOf(&d.Spec.Template.Spec) != version {
		c.t.Errorf("paused %t, annotations %v, %s", d.Spec.Paused, d.Annotations, versionOf(&d.Spec.Template.Spec))
	}
	c.same("the settings", ownSettings(), settingsOf(d))
}

// halfWay releases v2 and goes to its first step: three pods beside five.
func (c *outsider) halfWay() {
	c.t.Helper()
	stable := c.active(name)[0]
	c.ships("v2")
	r := c.pauses(1)
	if at := r.at(); r.Status.Canary != nil || at.Updated != 3 || at.UpdatedReady != 3 {
		c.t.Errorf("want three new pods: %s", r)
	}
	c.sees(c.counted(3, 8))
	c.surges("50%", false)
	c.progress(1, 2, stable, c.other(stable))
	c.pinned()
}

// other is the revision that is active beside one.
func (c *outsider) other(stable string) string {
	c.t.Helper()
	both := c.active(name)
	for _, hash := range both {
		if hash != stable && len(both) == 2 {
			return hash
		}
	}
	c.t.Fatalf("want one revision beside %s: %v", stable, both)
	return ""
}

// goes approves and waits for the next step.
func (c *outsider) goes(step int32) {
	c.t.Helper()
	c.approves()
	c.pauses(step)
	c.sees(c.counted(5, 10))
	c.surges("100%", false)
	c.pinned()
}

// whole goes on to all of the pods, which two batches have brought.
func (c *outsider) whole() {
	c.t.Helper()
	c.brought(3)
	c.goes(2)
	c.brought(3, 2)
}

// Case 34: half of the pods, all of them, half of the requests, all of them.
func caseBlueGreen(t *testing.T) {
	t.Parallel()
	s := greenScene()
	s.rollout.(*v1beta1.Rollout).Spec.Strategy.BlueGreen.TrafficRoutings[0].GracePeriodSeconds = nil
	c := opens(t, s)
	c.halfWay()
	c.whole()
	c.goes(3)
	c.sends(50)
	c.goes(4)
	c.sends(100)
	c.approves()
	c.until("the Rollout is Healthy", c.that(inPhase("Healthy")))
	c.allReady()
	c.done("v2", "True")
	c.isOwn("v2")
	c.traceless(workloadType)
	c.grows()
}

// Case 35: back in steps, then back to the earlier version.
func caseBlueGreenBack(t *testing.T) {
	t.Parallel()
	c := opens(t, greenScene())
	c.halfWay()
	c.whole()
	c.goes(3)
	c.sends(50)
	c.goes(4)
	c.sends(100)
	c.jumps(3)
	c.pauses(3)
	c.sends(50)
	c.jumps(2)
	c.pauses(2)
	c.sends(0)
	c.sees(c.counted(5, 10))
	c.ships("v1")
	c.until("the Rollout is Healthy", c.that(inPhase("Healthy")))
	c.allReady()
	c.done("v1", "False")
	c.isOwn("v1")
	c.unmarked()
}

// Case 36: there is no room for a third version. The second may come back, and
// then it stays as it was, paused; and the first ends it all.
func caseBlueGreenThird(t *testing.T) {
	t.Parallel()
	c := opens(t, greenScene())
	c.halfWay()
	c.rereads()
	c.ships("v3")
	c.sees(c.that(paused(1)))
	c.after(time.Second, "no pod is new", c.counted(0, 8))
	c.surges("50%", true)
	c.sees(c.that(paused(1)))
	c.rereads()
	c.ships("v2")
	c.after(time.Second, "three pods are new", c.counted(3, 8))
	c.surges("50%", true)
	c.stays("it stays paused", c.held)
	c.ships("v1")
	c.until("the Rollout is Healthy", c.that(inPhase("Healthy")))
	c.allReady()
	c.done("v1", "False")
	c.isOwn("v1")
}

// tellsOf wants the pods to be asked for soon after a resize; and once they are
// ready, the Rollout to tell how many of them are new.
func (c *outsider) tellsOf(updated, all int32) {
	c.t.Helper()
	c.after(3*time.Second, fmt.Sprintf("%d of %d are new", updated, all), func(ctx context.Context) error {
		d, err := c.deployment(ctx)
		if s := d.Status; err == nil && (s.ObservedGeneration != d.Generation || s.Replicas != all || s.UpdatedReplicas != updated) {
			err = fmt.Errorf("%+v", s)
		}
		return err
	})
	c.until("all are ready", c.counted(updated, all))
	c.after(time.Second, "the Rollout tells so", c.that(func(r *reading) bool {
		return r.at().Updated == updated && r.at().UpdatedReady == updated
	}))
}

// Case 37: either version grows and shrinks with the Deployment.
func caseBlueGreenScaled(t *testing.T) {
	t.Parallel()
	c := opens(t, greenScene())
	c.halfWay()
	for _, to := range []struct{ size, updated, all int32 }{{6, 3, 9}, {7, 4, 11}, {8, 4, 12}, {4, 2, 6}} {
		c.resizes(to.size)
		c.tellsOf(to.updated, to.all)
		c.brought(int(to.updated))
	}
	c.approves()
	c.pauses(2)
	c.sees(c.counted(4, 8))
	c.surges("100%", false)
	for _, to := range []struct {
		size, updated, all int32
		batches            []int
	}{{7, 7, 14, []int{4, 3}}, {8, 8, 16, []int{4, 4}}, {4, 4, 8, nil}} {
		c.resizes(to.size)
		c.tellsOf(to.updated, to.all)
		if to.batches != nil {
			c.brought(to.batches...)
		}
	}
}

// Cases 38 to 41: the Rollout leaves at half way, everything is given back, and
// v2 goes on. An autoscaler, of either version of its API, does not act meanwhile.
func caseBlueGreenLeft(leave func(*outsider), scaler client.Object) func(*testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		c := opens(t, greenScene())
		if scaler != nil {
			c.create(scaler)
		}
		c.halfWay()
		if scaler != nil {
			c.sees(c.scaled(name + "-DisableByRollout"))
		}
		leave(c)
		c.isOwn("v2")
		c.restored()
		if scaler != nil {
			c.sees(c.scaled(name))
		}
		c.allReady()
		c.settled(versions{"v2": 5})
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

// removes deletes the Rollout and waits until it is gone.
func (c *outsider) removes() {
	c.t.Helper()
	if err := here.client.Delete(c.t.Context(), c.object()); err != nil {
		c.t.Fatal(err)
	}
	c.until("the Rollout is gone", c.gone(&v1beta1.Rollout{}, c.rollout))
}

// disables waits until the Rollout is.
func (c *outsider) disables() {
	c.t.Helper()
	c.replans(func(r *v1beta1.Rollout) { r.Spec.Disabled = true })
	c.until("the Rollout is Disabled", c.that(inPhase("Disabled")))
}
