// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts_test

import (
	"os"
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
				// Without names, a group would be any group of the cluster.
				if !slices.Equal(rule.Resources, []string{"users"}) {
					t.Errorf("it may %s %v, want users only", verb, rule.Resources)
				}
			case !strings.HasPrefix(verb, "impersonate-on:user-info:") || !slices.Equal(rule.APIGroups, []string{"rollouts.kruise.io"}):
				t.Errorf("it may %s %v of %v", verb, rule.Resources, rule.APIGroups)
			case strings.HasSuffix(verb, ":create"):
				created = append(created, rule.Resources...)
			}
		}
	}
	for _, verb := range rollout.VerbNames() {
		if !slices.Contains(created, "rollouts/"+verb) {
			t.Errorf("it may not create rollouts/%s as its users", verb)
		}
	}
}

// The tab of Argo CD asks where Argo CD passes requests on to weir-dashboard, which knows
// the user, and believes no groups that a client may have sent. Headlamp finds a folder that
// it takes for a plug-in.
func TestTabs(t *testing.T) {
	t.Parallel()
	text := func(name string) string {
		t.Helper()
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	for name, has := range map[string][]string{
		"../web/src/tab.tsx":                       {"'extensions/weir/apis/", "'Argocd-Application-Name'", "'Argocd-Project-Name'"},
		"argocd/argocd-cm-tab.yaml":                {"extension.config.weir:", "url: https://weir-dashboard.weir-system.svc", "X-Weir-Proxy"},
		"argocd/argocd-server.yaml":                {"/tmp/extensions/weir/extension-weir.js, subPath: extension-weir.js"},
		"dashboard-impersonate/kustomization.yaml": {"--user-header=Argocd-Username, --groups-header=]", "--proxy-secret-file=/tls/proxy"},
		"dashboard-impersonate/service.yaml":       {"name: weir-dashboard\n  namespace: weir-system", "port: 443"},
		"headlamp/headlamp.yaml":                   {"mountPath: /headlamp/plugins/weir}"},
		"headlamp/package.json":                    {`"name": "weir"`, `"version": "`, `"@kinvolk/headlamp-plugin": "^0.`},
	} {
		for _, part := range has {
			if !strings.Contains(text(name), part) {
				t.Errorf("%s lacks %q", name, part)
			}
		}
	}
}
