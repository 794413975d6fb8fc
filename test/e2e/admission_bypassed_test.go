// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// TestAdmissionBypassed changes a template while neither webhook nor policies exist. A condition
// reports that workloads are not protected. The release is held as soon as the controller observes
// it, continues at its first step, and reports that it was held late. Once admission is restored,
// the next release is held in time. This test does not run in parallel with others.
func TestAdmissionBypassed(t *testing.T) {
	p := planWithoutTraffic()
	p.customizeDeployment = func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 2 } // or the rolling update ends before it is observed
	a := start(t, p)
	// A rolling update may delete pods that are not available yet.
	a.eventually("the pods are available", func(ctx context.Context) error {
		d, err := a.getDeployment(ctx)
		if err == nil && d.Status.AvailableReplicas < p.replicas {
			err = fmt.Errorf("%d pods are available", d.Status.AvailableReplicas)
		}
		return err
	})
	var restore []func()
	for path := range admissionPaths() {
		restore = append(restore, removeAdmissionPath(t, path))
	}
	a.eventually("the condition reports that workloads are not protected", a.hasCondition("Protected", "AdmissionIncomplete", "weir-workloads does not exist"))
	a.eventually("an update would not be held", func(context.Context) error {
		if holdStateOf(a.patchNamedDeployment(testEnv.client, name, template, client.DryRunAll)).held {
			return errors.New("the update would be held")
		}
		return nil
	})
	a.release("v2")
	a.eventually("the late hold is reported", a.hasCondition("AdmissionBypassed", "HeldLate", "was not held at once"))
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.eventually("pods are those of step 1", a.runs(versions{"v1": 4, "v2": 2}))
	a.checkNow(a.isHeld)
	a.eventually("an event reports it", a.hasWarningEvent("AdmissionBypassed"))

	for _, again := range restore {
		again()
	}
	a.eventually("the condition is removed", a.hasCondition("Protected", ""))
	a.promoteAll()
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v2": 6})
	a.eventually("an update would be held", func(context.Context) error {
		if !holdStateOf(a.patchNamedDeployment(testEnv.client, name, template, client.DryRunAll)).held {
			return errors.New("the update would not be held")
		}
		return nil
	})
}

// TestAdmissionUnavailable checks the condition where the webhook configuration exists but cannot
// protect, because it ignores failures and there are no policies.
func TestAdmissionUnavailable(t *testing.T) {
	a := start(t, planWithoutTraffic())
	ignores := func(policy string) {
		testEnv.admin.kubectl(a, "patch", "mutatingwebhookconfiguration/weir-workloads", "--type=json",
			`-p=[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"`+policy+`"}]`).mustSucceed()
	}
	a.eventually("the workload is protected", a.hasCondition("Protected", ""))
	usual, lacks := "Fail", "the cluster serves no policies"
	if testEnv.policies {
		usual, lacks = "Ignore", "weir-hold does not exist"
	}
	reopen := removeAdmissionPath(t, "policies")
	defer ignores(usual)
	ignores("Ignore")
	a.eventually("the missing policies are reported", a.hasCondition("Protected", "AdmissionIncomplete", lacks, "ignores failures"))
	ignores("Fail")
	a.eventually("the webhook is sufficient", a.hasCondition("Protected", ""))
	reopen()
}

// TestIndexRestored checks that the index of workloads is restored after any change by a user.
func TestIndexRestored(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	const index = "rollouts-index"
	want := map[string]string{"Deployment.apps_web": "web"}
	a.checkNow(a.indexContains(want))
	patch := func(data string) []string {
		return []string{"patch", "configmap", index, "--type=merge", `-p={"data":` + data + `}`}
	}
	for what, command := range map[string][]string{
		"deleted":        {"delete", "configmap", index},
		"emptied":        patch(`null`),
		"entry changed":  patch(`{"Deployment.apps_web":"nobody"}`),
		"entry added":    patch(`{"Deployment.apps_other":"nobody"}`),
		"made immutable": {"patch", "configmap", index, "--type=merge", `-p={"immutable":true,"data":{"Deployment.apps_other":"nobody"}}`},
		"hidden":         {"label", "configmap", index, "rollouts.kruise.io/index-"},
	} {
		testEnv.admin.kubectl(a, command...).mustSucceed()
		a.eventually("the index that was "+what+" is restored", a.indexContains(want))
	}
	testEnv.admin.kubectl(a, "delete", "rollout", name).mustSucceed()
	a.eventually("the index goes with its last Rollout", a.isGone(&corev1.ConfigMap{}, index))
}

// indexContains returns a check that the index contains exactly these entries.
func (a *app) indexContains(want map[string]string) func(context.Context) error {
	return func(ctx context.Context) error {
		c := &corev1.ConfigMap{}
		err := testEnv.client.Get(ctx, a.key("rollouts-index"), c)
		if err == nil && (!maps.Equal(c.Data, want) || c.Labels["rollouts.kruise.io/index"] != "true") {
			err = fmt.Errorf("the index contains %v, with the labels %v", c.Data, c.Labels)
		}
		return err
	}
}

// TestNamespaceDeletion checks that nothing is created in a namespace that is being deleted, and
// that no request is denied.
func TestNamespaceDeletion(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	a.guard.stop(t) // everything goes
	a.guard = nil
	// The finalizer keeps the namespace longer than the index.
	testEnv.admin.kubectl(a, "patch", "rollout", name, "--type=json",
		`-p=[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/mine"}]`).mustSucceed()
	testEnv.admin.kubectl(a, "delete", "namespace", a.namespace, "--wait=false").mustSucceed()
	a.eventually("the index is gone", a.isGone(&corev1.ConfigMap{}, "rollouts-index"))
	a.consistently("nothing is denied", a.hasCondition("Writable", ""))
	testEnv.admin.kubectl(a, "patch", "rollout", name, "--type=merge", `-p={"metadata":{"finalizers":null}}`).mustSucceed()
}

// hasCondition returns a check that a condition of the Rollout has this reason and a message with
// these words. An empty reason means that the condition must not exist.
func (a *app) hasCondition(kind v1beta1.ConditionType, reason string, words ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err != nil {
			return err
		}
		var c v1beta1.Condition
		for _, found := range r.Status.Conditions {
			if found.Type == kind {
				c = found
			}
		}
		if c.Reason != reason || c.Status == metav1.ConditionUnknown {
			return fmt.Errorf("%s should be %q: %+v", kind, reason, c)
		}
		for _, word := range words {
			if !strings.Contains(c.Message, word) {
				return fmt.Errorf("the message of %s should contain %q: %s", kind, word, c.Message)
			}
		}
		return nil
	}
}
