// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/test/cluster"
)

// TestUninstall removes Weir from a cluster. Rollouts with a release in progress block this until
// the release is completed natively, or aborted and left paused. An aborted version is not
// released. This test does not run in parallel with others, because it deletes their Rollouts.
func TestUninstall(t *testing.T) {
	endings := map[string]struct {
		version string
		paused  bool
	}{"--finish": {"v2", false}, "--leave-paused": {"v1", true}}
	for _, ending := range selectCases(endings, "--finish") {
		leaves := endings[ending]
		t.Run(ending[2:], func(t *testing.T) {
			defer reinstall(t)
			idle, live, aborted := start(t, planWithoutTraffic()), start(t, defaultPlan()), start(t, planWithoutTraffic())
			for _, a := range []*app{live, aborted} {
				a.release("v2")
				a.eventually("step 1 waits", a.waitsAtStep(1))
			}
			aborted.abort()

			runWeirCommand(t, false, "uninstall", live.namespace+"/web", "are in progress")
			live.checkNow(live.waitsAtStep(1))
			runWeirCommand(t, true, "uninstall", ending, " rollouts", "deleted apiservices v1beta1.rollouts.kruise.io")

			live.awaitPods(versions{leaves.version: 6})
			live.checkUninstalled(leaves.paused)
			aborted.awaitPods(versions{"v1": 6})
			aborted.checkUninstalled(true)
			idle.checkUninstalled(false)
			idle.release("v3")
			idle.awaitPods(versions{"v3": 6})
			checkNamespaceDeletion(t)
		})
	}
}

// checkUninstalled checks that all fields are as the owner wrote them, except for the pause of an
// aborted Deployment.
func (a *app) checkUninstalled(paused bool) {
	a.t.Helper()
	d, err := a.getDeployment(a.t.Context())
	if err != nil || d.Spec.Paused != paused {
		a.t.Errorf("paused: %t, want %t, %v", err == nil && d.Spec.Paused, paused, err)
	}
	a.before.deployment.Spec.Paused = paused
	a.checkRestored()
}

// checkNamespaceDeletion stops all processes of Weir, and checks that a namespace can still be
// deleted.
func checkNamespaceDeletion(t *testing.T) {
	t.Helper()
	for _, name := range []string{cluster.WeirAPIServer, cluster.WeirController} {
		if err := testEnv.cluster.End(name); err != nil {
			t.Fatal(err)
		}
	}
	hook := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := testEnv.client.Get(t.Context(), client.ObjectKey{Name: "weir-workloads"}, hook); !apierrors.IsNotFound(err) {
		t.Errorf("the webhook still exists: %v", err)
	}
	a := newNamespace(t)
	namespace := &corev1.Namespace{}
	namespace.Name = a.namespace
	if err := testEnv.client.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	a.eventually("the namespace is gone", func(ctx context.Context) error {
		err := testEnv.client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
		if err == nil {
			return fmt.Errorf("the namespace is %s: %v", namespace.Status.Phase, namespace.Status.Conditions)
		}
		return client.IgnoreNotFound(err)
	})
}

// reinstall installs Weir again for the other tests.
func reinstall(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	objects, err := testEnv.cluster.Installation(ctx)
	if err == nil {
		err = testEnv.cluster.Apply(ctx, objects)
	}
	for _, name := range []string{cluster.WeirAPIServer, cluster.WeirController} {
		err = errors.Join(err, testEnv.cluster.End(name))
	}
	for _, name := range []string{cluster.WeirAPIServer, cluster.WeirController} {
		err = errors.Join(err, testEnv.cluster.Start(name))
	}
	if err != nil {
		t.Fatal(err)
	}
}
