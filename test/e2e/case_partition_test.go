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

// TestCasePartition tells stories of the partition style, told in v1beta1.
func TestCasePartition(t *testing.T) {
	t.Parallel()
	stories := map[string]func(*testing.T){
		"to the end": casePartition,
		"third":      casePartitionThird,
		"back":       casePartitionBack,
		"deleted":    casePartitionDeleted,
		"scaled":     casePartitionScaled,
		"replanned":  casePartitionReplanned,
		"disabled":   caseDisabled,
	}
	for _, name := range some(stories, "disabled") {
		t.Run(name, stories[name])
	}
}

// partScene has even steps, of which the first ones name traffic.
func partScene(traffic ...string) scene {
	return stepScene(evenSteps(traffic...)...)
}

func stepScene(steps ...v1beta1.Step) scene {
	return scene{replicas: 5, routed: true, rollout: newRollout(v1beta1.Strategy{Canary: &v1beta1.CanaryStrategy{
		Release: newRelease(steps...), EnableExtraWorkloadForCanary: new(false),
	}})}
}

// unrouted has no network at all.
func unrouted(s scene) scene {
	s.routed = false
	s.rollout.(*v1beta1.Rollout).Spec.Strategy.Canary.TrafficRoutings = nil
	return s
}

// Case 52: a step with traffic, one without, to the end.
func casePartition(t *testing.T) {
	t.Parallel()
	s := stepScene(with(manual("20%"), "20%"), manual("60%"))
	s.rollout.(*v1beta1.Rollout).Spec.Strategy.Canary.TrafficRoutings[0].GracePeriodSeconds = nil
	c := opens(t, s)
	stable := c.active(name)[0]
	c.ships("v2")
	c.pauses(1)
	c.sees(c.replaced(1))
	c.progress(1, 2, stable, c.other(stable))
	c.sends(20)
	c.approves()
	c.pauses(2)
	c.sees(c.replaced(3))
	c.restored()
	c.approves()
	c.until("the Rollout is Healthy", c.that(inPhase("Healthy")))
	c.allReady()
	c.done("v2", "True")
	c.traceless(workloadType)
	c.grows()
}

// Case 53: a third version, sent with marks of the second one's first step,
// begins at step 1; the revision to go back to is still the first.
func casePartitionThird(t *testing.T) {
	t.Parallel()
	c := opens(t, unrouted(stepScene(manual("20%"), manual("60%"), manual("100%"))))
	first := c.active(name)[0]
	c.ships("v2")
	c.pauses(1)
	c.sees(c.replaced(1))
	c.rereads()
	c.approves()
	c.pauses(2)
	c.sees(c.replaced(3))
	c.ships("v3")
	c.pauses(1)
	c.sees(c.replaced(1))
	d, err := c.deployment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if at, label := c.looks().at(), d.Labels["rollouts.kruise.io/stable-revision"]; at.StableRevision != label || label != first {
		t.Errorf("stable is %s, labelled %s, was %s", at.StableRevision, label, first)
	}
	c.approves()
	c.pauses(2)
	c.sees(c.replaced(3))
}

// Case 54: back from the second step.
func casePartitionBack(t *testing.T) {
	t.Parallel()
	c := opens(t, stepScene(with(manual("20%"), "20%"), manual("60%")))
	c.ships("v2")
	c.pauses(1)
	c.approves()
	c.pauses(2)
	c.ships("v1")
	c.until("the Rollout is Healthy", c.that(inPhase("Healthy")))
	c.allReady()
	c.done("v1", "False")
}

// Case 55: deleted at the first step.
func casePartitionDeleted(t *testing.T) {
	t.Parallel()
	c := opens(t, stepScene(with(manual("20%"), "20%"), manual("60%")))
	c.ships("v2")
	c.pauses(1)
	c.removes()
	d, err := c.deployment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d.Spec.Paused || d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		t.Errorf("paused %t, %s", d.Spec.Paused, d.Spec.Strategy.Type)
	}
	c.restored()
	c.allReady()
}

// Case 56: the share follows the size.
func casePartitionScaled(t *testing.T) {
	t.Parallel()
	c := opens(t, stepScene(with(manual("20%"), "20%"), manual("60%")))
	c.ships("v2")
	c.pauses(1)
	readyIs := func(n int32) func(*reading) bool {
		return func(r *reading) bool { return r.at().CanaryReady == n }
	}
	c.resizes(10)
	c.until("two are told", c.that(readyIs(2)))
	c.resizes(5)
	c.until("one is told", c.that(readyIs(1)))
	c.sees(c.that(paused(1)))
	c.approves()
	c.pauses(2)
	c.until("it runs three new pods", c.replaced(3))
	c.approves()
	c.allReady()
	c.done("v2", "True")
}

// Case 57: another share for the only step runs it again.
func casePartitionReplanned(t *testing.T) {
	t.Parallel()
	c := opens(t, unrouted(stepScene(manual("20%"))))
	c.ships("v2")
	c.pauses(1)
	c.sees(c.replaced(1))
	c.replans(func(r *v1beta1.Rollout) { stepsOf(r)[0].Replicas = new(intstr.FromString("60%")) })
	c.after(3*time.Second, "the step is not what it was", c.that(func(r *reading) bool {
		return r.at().RolloutHash == r.Annotations["rollouts.kruise.io/hash"]
	}))
	c.pauses(1)
	c.sees(c.replaced(3))
	c.approves()
	c.until("the Rollout is Healthy", c.that(inPhase("Healthy")))
	c.allReady()
	c.done("v2", "True")
}

// Case 29: a second Rollout of a workload is refused; a disabled one lets go of
// its workload at once, and is back at once.
func caseDisabled(t *testing.T) {
	t.Parallel()
	c := &outsider{app: space(t), speaks: oldVersion}
	t.Cleanup(c.leaves)
	c.plan = plan{replicas: 10, surge: 1}
	c.rollout = "rollout-first"
	newOne := func(name string) *v1alpha1.Rollout {
		r := oldRollout(sized(v1alpha1.Step{}, 2), v1alpha1.Step{Replicas: new(intstr.FromString("50%"))})
		r.Name, r.Namespace = name, c.namespace
		r.Annotations = map[string]string{"rollouts.kruise.io/rolling-style": "partition"}
		r.Spec.Strategy.Canary.TrafficRoutings = nil
		return r
	}
	c.create(newOne(c.rollout))
	for range 2 {
		if err := here.client.Create(t.Context(), newOne("rollout-second")); err == nil || apierrors.IsAlreadyExists(err) {
			t.Errorf("a second Rollout should be refused: %v", err)
		}
	}
	c.after(3*time.Second, "there is no workload", c.that(inPhase("Initial")))
	d := c.newDeployment()
	d.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(1))
	d.Annotations = map[string]string{"owner": "red"}
	quarter := intstr.FromString("25%")
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &quarter, MaxUnavailable: &quarter}
	c.create(d)
	c.allReady()
	c.begins()
	c.guard.atLeast(8)

	c.ships("v2")
	c.pauses(1)
	if at := c.looks().at(); at.Canary != 2 || at.CanaryReady != 2 {
		t.Errorf("want two new pods: %s", c.looks())
	}
	c.sees(c.held)
	c.replansOld(func(r *v1alpha1.Rollout) { r.Spec.Disabled = true })
	c.after(5*time.Second, "it is given back", func(ctx context.Context) error {
		if err := c.that(inPhase("Disabled"))(ctx); err != nil {
			return err
		}
		return c.free(ctx)
	})
	c.updates(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image("v3") })
	c.after(3*time.Second, "nobody holds it", c.free)
	c.replansOld(func(r *v1alpha1.Rollout) { r.Spec.Disabled = false })
	c.after(3*time.Second, "the Rollout is Healthy", c.that(inPhase("Healthy")))
}

// free wants the Deployment not to be held, and no batch to be left.
func (c *outsider) free(ctx context.Context) error {
	d, err := c.deployment(ctx)
	if err == nil && d.Spec.Paused {
		err = errors.New("the Deployment is paused")
	}
	if err != nil {
		return err
	}
	return c.gone(&v1beta1.BatchRelease{}, c.rollout)(ctx)
}
