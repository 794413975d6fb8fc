// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/test/cluster"
)

// admissionSetting is a combination of webhook and policies.
type admissionSetting struct {
	name string
	// all reports whether every cell is tried, and not only those that depend on admission.
	all               bool
	webhook, policies bool
}

// admissionSettings are the settings of this run. Kubernetes serves the policies since 1.36.
func (w *environment) admissionSettings() []admissionSetting {
	all := []admissionSetting{{name: "webhook and policies", all: true, webhook: true, policies: true}}
	if testing.Short() || !w.policies {
		return all
	}
	return append(all, admissionSetting{name: "webhook only", webhook: true}, admissionSetting{name: "policies only", policies: true})
}

// admissionPath consists of the objects of the webhook, or of those of the policies.
type admissionPath struct {
	list    []client.ObjectList
	belongs func(admissionSetting) bool
	// alone changes an object to what an installation with only this admission path has.
	alone func(client.Object)
}

func admissionPaths() []admissionPath {
	return []admissionPath{{
		list:    []client.ObjectList{&admissionv1.MutatingWebhookConfigurationList{}, &admissionv1.ValidatingWebhookConfigurationList{}},
		belongs: func(s admissionSetting) bool { return s.webhook },
		alone: func(o client.Object) {
			if c, ok := o.(*admissionv1.MutatingWebhookConfiguration); ok {
				for i := range c.Webhooks { // as in artifacts/webhook-only
					c.Webhooks[i].FailurePolicy = new(admissionv1.Fail)
				}
			}
		},
	}, {
		list:    []client.ObjectList{&admissionv1.MutatingAdmissionPolicyBindingList{}, &admissionv1.ValidatingAdmissionPolicyBindingList{}},
		belongs: func(s admissionSetting) bool { return s.policies },
		alone:   func(client.Object) {},
	}}
}

// set removes and restores admission paths until the end of the test. It restarts kube-apiserver:
// after the last binding of a policy with parameters is deleted, kube-apiserver no longer observes
// changes of the parameters, and until it has observed one, the test cannot tell which admission
// path has held an update.
func (s admissionSetting) set(t *testing.T) {
	t.Helper()
	if testEnv.admissionProbe == nil {
		testEnv.admissionProbe = newAdmissionProbe(t)
	}
	if s.webhook && s.policies {
		testEnv.admissionProbe.awaitHeldUpdate(t)
		return
	}
	for _, d := range admissionPaths() {
		for _, o := range d.objects(t) {
			if err := testEnv.client.Delete(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			o.SetResourceVersion("")
			o.SetUID("")
			t.Cleanup(func() { createOrReplace(t, o) })
			if d.belongs(s) {
				only := o.DeepCopyObject().(client.Object)
				d.alone(only)
				createOrReplace(t, only)
			}
		}
	}
	if err := errors.Join(testEnv.cluster.Kill(cluster.KubeAPIServer), testEnv.cluster.Start(cluster.KubeAPIServer)); err != nil {
		t.Fatal(err)
	}
	testEnv.admissionProbe.awaitHeldUpdate(t)
}

// createOrReplace creates an object, and deletes an existing one first.
func createOrReplace(t *testing.T, o client.Object) {
	t.Helper()
	ctx := context.Background()
	now := o.DeepCopyObject().(client.Object)
	if err := client.IgnoreNotFound(testEnv.client.Delete(ctx, now)); err != nil {
		t.Error(err)
	}
	if err := testEnv.client.Create(ctx, o.DeepCopyObject().(client.Object)); err != nil {
		t.Error(err)
	}
}

// objects returns the objects of Weir's installation.
func (d admissionPath) objects(t *testing.T) []client.Object {
	t.Helper()
	var all []client.Object
	for _, list := range d.list {
		if err := testEnv.client.List(t.Context(), list, client.MatchingLabels{"app.kubernetes.io/part-of": "weir"}); err != nil {
			t.Fatal(err)
		}
		switch l := list.(type) {
		case *admissionv1.MutatingWebhookConfigurationList:
			for i := range l.Items {
				all = append(all, &l.Items[i])
			}
		case *admissionv1.ValidatingWebhookConfigurationList:
			for i := range l.Items {
				all = append(all, &l.Items[i])
			}
		case *admissionv1.MutatingAdmissionPolicyBindingList:
			for i := range l.Items {
				all = append(all, &l.Items[i])
			}
		case *admissionv1.ValidatingAdmissionPolicyBindingList:
			for i := range l.Items {
				all = append(all, &l.Items[i])
			}
		}
	}
	return all
}

// newAdmissionProbe is an application that exists as long as the tests of a setting. Its first
// release waits until kube-apiserver allows owner references to Weir's kinds, up to half a minute
// after they are served.
func newAdmissionProbe(t *testing.T) *app {
	t.Helper()
	a := &app{t: t, namespace: "attack-probe", name: name, scene: scenario{kind: deployments, withTraffic: true}}
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}
	if err := testEnv.client.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	a.create(a.workload("v1"))
	a.create(a.service())
	a.create(a.ingress())
	a.create(a.rollout())
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.setVersion("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.verb(testEnv.admin, "promote", `{"full":true}`)
	a.eventually("the Rollout is Healthy again", a.isHealthy)
	return a
}

// awaitHeldUpdate waits until a change of the template is held.
func (a *app) awaitHeldUpdate(t *testing.T) {
	t.Helper()
	a.t = t
	a.eventually("an update is held", func(ctx context.Context) error {
		got, err := testEnv.admin.send(ctx, request{method: http.MethodPatch, path: a.path() + "?dryRun=All", kind: string(types.MergePatchType), body: change{version: "v3"}.body()})
		if err == nil && (got.code != http.StatusOK || !strings.Contains(got.body, `"paused":true`)) {
			err = errors.New(got.String())
		}
		return err
	})
}
