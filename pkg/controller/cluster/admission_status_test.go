// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"os"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/artifacts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/doctor"
)

// TestMissingPart checks the reason why updates of a resource are not held, for the webhooks as installed and as
// somebody has changed them.
func TestMissingPart(t *testing.T) {
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
		"of an older version": {func(w *admissionregistrationv1.MutatingWebhookConfiguration) {
			w.Webhooks[0].Rules[0].Resources = []string{"deployments", "statefulsets", "daemonsets"}
		}, deployments, "is not asked about UPDATE of deployments/status.apps"},
		"not asked when one is made": {func(w *admissionregistrationv1.MutatingWebhookConfiguration) { w.Webhooks = w.Webhooks[:2] },
			clonesets, "is not asked about CREATE of clonesets.apps.kruise.io"},
		"with an exception": {func(w *admissionregistrationv1.MutatingWebhookConfiguration) {
			c := &w.Webhooks[0].MatchConditions[0]
			c.Expression += " && request.userInfo.username != 'mallory'"
		}, deployments, "the matchConditions of the webhook workloads.weir"},
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
			admission := cluster.AdmissionStatus{Reader: fake.NewClientBuilder().WithScheme(newServer(t).Scheme()).WithObjects(w).Build()}
			got, err := admission.MissingPart(t.Context(), "shop", schema.ParseGroupResource(tc.resource), "")
			if err != nil || (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("says %q (%v), want %q", got, err, tc.want)
			}
		})
	}
}

// TestMissingInNamespaces checks that no workload is held in kube-system and in Weir's namespace.
func TestMissingInNamespaces(t *testing.T) {
	t.Parallel()
	admission := cluster.AdmissionStatus{Reader: fake.NewClientBuilder().WithScheme(newServer(t).Scheme()).Build(), Namespace: "gates"}
	for namespace, want := range map[string]string{
		"kube-system": "Weir never holds workloads in namespace kube-system",
		"gates":       "Weir never holds workloads in namespace gates",
		"weir-system": "weir-workloads does not exist",
	} {
		got, err := admission.MissingPart(t.Context(), namespace, schema.ParseGroupResource("deployments.apps"), "")
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("in %s: %q (%v), want %q", namespace, got, err, want)
		}
	}
}

// TestMissingPolicies checks the message about missing or changed policies if the webhook ignores failures.
func TestMissingPolicies(t *testing.T) {
	installation, err := doctor.ReadInstallation(artifacts.Files, doctor.OneProcess, doctor.DefaultNamespace)
	if err != nil {
		t.Fatal(err)
	}
	const unlisted = "it is full"
	only := func(name string, fields ...string) func(*unstructured.Unstructured, any) {
		return func(o *unstructured.Unstructured, value any) {
			if o.GetKind()+" "+o.GetName() != name {
				return
			}
			if err := unstructured.SetNestedField(o.Object, value, fields...); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tc := range map[string]struct {
		change func(*unstructured.Unstructured, any)
		value  any
		want   string
	}{
		"as installed":       {func(*unstructured.Unstructured, any) {}, nil, ""},
		"not listed":         {func(*unstructured.Unstructured, any) {}, unlisted, "the policies do not know the workload, and the webhook ignores failures: it is full"},
		"gone":               {only("MutatingAdmissionPolicy weir-records", "metadata", "name"), "other", "MutatingAdmissionPolicy weir-records does not exist"},
		"only a warning":     {only("ValidatingAdmissionPolicyBinding weir-fit", "spec", "validationActions"), []any{"Warn"}, "spec.validationActions of the ValidatingAdmissionPolicyBinding weir-fit"},
		"failures ignored":   {only("MutatingAdmissionPolicy weir-hold", "spec", "failurePolicy"), "Ignore", "spec.failurePolicy of the MutatingAdmissionPolicy weir-hold"},
		"another selector":   {only("MutatingAdmissionPolicyBinding weir-keep", "spec", "matchResources"), map[string]any{"objectSelector": map[string]any{"matchLabels": map[string]any{"a": "b"}}}, "spec.matchResources"},
		"another condition":  {only("MutatingAdmissionPolicy weir-created", "spec", "matchConditions"), []any{map[string]any{"name": "never", "expression": "false"}}, "spec.matchConditions"},
		"defaults filled in": {only("MutatingAdmissionPolicy weir-created", "spec", "matchConstraints", "objectSelector"), map[string]any{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			why, _ := tc.value.(string)
			if why != unlisted {
				why = ""
			}
			objects := fake.NewClientBuilder().WithScheme(newServer(t).Scheme())
			for _, o := range installation.OfKinds("MutatingWebhookConfiguration", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
				"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding") {
				o = o.DeepCopy()
				tc.change(o, tc.value)
				if o.GetKind() == "MutatingWebhookConfiguration" {
					w := &admissionregistrationv1.MutatingWebhookConfiguration{}
					if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, w); err != nil {
						t.Fatal(err)
					}
					for i := range w.Webhooks {
						w.Webhooks[i].FailurePolicy, w.Webhooks[i].ClientConfig.CABundle = new(admissionregistrationv1.Ignore), []byte("authority")
					}
					objects.WithObjects(w)
					continue
				}
				objects.WithObjects(o)
			}
			got, err := cluster.AdmissionStatus{Reader: objects.Build(), HasPolicies: true}.MissingPart(t.Context(), "shop", schema.ParseGroupResource("deployments.apps"), why)
			if err != nil || (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("says %q (%v), want %q", got, err, tc.want)
			}
		})
	}
}

// TestMissingInAnotherNamespace finds nothing wrong with an installation in another namespace, as the
// chart allows it.
func TestMissingInAnotherNamespace(t *testing.T) {
	t.Parallel()
	installation, err := doctor.ReadInstallation(artifacts.Files, doctor.OneProcess, "releases")
	if err != nil {
		t.Fatal(err)
	}
	objects := fake.NewClientBuilder().WithScheme(newServer(t).Scheme())
	for _, o := range installation.HoldingPolicies("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding") {
		objects.WithObjects(o)
	}
	webhooks, err := installation.Webhooks()
	if err != nil {
		t.Fatal(err)
	}
	for i := range webhooks[0].Webhooks {
		webhooks[0].Webhooks[i].FailurePolicy, webhooks[0].Webhooks[i].ClientConfig.CABundle = new(admissionregistrationv1.Ignore), []byte("authority")
	}
	objects.WithObjects(&webhooks[0])
	reader := objects.Build()
	for namespace, want := range map[string]string{"releases": "", doctor.DefaultNamespace: "not as installed"} {
		status := cluster.AdmissionStatus{Reader: reader, HasPolicies: true, Namespace: namespace}
		got, err := status.MissingPart(t.Context(), "shop", schema.ParseGroupResource("deployments.apps"), "")
		if err != nil || (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("Weir in %s says %q (%v), want %q", namespace, got, err, want)
		}
	}
}

// The cache has a result only for the version of the object that was compared.
func TestComparisonCache(t *testing.T) {
	t.Parallel()
	asked := 0
	find := func() (string, error) { asked++; return "drift", nil }
	var verdicts cluster.ComparisonCache
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "weir", UID: "a", ResourceVersion: "1"}}
	other := policy.DeepCopy()
	other.Name = "other"
	again := policy.DeepCopy()
	again.ResourceVersion = "2"
	for i, step := range []struct {
		o    *admissionregistrationv1.ValidatingAdmissionPolicy
		want int
	}{{policy, 1}, {policy, 1}, {other, 2}, {policy, 2}, {again, 3}, {again, 3}} {
		says, err := verdicts.Get(step.o, "question", find)
		if err != nil || says != "drift" || asked != step.want {
			t.Errorf("step %d: %q, %v, asked %d times, want %d", i, says, err, asked, step.want)
		}
	}
}
