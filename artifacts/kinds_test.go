// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts_test

import (
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/artifacts"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// TestKinds finds each kind of the table in the permissions of both processes and in the
// webhooks: one for updates, of the object and of its status, and one for creation.
func TestKinds(t *testing.T) {
	t.Parallel()
	var hook admissionregistrationv1.MutatingWebhookConfiguration
	decode(t, "base/webhook.yaml", "weir-workloads", &hook)
	for _, row := range workload.Kinds() {
		resource, _ := meta.UnsafeGuessKindToResource(row.GVK)
		group, name := resource.Group, resource.Resource
		for file, verbs := range map[string][]string{
			"base/rbac-apiserver.yaml":  {"get"},
			"base/rbac-controller.yaml": {"list", "watch", "patch"},
		} {
			for _, verb := range verbs {
				if !allows(t, file, group, name, verb) {
					t.Errorf("%s does not allow to %s %s", file, verb, resource.GroupResource())
				}
			}
		}
		for operation, resources := range map[admissionregistrationv1.OperationType][]string{
			admissionregistrationv1.Create: {name},
			admissionregistrationv1.Update: {name, name + "/status"},
		} {
			for _, r := range resources {
				if n := asked(hook.Webhooks, group, r, operation); n != 1 {
					t.Errorf("%d webhooks are asked to %s %s.%s, want one", n, operation, r, group)
				}
			}
		}
	}
}

// allows reports whether the ClusterRole of a process allows it.
func allows(t *testing.T, file, group, resource, verb string) bool {
	t.Helper()
	var role rbacv1.ClusterRole
	name := "weir-" + strings.TrimSuffix(strings.TrimPrefix(file, "base/rbac-"), ".yaml")
	decode(t, file, name, &role)
	return slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, verb)
	})
}

// asked counts the webhooks with a rule for it.
func asked(webhooks []admissionregistrationv1.MutatingWebhook, group, resource string, o admissionregistrationv1.OperationType) int {
	n := 0
	for _, hook := range webhooks {
		if slices.ContainsFunc(hook.Rules, func(r admissionregistrationv1.RuleWithOperations) bool {
			return slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) && slices.Contains(r.Operations, o)
		}) {
			n++
		}
	}
	return n
}

// decode reads the first document of a file with that name.
func decode(t *testing.T, file, name string, into interface{ GetName() string }) {
	t.Helper()
	data, err := artifacts.Files.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		if err := yaml.Unmarshal([]byte(document), into); err != nil {
			t.Fatal(err)
		}
		if into.GetName() == name {
			return
		}
	}
	t.Fatalf("%s has no %s", file, name)
}
