// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weir-rollouts/weir/artifacts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/doctor"
)

// The webhooks and policies that hold workloads exclude the namespaces in which the
// server refuses Rollouts, and no others.
func TestUnheldNamespaces(t *testing.T) {
	t.Parallel()
	excluded := func(name string, in map[string]any) {
		expressions, _, err := unstructured.NestedSlice(in, "namespaceSelector", "matchExpressions")
		if err != nil || len(expressions) != 1 {
			t.Errorf("%s selects namespaces by %v (%v), want one expression", name, expressions, err)
			return
		}
		expression := expressions[0].(map[string]any)
		values, _, err := unstructured.NestedStringSlice(expression, "values")
		if err != nil || expression["key"] != "kubernetes.io/metadata.name" || expression["operator"] != "NotIn" || len(values) != 2 {
			t.Errorf("%s selects namespaces by %v (%v)", name, expression, err)
		}
		for _, namespace := range values {
			if rollouts.Unheld(namespace, doctor.DefaultNamespace) == "" {
				t.Errorf("%s excludes %s, in which the server accepts Rollouts", name, namespace)
			}
		}
	}
	holding := 0
	for _, o := range shipped(t).HoldingPolicies("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy") {
		constraints, _, err := unstructured.NestedMap(o.Object, "spec", "matchConstraints")
		if err != nil {
			t.Fatal(err)
		}
		excluded(o.GetName(), constraints)
		holding++
	}
	for _, o := range shipped(t).OfKinds("MutatingWebhookConfiguration") {
		webhooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range webhooks {
			webhook := w.(map[string]any)
			excluded(webhook["name"].(string), webhook)
			holding++
		}
	}
	if holding < 9 {
		t.Errorf("there are %d webhooks and policies, want at least 9", holding)
	}
	for _, namespace := range []string{"", "shop", "kube-public"} {
		if why := rollouts.Unheld(namespace, doctor.DefaultNamespace); why != "" {
			t.Errorf("namespace %q: %s", namespace, why)
		}
	}
}

// A policy without a binding that denies, or about other accounts than the manifests
// create, guards nothing. A document says what each prevents.
func TestGuards(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	bound := map[string]bool{}
	for _, o := range shipped(t).Guards().OfKinds("ValidatingAdmissionPolicyBinding") {
		name, _, _ := unstructured.NestedString(o.Object, "spec", "policyName")
		actions, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "validationActions")
		if denied, known := bound[name]; known && !denied {
			continue
		}
		bound[name] = slices.Equal(actions, []string{"Deny"})
	}
	policies := shipped(t).Guards().OfKinds("ValidatingAdmissionPolicy")
	if len(policies) == 0 || len(bound) < len(policies) {
		t.Errorf("there are %d policies and %d bindings", len(policies), len(bound))
	}
	for _, o := range policies {
		if !bound[o.GetName()] {
			t.Errorf("no binding denies what %s is about", o.GetName())
		}
		checkAccounts(t, o)
		if !strings.Contains(string(doc), "`"+o.GetName()+"`") {
			t.Errorf("docs/permissions.md does not explain %s", o.GetName())
		}
	}
}

// kube-apiserver fills these fields in. Where a manifest leaves them out, weir doctor compares
// the manifest with what is stored and says that the policy is not as installed.
func TestPoliciesHaveDefaults(t *testing.T) {
	t.Parallel()
	all := shipped(t)
	rules := 0
	for _, kind := range []string{
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	} {
		for _, o := range all.OfKinds(kind) {
			for _, field := range []string{"matchConstraints", "matchResources"} {
				match, set, _ := unstructured.NestedMap(o.Object, "spec", field)
				if !set {
					continue
				}
				if match["matchPolicy"] == nil {
					t.Errorf("%s %s: spec.%s.matchPolicy is not set", kind, o.GetName(), field)
				}
				resources, _, _ := unstructured.NestedSlice(match, "resourceRules")
				for i, rule := range resources {
					if rules++; rule.(map[string]any)["scope"] == nil {
						t.Errorf("%s %s: spec.%s.resourceRules[%d].scope is not set", kind, o.GetName(), field, i)
					}
				}
			}
		}
	}
	if rules < 10 {
		t.Errorf("there are %d rules, want at least 10", rules)
	}
}

// checkAccounts wants a policy to be about both accounts of Weir, or about the garbage collector.
func checkAccounts(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	conditions, _, err := unstructured.NestedSlice(o.Object, "spec", "matchConditions")
	if err != nil || len(conditions) == 0 {
		t.Fatalf("%s has the conditions %v (%v)", o.GetName(), conditions, err)
	}
	users := []string{"weir-system:weir-apiserver", "weir-system:weir-controller"}
	if o.GetName() == "weir-guard-collection" {
		users = []string{"kube-system:generic-garbage-collector"}
	}
	for _, user := range users {
		if expression := conditions[0].(map[string]any)["expression"].(string); !strings.Contains(expression, "'system:serviceaccount:"+user+"'") {
			t.Errorf("%s is not about %s", o.GetName(), user)
		}
	}
}

func shipped(t *testing.T) doctor.Installation {
	t.Helper()
	all, err := doctor.ReadInstallation(artifacts.Files, doctor.Apart, doctor.DefaultNamespace)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
