// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts_test

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/weir-rollouts/weir/pkg/registry/rollouts/rollout"
)

// weir-dashboard acts as a user for each verb that there is, and in no request but those
// about Rollouts.
func TestImpersonation(t *testing.T) {
	t.Parallel()
	var role rbacv1.ClusterRole
	decode(t, "dashboard-impersonate/rbac.yaml", "weir-dashboard", &role)
	var created []string
	for _, rule := range role.Rules {
		for _, verb := range rule.Verbs {
			switch {
			case verb == "impersonate:user-info":
			case !strings.HasPrefix(verb, "impersonate-on:user-info:") || !slices.Equal(rule.APIGroups, []string{"rollouts.kruise.io"}):
				t.Errorf("it may %s %v of %v", verb, rule.Resources, rule.APIGroups)
			case strings.HasSuffix(verb, ":create"):
				created = append(created, rule.Resources...)
			}
		}
	}
	for _, verb := range rollout.Verbs() {
		if !slices.Contains(created, "rollouts/"+verb) {
			t.Errorf("it may not create rollouts/%s as its users", verb)
		}
	}
}
