// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// TestAbortWithoutObjects aborts while objects of the traffic routing are missing or being deleted.
// The abort must end.
func TestAbortWithoutObjects(t *testing.T) {
	t.Parallel()
	for what, gone := range map[string]func(*app) error{
		"canary service": func(a *app) error {
			return testEnv.client.Delete(t.Context(), &corev1.Service{ObjectMeta: a.meta(name + "-canary")})
		},
		"service": func(a *app) error {
			return testEnv.client.Delete(t.Context(), &corev1.Service{ObjectMeta: a.meta(name)})
		},
		"ingress": func(a *app) error {
			return testEnv.client.Delete(t.Context(), &networkingv1.Ingress{ObjectMeta: a.meta(name)})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := defaultPlan()
			p.steps = []v1beta1.Step{withTraffic(manualStep("80%"), "80%"), manualStep("100%")}
			a := start(t, p)
			a.release("v2")
			a.eventually("step 1 waits", a.waitsAtStep(1))
			if err := gone(a); err != nil {
				t.Fatal(err)
			}
			a.post(testEnv.admin, "abort", "", http.StatusCreated)
			a.eventually("the release is aborted", a.isAborted)
			a.eventually("all pods run v1", a.runs(versions{"v1": 6}))
			a.eventually("no canary Ingress is left", a.hasCanaryWeight(""))
		})
	}
}

func (a *app) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: a.namespace, Name: name}
}

// TestRollbackKeepsGracePeriod sets the stable template while routers have not yet observed an
// abort. The new pods stay for the rest of the grace period.
func TestRollbackKeepsGracePeriod(t *testing.T) {
	t.Parallel()
	p := defaultPlan()
	p.grace = 5
	a := start(t, p)
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	before := time.Now() // routers cannot observe the abort earlier
	a.post(testEnv.admin, "abort", "", http.StatusCreated)
	a.eventually("the canary route is removed", a.hasCanaryWeight(""))
	a.release("v1")
	a.eventually("the pods of v2 are gone", a.runs(versions{"v1": 6}))
	// Kubernetes stores times in seconds, so the grace period may end up to a second early.
	if after := time.Since(before); after < 4*time.Second {
		t.Errorf("the pods of v2 went %s after the abort, before its 5 s of grace were over", after)
	}
	a.eventually("the Rollout is Healthy", a.isHealthy)
}

// TestRollbackEndsNewTemplate sets a template a moment before a rollback is accepted. The rollback
// ends the release of that template, too.
func TestRollbackEndsNewTemplate(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.guard.atMost("v3", 0)
	a.release("v3")
	a.post(testEnv.admin, "rollback", "", http.StatusCreated)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("all pods run v1", a.runs(versions{"v1": 6}))
	a.checkRestored(workloadTypeLabel)
}

// TestSecondAbortAbortsNextTemplate sets a template after a first abort, and aborts again. The
// template is held, and no pod of it is created.
func TestSecondAbortAbortsNextTemplate(t *testing.T) {
	t.Parallel()
	p := defaultPlan()
	p.grace = 5
	a := start(t, p)
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.guard.atMost("v3", 0)
	a.post(testEnv.admin, "abort", "", http.StatusCreated)
	a.eventually("the abort is bound to v2", func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err == nil && r.Status.Canary.AbortedTemplate == "" {
			err = errors.New("the abort is not bound to a template")
		}
		return err
	})
	a.release("v3")
	a.post(testEnv.admin, "abort", "", http.StatusCreated)
	a.eventually("the release of v3 is aborted", func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err == nil && len(r.Status.Decisions) != 2 {
			err = fmt.Errorf("%d decisions", len(r.Status.Decisions))
		}
		if err == nil && r.Status.Canary.AbortedTemplate != r.Status.Canary.UpdateTemplate {
			err = fmt.Errorf("the release is of %s, and %s is aborted", r.Status.Canary.CanaryRevision, r.Status.Canary.AbortedRevision)
		}
		return err
	})
	a.eventually("the abort is complete", a.isAborted)
	a.eventually("all pods run v1", a.runs(versions{"v1": 6}))
}

// TestDeploymentRecreatedMidStep deletes and recreates a Deployment during a step. The new
// Deployment is protected while the network is cleaned up: its next template is held.
func TestDeploymentRecreatedMidStep(t *testing.T) {
	t.Parallel()
	p := defaultPlan()
	p.grace = 10
	a := start(t, p)
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.guard.atLeast(0)
	a.guard.atMost("v3", 0)
	old := &appsv1.Deployment{ObjectMeta: a.meta(name)}
	if err := testEnv.client.Delete(t.Context(), old, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	a.create(a.newDeployment())
	a.eventually("the Rollout reports the recreated workload", a.messageContains("Workload was created again"))
	a.eventually("the Deployment is labelled", func(ctx context.Context) error {
		d, err := a.getDeployment(ctx)
		if err == nil && d.Labels[workloadTypeLabel] == "" {
			err = errors.New("the Deployment has no label")
		}
		return err
	})
	a.eventually("all pods run", a.runs(versions{"v1": 6}))
	a.guard.atMost("v3", 2)
	a.release("v3")
	d, err := a.getDeployment(t.Context())
	if err != nil || !d.Spec.Paused {
		t.Fatalf("the next template is not held: %v", err)
	}
	a.eventually("step 1 of v3 waits", a.waitsAtStep(1))
	a.eventually("the step has its pods", a.runs(versions{"v1": 4, "v3": 2}))
}
