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

// A template is changed while neither door is there. It is said that nobody is
// protected; the release is held as soon as it is seen, goes to its first step,
// and says that it was held late. With the doors back the next one is held in
// time. This does not run beside other tests.
func TestAdmissionBypassed(t *testing.T) {
	p := planWithoutTraffic()
	p.customizeDeployment = func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 2 } // or it is over before it is seen
	a := start(t, p)
	// Pods that are not available yet are not missed by any rolling update.
	a.eventually("the pods are available", func(ctx context.Context) error {
		d, err := a.getDeployment(ctx)
		if err == nil && d.Status.AvailableReplicas < p.replicas {
			err = fmt.Errorf("%d pods are available", d.Status.AvailableReplicas)
		}
		return err
	})
	var open []func()
	for door := range admissionPaths() {
		open = append(open, removeAdmissionPath(t, door))
	}
	a.eventually("nobody is protected", a.hasCondition("Protected", "AdmissionIncomplete", "weir-workloads does not exist"))
	a.eventually("an update would not be held", func(context.Context) error {
		if holdStateOf(a.patchNamedDeployment(testEnv.client, name, template, client.DryRunAll)).held {
			return errors.New("it would be held")
		}
		return nil
	})
	a.release("v2")
	a.eventually("it was held late", a.hasCondition("AdmissionBypassed", "HeldLate", "held as soon as that was noticed"))
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.eventually("pods are those of step 1", a.runs(versions{"v1": 4, "v2": 2}))
	a.checkNow(a.isHeld)
	a.eventually("an event says so", a.hasWarningEvent("AdmissionBypassed"))

	for _, again := range open {
		again()
	}
	a.eventually("everybody is protected", a.hasCondition("Protected", ""))
	a.promoteAll()
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v2": 6})
	a.eventually("an update would be held", func(context.Context) error {
		if !holdStateOf(a.patchNamedDeployment(testEnv.client, name, template, client.DryRunAll)).held {
			return errors.New("it would not be held")
		}
		return nil
	})
}

// The webhook configuration may be there and of no use: it ignores failures, and
// nothing is beside it.
func TestAdmissionUnavailable(t *testing.T) {
	a := start(t, planWithoutTraffic())
	ignores := func(policy string) {
		testEnv.admin.kubectl(a, "patch", "mutatingwebhookconfiguration/weir-workloads", "--type=json",
			`-p=[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"`+policy+`"}]`).mustSucceed()
	}
	a.eventually("it is protected", a.hasCondition("Protected", ""))
	usual, lacks := "Fail", "the cluster serves no policies"
	if testEnv.policies {
		usual, lacks = "Ignore", "weir-hold does not exist"
	}
	reopen := removeAdmissionPath(t, "policies")
	defer ignores(usual)
	ignores("Ignore")
	a.eventually("the policies are missed", a.hasCondition("Protected", "AdmissionIncomplete", lacks, "ignores failures"))
	ignores("Fail")
	a.eventually("the webhook alone does", a.hasCondition("Protected", ""))
	reopen()
}

// Whatever somebody does to the index, it is put back.
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
		"deleted":         {"delete", "configmap", index},
		"emptied":         patch(`null`),
		"given to nobody": patch(`{"Deployment.apps_web":"nobody"}`),
		"given more":      patch(`{"Deployment.apps_other":"nobody"}`),
		"made immutable":  {"patch", "configmap", index, "--type=merge", `-p={"immutable":true,"data":{"Deployment.apps_other":"nobody"}}`},
		"hidden":          {"label", "configmap", index, "rollouts.kruise.io/index-"},
	} {
		testEnv.admin.kubectl(a, command...).mustSucceed()
		a.eventually("the index that was "+what+" is put back", a.indexContains(want))
	}
	testEnv.admin.kubectl(a, "delete", "rollout", name).mustSucceed()
	a.eventually("the index goes with its last Rollout", a.isGone(&corev1.ConfigMap{}, index))
}

// indexContains wants the index to say this and no more.
func (a *app) indexContains(want map[string]string) func(context.Context) error {
	return func(ctx context.Context) error {
		c := &corev1.ConfigMap{}
		err := testEnv.client.Get(ctx, a.key("rollouts-index"), c)
		if err == nil && (!maps.Equal(c.Data, want) || c.Labels["rollouts.kruise.io/index"] != "true") {
			err = fmt.Errorf("it says %v, with the labels %v", c.Data, c.Labels)
		}
		return err
	}
}

// In a namespace that ends nothing is made any more, and nobody complains.
func TestNamespaceDeletion(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	a.guard.stop(t) // everything goes
	a.guard = nil
	// So that it outlives the index.
	testEnv.admin.kubectl(a, "patch", "rollout", name, "--type=json",
		`-p=[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/mine"}]`).mustSucceed()
	testEnv.admin.kubectl(a, "delete", "namespace", a.namespace, "--wait=false").mustSucceed()
	a.eventually("the index is gone", a.isGone(&corev1.ConfigMap{}, "rollouts-index"))
	a.consistently("nothing is denied", a.hasCondition("Writable", ""))
	testEnv.admin.kubectl(a, "patch", "rollout", name, "--type=merge", `-p={"metadata":{"finalizers":null}}`).mustSucceed()
}

// hasCondition wants a condition of the Rollout to have this reason, and its message
// these words; with an empty reason it must not be there.
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
				return fmt.Errorf("%s should say %q: %s", kind, word, c.Message)
			}
		}
		return nil
	}
}
