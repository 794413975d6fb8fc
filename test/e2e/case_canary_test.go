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

// TestCaseCanary tells stories of the canary style, told in v1alpha1.
func TestCaseCanary(t *testing.T) {
	t.Parallel()
	stories := map[string]func(*testing.T){
		"small":      caseCanarySmall,
		"to the end": caseCanary,
		"back":       caseCanaryBack,
		"third":      caseCanaryThird,
		"grows":      caseCanaryGrows,
		"shrinks":    caseCanaryShrinks,
		"paused":     caseCanaryPaused,
		"deleted":    caseCanaryDeleted,
		"bad":        caseCanaryBad,
		"replanned":  caseCanaryReplanned,
		"matches":    caseCanaryMatches,
		"node port":  caseCanaryNodePort,
	}
	for _, name := range some(stories, "matches") {
		t.Run(name, stories[name])
	}
}

// Case 9: five steps on three pods; the extra ones have labels of their own, and
// the owner's template has a label that is not the owner's to set.
func caseCanarySmall(t *testing.T) {
	t.Parallel()
	s := oldScene(3, weighs(20), weighs(40), weighs(60), weighs(80), weighs(90))
	s.rollout.(*v1alpha1.Rollout).Spec.Strategy.Canary.PatchPodTemplateMetadata = &v1alpha1.PodTemplateMetadata{
		Labels: map[string]string{"pod": "canary"}, Annotations: map[string]string{"pod": "canary"},
	}
	s.deployment = func(d *appsv1.Deployment) {
		d.Spec.Template.Labels["pod"], d.Spec.Template.Labels["pod-template-hash"] = "stable", "abcdefg"
		d.Spec.Template.Annotations = map[string]string{"pod": "stable"}
	}
	c := opens(t, s)
	c.ships("v2")
	c.until("it holds still", c.holdsStill)
	for i, weight := range []int{20, 40, 60, 80, 90} {
		c.pauses(int32(i + 1))
		c.beside("v2", []int32{1, 2, 2, 3, 3}[i])
		c.sends(weight)
		if m := c.companion().Spec.Template; m.Labels["pod"] != "canary" || m.Annotations["pod"] != "canary" {
			t.Errorf("the extra pods have labels %v, annotations %v", m.Labels, m.Annotations)
		}
		c.approves()
	}
	c.done("v2", "True")
}

// Case 10: two steps to the end. Both Deployments name the version alike.
func caseCanary(t *testing.T) {
	t.Parallel()
	s := oldScene(5, sized(weighs(20), 2), weighs(60))
	s.rollout.(*v1alpha1.Rollout).Spec.Strategy.Canary.TrafficRoutings[0].GracePeriodSeconds = nil
	c := opens(t, s)
	c.ships("v2")
	c.after(2*time.Second, "it holds still", c.holdsStill)
	c.pauses(1)
	stable, hash := c.beside("v2", 2)
	c.sends(20)
	c.progress(1, 2, stable, hash)
	c.approves()
	c.pauses(2)
	c.beside("v2", 3)
	c.sends(60)
	c.approves()
	c.done("v2", "True")
	if left := c.active(name); !slices.Equal(left, []string{hash}) {
		t.Errorf("the Deployment has %v, want %s", left, hash)
	}
	c.sees(c.extra(0))
	c.traceless(workloadType)
	c.grows()
}

// Case 11: the earlier template ends the release.
func caseCanaryBack(t *testing.T) {
	t.Parallel()
	c := opens(t, oldScene(5, usualSteps()...))
	c.ships("v2")
	c.until("it holds still", c.holdsStill)
	c.pauses(1)
	stable, _ := c.beside("v2", 1)
	c.rereads()
	c.ships("v1")
	c.done("v1", "False")
	if at := c.looks().at(); at.StableRevision != stable {
		t.Errorf("stable is %s, was %s", at.StableRevision, stable)
	}
	c.guard.atMost("v2", 0)
	c.settled(versions{"v1": 5})
}

// Case 12: a third version takes the place of the second, and begins at step 1.
func caseCanaryThird(t *testing.T) {
	t.Parallel()
	c := opens(t, oldScene(5, weighs(20), weighs(40), lasts(weighs(60), 1), lasts(weighs(80), 1), lasts(weighs(100), 1)))
	c.ships("v2")
	c.until("it holds still", c.holdsStill)
	c.pauses(1)
	stable, second := c.beside("v2", 1)
	c.progress(1, 2, stable, second)
	c.approves()
	c.pauses(2)
	c.ships("v3")
	c.pauses(1)
	same, third := c.beside("v3", 1)
	c.sends(20)
	c.progress(1, 2, stable, third)
	if same != stable || third == second {
		t.Errorf("stable %s, then %s; second %s, third %s", stable, same, second, third)
	}
	c.approves()
	c.pauses(2)
	c.approves()
	c.done("v3", "True")
}

// Case 13: extra pods follow a Deployment that grows.
func caseCanaryGrows(t *testing.T) {
	t.Parallel()
	c := opens(t, oldScene(5, lasts(weighs(20), 1), weighs(40), lasts(weighs(60), 1), lasts(weighs(100), 0)))
	c.ships("v2")
	c.pauses(2)
	_, hash := c.beside("v2", 2)
	c.resizes(10)
	c.after(3*time.Second, "there will be four", func(context.Context) error {
		if n := *c.companion().Spec.Replicas; n != 4 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	c.until("four are ready", c.extraReady(4))
	c.after(time.Second, "four are told", c.that(func(r *reading) bool {
		return paused(2)(r) && r.at().Canary == 4 && r.at().CanaryReady == 4 && r.at().PodTemplateHash == hash
	}))
	c.until("ten others are there", c.holdsStill)
	c.beside("v2", 4)
	c.guard.atLeast(10)
	c.approves()
	c.done("v2", "True")
}

// Case 14: extra pods do not follow a Deployment that shrinks.
func caseCanaryShrinks(t *testing.T) {
	t.Parallel()
	c := opens(t, oldScene(10, lasts(weighs(20), 1), lasts(weighs(40), 1), weighs(60), lasts(weighs(100), 0)))
	c.ships("v2")
	c.pauses(3)
	c.beside("v2", 6)
	c.resizes(5)
	c.after(3*time.Second, "five are left", c.holdsStill)
	c.pauses(3)
	c.beside("v2", 6)
	c.approves()
	c.done("v2", "True")
}

// Case 15: paused by its spec, a release stands still.
func caseCanaryPaused(t *testing.T) {
	t.Parallel()
	c := opens(t, oldScene(5, lasts(weighs(20), 2), lasts(weighs(40), 2), lasts(weighs(60), 1), lasts(weighs(80), 1), lasts(weighs(100), 0)))
	c.ships("v2")
	c.after(3*time.Second, "it holds still", c.holdsStill)
	c.replansOld(func(r *v1alpha1.Rollout) { r.Spec.Strategy.Paused = new(true) })
	was := c.looks()
	if was.Status.Phase != "Progressing" {
		t.Fatalf("it should be Progressing: %s", was)
	}
	c.after(6*time.Second, "it is paused", c.that(func(r *reading) bool {
		p := r.condition("Progressing")
		return p.Reason == "Paused" && p.Status == "True" && r.at().Step == was.at().Step
	}))
	c.replansOld(func(r *v1alpha1.Rollout) { r.Spec.Strategy.Paused = new(false) })
	c.done("v2", "True")
}

// Case 16: deleted in the foreground, in the middle of a step.
func caseCanaryDeleted(t *testing.T) {
	t.Parallel()
	c := opens(t, oldScene(5, lasts(weighs(20), 10), lasts(weighs(60), 10), lasts(weighs(100), 10)))
	c.ships("v2")
	c.after(3*time.Second, "it holds still", c.holdsStill)
	if err := here.client.DeleteAllOf(t.Context(), &v1alpha1.Rollout{}, client.InNamespace(c.namespace),
		client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	c.until("the Rollout is gone", c.gone(&v1beta1.Rollout{}, c.rollout))
	c.updates(func(d *appsv1.Deployment) { d.Spec.Paused = false })
	c.allReady()
	c.restored()
	c.runsOnly("v2")
	c.sees(c.extra(0))
}

// Case 17: a version that does not start is told as such, and replaced.
func caseCanaryBad(t *testing.T) {
	t.Parallel()
	c := opens(t, oldScene(5, lasts(weighs(20), 1), lasts(weighs(60), 1), lasts(weighs(100), 1)))
	c.ships("failed")
	c.until("it holds still", c.holdsStill)
	c.after(5*time.Second, "one pod is tried", c.that(func(r *reading) bool {
		at := r.at()
		return r.Status.Phase == "Progressing" && at.Step == 1 && at.State == "StepUpgrade" && at.Canary == 1 && at.CanaryReady == 0
	}))
	c.guard.atMost("failed", 1)
	c.ships("v3")
	c.done("v3", "True")
}

// Case 18: another plan with fewer steps, in the middle.
func caseCanaryReplanned(t *testing.T) {
	t.Parallel()
	c := opens(t, oldScene(10, usualSteps()...))
	c.ships("v2")
	c.pauses(1)
	stable, hash := c.beside("v2", 2)
	c.replansOld(func(r *v1alpha1.Rollout) {
		r.Spec = oldRollout(weighs(10), weighs(30), lasts(weighs(100), 1)).Spec
	})
	c.pauses(2)
	if err := here.client.Get(t.Context(), c.key(c.rollout), &v1alpha1.BatchRelease{}); err != nil {
		t.Error(err)
	}
	c.beside("v2", 3)
	c.progress(2, 3, stable, hash)
	c.sends(30)
	c.approves()
	c.done("v2", "True")
}

// Case 19: requests are chosen by what they carry, then by their share.
func caseCanaryMatches(t *testing.T) {
	t.Parallel()
	chosen := sized(v1alpha1.Step{Matches: []v1alpha1.RouteMatch{
		{Headers: []v1alpha1.ValueMatch{{Type: new("RegularExpression"), Name: "user_id", Value: "123456"}}},
		{Headers: []v1alpha1.ValueMatch{{Name: "canary-by-cookie", Value: "demo"}}},
	}}, 1)
	c := opens(t, oldScene(3, chosen, sized(weighs(30), 2)))
	c.ships("v2")
	c.pauses(1)
	stable, hash := c.beside("v2", 1)
	c.progress(1, 2, stable, hash)
	c.pinned()
	c.same("the rules", map[string]string{
		"canary": "true", "canary-by-header": "user_id", "canary-by-header-pattern": "123456", "canary-by-cookie": "demo",
	}, c.rules())
	c.approves()
	c.pauses(2)
	c.beside("v2", 2)
	c.same("the rules", map[string]string{"canary": "true", "canary-weight": "30"}, c.rules())
	c.approves()
	c.done("v2", "True")
}

// Case 22: a Service with a port of the nodes has a canary with none of its own.
func caseCanaryNodePort(t *testing.T) {
	t.Parallel()
	s := oldScene(5, sized(weighs(20), 2))
	s.service = func(service *corev1.Service) {
		service.Spec.Type = corev1.ServiceTypeNodePort
		service.Spec.Ports[0].NodePort = 30000
	}
	c := opens(t, s)
	c.ships("v2")
	c.pauses(1)
	stable, hash := c.beside("v2", 2)
	c.sends(20)
	c.progress(1, -1, stable, hash)
	c.sees(c.twin)
	c.approves()
	c.done("v2", "True")
	if left := c.active(name); !slices.Equal(left, []string{hash}) {
		t.Errorf("the Deployment has %v, want %s", left, hash)
	}
}
