// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package effect_test

import (
	"os"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/pkg/controller/effect"
)

// TestMissing tells of each resource what keeps its updates from being held, with
// the webhooks as they are installed and as somebody has changed them.
func TestMissing(t *testing.T) {
	const deployments, clonesets, lookAlikes = "deployments.apps", "clonesets.apps.kruise.io", "statefulsets.apps.example.com"
	installed := func(*admissionregistrationv1.MutatingWebhookConfiguration) {}
	ignoring := func(w *admissionregistrationv1.MutatingWebhookConfiguration) {
		for i := range w.Webhooks {
			w.Webhooks[i].FailurePolicy = new(admissionregistrationv1.Ignore)
		}
	}
	added := func(w *admissionregistrationv1.MutatingWebhookConfiguration) {
		rule := w.Webhooks[1].Rules[0]
		rule.APIGroups, rule.Resources = []string{"apps.example.com"}, []string{"statefulsets"}
		w.Webhooks[1].Rules = append(w.Webhooks[1].Rules, rule)
	}
	for name, tc := range map[string]struct {
		change   func(*admissionregistrationv1.MutatingWebhookConfiguration)
		resource string
		want     string
	}{
		"native":                {installed, deployments, ""},
		"of Kruise":             {installed, clonesets, ""},
		"not served":            {installed, "", ""},
		"look-alike, not asked": {installed, lookAlikes, "is asked about updates of statefulsets.apps.example.com"},
		"look-alike, asked":     {added, lookAlikes, ""},
		"native, ignoring":      {ignoring, deployments, "the webhook ignores failures; leave the component policies out"},
		"of Kruise, ignoring":   {ignoring, clonesets, "kruise.weir.rollouts.kruise.io ignores failures, and no policy is beside it"},
		"of Kruise, not certified": {func(w *admissionregistrationv1.MutatingWebhookConfiguration) {
			w.Webhooks[1].ClientConfig.CABundle = nil
		}, clonesets, "has no caBundle"},
		"asked when it is made": {func(w *admissionregistrationv1.MutatingWebhookConfiguration) {
			w.Webhooks[0].Rules[0].Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Create}
		}, deployments, "is asked about updates of deployments.apps"},
		"none": {func(w *admissionregistrationv1.MutatingWebhookConfiguration) { w.Name = "other" }, deployments, "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile("../../../artifacts/base/webhook.yaml")
			if err != nil {
				t.Fatal(err)
			}
			w := &admissionregistrationv1.MutatingWebhookConfiguration{}
			if err := yaml.Unmarshal(data, w); err != nil {
				t.Fatal(err)
			}
			for i := range w.Webhooks {
				w.Webhooks[i].ClientConfig.CABundle = []byte("authority")
			}
			tc.change(w)
			doors := effect.Doors{Reader: fake.NewClientBuilder().WithScheme(newServer(t).Scheme()).WithObjects(w).Build()}
			got, err := doors.Missing(t.Context(), schema.ParseGroupResource(tc.resource))
			if err != nil || (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("says %q (%v), want %q", got, err, tc.want)
			}
		})
	}
}
