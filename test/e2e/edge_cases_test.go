// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// Rare situations that must not release a version unexpectedly.

// withSlowPods makes pods take up to 4 s to become ready.
func withSlowPods(p plan) plan {
	p.annotations = map[string]string{"test.weir/ready-within": "4s"}
	return p
}

func (a *app) isInitial(ctx context.Context) error {
	r, err := a.getRollout(ctx)
	if err == nil && r.Status.Phase != v1beta1.PhaseInitial {
		err = fmt.Errorf("the Rollout is %s: %s", r.Status.Phase, r.Status.Message)
	}
	return err
}

// TestCreatedWhileRolling creates a Rollout during a native rolling update. The update is not
// interrupted, and later releases are held.
func TestCreatedWhileRolling(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	a.plan = withSlowPods(planWithoutTraffic())
	a.create(a.newDeployment())
	a.eventually("the Deployment is ready", a.runs(versions{"v1": 6}))
	a.guard = watchPods(a)
	a.guard.atLeast(5)
	a.release("v2")
	a.create(a.newRollout())
	a.eventually("the Rollout reports it", a.messageContains("rolling update"))
	a.checkNow(a.isInitial)
	a.eventually("the Rollout is Healthy", func(ctx context.Context) error {
		if d, err := a.getDeployment(ctx); err == nil && d.Spec.Paused {
			t.Error("the native rolling update is held")
		}
		return a.isHealthy(ctx)
	})
	a.eventually("every pod of v2 is ready", a.runs(versions{"v2": 6}))
	a.release("v3")
	a.checkNow(a.isHeld)
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.checkNow(a.runs(versions{"v2": 4, "v3": 2}))
}

// TestNoReleaseWithoutTemplateChange changes fields other than the template, which must not start a
// release in any style.
func TestNoReleaseWithoutTemplateChange(t *testing.T) {
	t.Parallel()
	for _, style := range selectCases(styles, "partition") {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			a := start(t, styles[style]())
			for _, change := range []string{
				`{"metadata":{"labels":{"team":"shop"}}}`,
				`{"metadata":{"annotations":{"owner":"me"}}}`,
				`{"spec":{"strategy":{"rollingUpdate":{"maxSurge":3}}}}`,
				`{"spec":{"minReadySeconds":1,"revisionHistoryLimit":5,"progressDeadlineSeconds":99}}`,
				`{"spec":{"template":{"metadata":{"labels":{"app":"web"}}}}}`,
			} {
				if err := a.patchDeployment(change); err != nil {
					t.Fatal(err)
				}
			}
			a.scale(8)
			a.consistently("nothing is held", func(ctx context.Context) error {
				d, err := a.getDeployment(ctx)
				if err == nil && (d.Spec.Paused || len(d.Annotations) > 2) {
					err = fmt.Errorf("paused %t, annotations %v", d.Spec.Paused, d.Annotations)
				}
				return errors.Join(err, a.isHealthy(ctx))
			})
			a.awaitPods(versions{"v1": 8})
		})
	}
}

// TestAppliedTogether applies Deployment and Rollout in one manifest, in either order: both new,
// both changed, and with an existing Deployment.
func TestAppliedTogether(t *testing.T) {
	t.Parallel()
	for _, order := range selectCases(map[string]bool{"Deployment first": true, "Rollout first": false}, "Rollout first") {
		for _, before := range []string{"new", "there"} {
			t.Run(order+" "+before, func(t *testing.T) {
				t.Parallel()
				a := newNamespace(t)
				a.plan = planWithoutTraffic()
				apply := func(version, steps string) {
					t.Helper()
					rollout := strings.Replace(a.plan.yaml(), "replicas: 2", "replicas: "+steps, 1)
					manifests := []string{a.manifest(version), rollout}
					if order == "Rollout first" {
						manifests[0], manifests[1] = manifests[1], manifests[0]
					}
					testEnv.admin.kubectlWith(a, strings.Join(manifests, "\n---\n"), "apply", "-f", "-").mustSucceed()
				}
				if before == "there" {
					testEnv.admin.kubectlWith(a, a.manifest("v1"), "apply", "-f", "-").mustSucceed()
					a.eventually("the Deployment is ready", a.runs(versions{"v1": 6}))
					a.guard = watchPods(a)
					a.guard.atLeast(5)
					apply("v2", "2")
				} else {
					apply("v2", "2")
				}
				// Admission may not have observed a Rollout that was created a moment before. Then
				// v2 is rolled out natively.
				a.eventually("v2 is rolled out, or waits at step 1", func(ctx context.Context) error {
					if a.waitsAtStep(1)(ctx) == nil {
						return nil
					}
					return errors.Join(a.isHealthy(ctx), a.runs(versions{"v2": 6})(ctx))
				})
				if a.waitsAtStep(1)(t.Context()) == nil {
					a.promoteAll()
				}
				a.eventually("the Rollout is Healthy", a.isHealthy)
				a.eventually("the pods of v2 run", a.runs(versions{"v2": 6}))
				apply("v3", "3")
				a.checkNow(a.isHeld)
				a.eventually("step 1 waits", a.waitsAtStep(1))
				a.eventually("the pods are those of the new plan", a.runs(versions{"v2": 3, "v3": 3}))
			})
		}
	}
}

// TestReplicaSetNameConflict creates another ReplicaSet with the name that the new one would get.
func TestReplicaSetNameConflict(t *testing.T) {
	t.Parallel()
	twin := start(t, planWithoutTraffic())
	twin.release("v2")
	twin.eventually("step 1 waits", twin.waitsAtStep(1))
	sets, err := twin.replicaSets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a := start(t, planWithoutTraffic())
	for i := range sets {
		if versionOf(&sets[i].Spec.Template.Spec) != "v2" {
			continue
		}
		foreign := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: sets[i].Name}, Spec: sets[i].Spec}
		foreign.Spec.Replicas = new(int32(0))
		foreign.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}
		foreign.Spec.Template.Labels = map[string]string{"app": "other"}
		a.create(foreign)
	}
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.checkNow(a.runs(versions{"v1": 4, "v2": 2}))
	a.promoteAll()
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v2": 6})
	a.checkRestored(workloadTypeLabel)
}

// TestServiceWithTrackLabel has a Service that selects a label which the new template changes.
func TestServiceWithTrackLabel(t *testing.T) {
	t.Parallel()
	p := canaryPlan()
	p.customizeDeployment = func(d *appsv1.Deployment) { d.Spec.Template.Labels["track"] = "stable" }
	p.customizeService = func(s *corev1.Service) { s.Spec.Selector["track"] = "stable" }
	a := start(t, p)
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.checkNow(a.serviceSelects(name, versions{"v1": 6}))
	a.checkNow(a.serviceSelects(name+"-canary", versions{"v2": 1}))
	a.promoteAll()
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v2": 6})
	a.checkNow(a.serviceSelects(name, versions{"v2": 6}))
	a.checkRestored(workloadTypeLabel)
}

// TestLastStepSizes checks that a last step of "100%" passes without approval, that one with a
// number waits, and that blue-green always waits. A number greater than the replicas means all
// pods.
func TestLastStepSizes(t *testing.T) {
	t.Parallel()
	all, number := intstr.FromString("100%"), intstr.FromInt32(100)
	for _, style := range selectCases(styles, "partition") {
		for what, size := range map[string]intstr.IntOrString{"share": all, "number": number} {
			t.Run(style+" "+what, func(t *testing.T) {
				t.Parallel()
				p := styles[style]()
				change := p.customizeRollout
				p.customizeRollout = func(r *v1beta1.Rollout) {
					if change != nil {
						change(r)
					}
					steps := []v1beta1.Step{{Replicas: &size}}
					if r.Spec.Strategy.BlueGreen != nil {
						r.Spec.Strategy.BlueGreen.Steps = steps
					} else {
						r.Spec.Strategy.Canary.Steps = steps
					}
				}
				a := start(t, p)
				a.release("v2")
				if style == "blue-green" || what == "number" {
					a.eventually("step 1 waits", a.waitsInAnyStyle(1))
					a.eventually("all new pods are there", a.hasReadyPodCount("v2", 6))
					a.promote(1)
				}
				a.eventually("v2 is released", a.released("v2"))
				a.awaitPods(versions{"v2": 6})
				a.checkRestored(workloadTypeLabel)
			})
		}
	}
}

// hasReadyPodCount returns a check that this many pods of a version are ready, regardless of other
// versions.
func (a *app) hasReadyPodCount(version string, want int32) func(context.Context) error {
	return func(ctx context.Context) error {
		var pods corev1.PodList
		if err := testEnv.client.List(ctx, &pods, client.InNamespace(a.namespace)); err != nil {
			return err
		}
		var got int32
		for i := range pods.Items {
			if ready(&pods.Items[i]) && versionOf(&pods.Items[i].Spec) == version {
				got++
			}
		}
		if got != want {
			return fmt.Errorf("%d pods of %s are ready, want %d", got, version, want)
		}
		return nil
	}
}

// readySince returns the time, in seconds, at which the first pod of a version became ready
// according to its status.
func (a *app) readySince(version string) time.Time {
	a.t.Helper()
	var pods corev1.PodList
	if err := testEnv.client.List(a.t.Context(), &pods, client.InNamespace(a.namespace)); err != nil {
		a.t.Fatal(err)
	}
	for i := range pods.Items {
		for _, c := range pods.Items[i].Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && versionOf(&pods.Items[i].Spec) == version {
				return c.LastTransitionTime.Time
			}
		}
	}
	a.t.Fatalf("no pod of %s is ready", version)
	return time.Time{}
}

// TestMinReady checks that a new pod counts only after minReadySeconds.
func TestMinReady(t *testing.T) {
	t.Parallel()
	const seconds = 5
	for _, style := range selectCases(map[string]bool{"partition": true, "canary": true}, "partition") {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			p := styles[style]()
			p.replicas, p.surge, p.unavailable, p.withTraffic = 2, 1, 0, false
			p.steps = []v1beta1.Step{manualStep("1"), manualStep("100%")}
			p.customizeDeployment = func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = seconds }
			a := start(t, p)
			a.eventually("all pods are available", func(ctx context.Context) error {
				d, err := a.getDeployment(ctx)
				if err == nil && d.Status.AvailableReplicas < 2 {
					err = fmt.Errorf("%d pods are available", d.Status.AvailableReplicas)
				}
				return err
			})
			a.release("v2")
			a.eventually("the new pod is ready", a.hasReadyPodCount("v2", 1))
			since := a.readySince("v2")
			a.eventually("step 1 waits", a.waitsAtStep(1))
			if waited := time.Since(since); waited < seconds*time.Second {
				t.Errorf("step 1 was reached %s after its pod was ready", waited)
			}
			a.promoteAll()
			a.eventually("the Rollout is Healthy", a.isHealthy)
			a.awaitPods(versions{"v2": 2})
		})
	}
}

// TestSinglePod releases one pod without a moment with no ready pod, unless maxUnavailable allows
// it.
func TestSinglePod(t *testing.T) {
	t.Parallel()
	for _, style := range selectCases(styles, "partition") {
		for surge, unavailable := range map[int32]int32{1: 0, 0: 1} {
			t.Run(fmt.Sprintf("%s surge %d", style, surge), func(t *testing.T) {
				t.Parallel()
				p := withSlowPods(styles[style]())
				p.replicas, p.surge, p.unavailable = 1, surge, unavailable
				a := start(t, p)
				a.release("v2")
				a.eventually("step 1 waits", a.waitsInAnyStyle(1))
				a.promoteAll()
				a.eventually("the Rollout is Healthy", a.isHealthy)
				a.awaitPods(versions{"v2": 1})
				a.checkRestored(workloadTypeLabel)
			})
		}
	}
}
