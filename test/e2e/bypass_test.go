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
func TestBypassed(t *testing.T) {
	p := plain()
	p.owners = func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 2 } // or it is over before it is seen
	a := start(t, p)
	// Pods that are not available yet are not missed by any rolling update.
	a.until("the pods are available", func(ctx context.Context) error {
		d, err := a.deployment(ctx)
		if err == nil && d.Status.AvailableReplicas < p.replicas {
			err = fmt.Errorf("%d pods are available", d.Status.AvailableReplicas)
		}
		return err
	})
	var open []func()
	for door := range doors() {
		open = append(open, closeDoor(t, door))
	}
	a.until("nobody is protected", a.condition("Protected", "AdmissionIncomplete", "weir-workloads does not exist"))
	a.until("an update would not be held", func(context.Context) error {
		if holdOf(a.merge(here.client, name, template, client.DryRunAll)).held {
			return errors.New("it would be held")
		}
		return nil
	})
	a.release("v2")
	a.until("it was held late", a.condition("AdmissionBypassed", "HeldLate", "held as soon as that was noticed"))
	a.until("step 1 waits", a.waitsAt(1))
	a.until("pods are those of step 1", a.runs(versions{"v1": 4, "v2": 2}))
	a.sees(a.held)
	a.until("an event says so", a.warned("AdmissionBypassed"))

	for _, again := range open {
		again()
	}
	a.until("everybody is protected", a.condition("Protected", ""))
	a.promoteAll()
	a.until("the Rollout is Healthy", a.healthy)
	a.settled(versions{"v2": 6})
	a.until("an update would be held", func(context.Context) error {
		if !holdOf(a.merge(here.client, name, template, client.DryRunAll)).held {
			return errors.New("it would not be held")
		}
		return nil
	})
}

// The webhook configuration may be there and of no use: it ignores failures, and
// nothing is beside it.
func TestUnprotected(t *testing.T) {
	a := start(t, plain())
	ignores := func(policy string) {
		here.admin.kubectl(a, "patch", "mutatingwebhookconfiguration/weir-workloads", "--type=json",
			`-p=[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"`+policy+`"}]`).works()
	}
	a.until("it is protected", a.condition("Protected", ""))
	usual, lacks := "Fail", "the cluster serves no policies"
	if here.policies {
		usual, lacks = "Ignore", "weir-hold does not exist"
	}
	reopen := closeDoor(t, "policies")
	defer ignores(usual)
	ignores("Ignore")
	a.until("the policies are missed", a.condition("Protected", "AdmissionIncomplete", lacks, "ignores failures"))
	ignores("Fail")
	a.until("the webhook alone does", a.condition("Protected", ""))
	reopen()
}

// Whatever somebody does to the index, it is put back.
func TestIndexPutBack(t *testing.T) {
	t.Parallel()
	a := start(t, plain())
	const index = "rollouts-index"
	want := map[string]string{"Deployment.apps_web": "web"}
	a.sees(a.indexed(want))
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
		here.admin.kubectl(a, command...).works()
		a.until("the index that was "+what+" is put back", a.indexed(want))
	}
	here.admin.kubectl(a, "delete", "rollout", name).works()
	a.until("the index goes with its last Rollout", a.gone(&corev1.ConfigMap{}, index))
}

// indexed wants the index to say this and no more.
func (a *app) indexed(want map[string]string) func(context.Context) error {
	return func(ctx context.Context) error {
		c := &corev1.ConfigMap{}
		err := here.client.Get(ctx, a.key("rollouts-index"), c)
		if err == nil && (!maps.Equal(c.Data, want) || c.Labels["rollouts.kruise.io/index"] != "true") {
			err = fmt.Errorf("it says %v, with the labels %v", c.Data, c.Labels)
		}
		return err
	}
}

// In a namespace that ends nothing is made any more, and nobody complains.
func TestNamespaceEnds(t *testing.T) {
	t.Parallel()
	a := start(t, plain())
	a.guard.stop(t) // everything goes
	a.guard = nil
	// So that it outlives the index.
	here.admin.kubectl(a, "patch", "rollout", name, "--type=json",
		`-p=[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/mine"}]`).works()
	here.admin.kubectl(a, "delete", "namespace", a.namespace, "--wait=false").works()
	a.until("the index is gone", a.gone(&corev1.ConfigMap{}, "rollouts-index"))
	a.stays("nothing is denied", a.condition("Writable", ""))
	here.admin.kubectl(a, "patch", "rollout", name, "--type=merge", `-p={"metadata":{"finalizers":null}}`).works()
}

// condition wants a condition of the Rollout to have this reason, and its message
// these words; with an empty reason it must not be there.
func (a *app) condition(kind v1beta1.ConditionType, reason string, words ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.stored(ctx)
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
