// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/artifacts"
	"github.com/weir-rollouts/weir/test/cluster"
)

// TestStolenDashboardToken uses a stolen token of weir-dashboard. The token may impersonate users
// in requests about Rollouts, but no groups, service accounts or nodes, and not in other requests.
func TestStolenDashboardToken(t *testing.T) {
	t.Parallel()
	manifest, err := artifacts.Files.ReadFile("dashboard-impersonate/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := cluster.Decode(bytes.NewReader(manifest))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if err := testEnv.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := testEnv.client.Delete(context.WithoutCancel(t.Context()), o); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		})
	}
	thief, err := testEnv.cluster.ConfigAs("system:serviceaccount:weir-system:weir-dashboard", "system:serviceaccounts", "system:serviceaccounts:weir-system")
	if err != nil {
		t.Fatal(err)
	}
	const rollouts, namespaces = "/apis/rollouts.kruise.io/v1beta1/rollouts?limit=1", "/api/v1/namespaces?limit=1"
	// Kubernetes 1.36 serves both these policies and constrained impersonation.
	constrained, err := testEnv.cluster.ServesPolicies()
	if err != nil {
		t.Fatal(err)
	}
	(&app{t: t}).eventually("the roles are in force", func(ctx context.Context) error {
		answer, err := requestAs(ctx, thief, rollouts, "sso:alice")
		if err == nil && strings.Contains(answer, `User \"sso:alice\" cannot`) != constrained {
			return errors.New(answer)
		}
		return err
	})
	for name, as := range map[string][]string{
		"a group of all rights": {rollouts, "sso:alice", "system:masters"},
		"a group of the proxy":  {rollouts, "sso:alice", "sso:admins"},
		"a group of kubeadm":    {rollouts, "sso:alice", "kubeadm:cluster-admins"},
		"a service account":     {rollouts, "system:serviceaccount:weir-system:weir-controller"},
		"a node":                {rollouts, "system:node:one"},
		"another request":       {namespaces, "sso:alice"},
	} {
		answer, err := requestAs(t.Context(), thief, as[0], as[1], as[2:]...)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(answer, `User \"system:serviceaccount:weir-system:weir-dashboard\" cannot impersonate`) {
			t.Errorf("%s: %s, want a refusal of the impersonation", name, answer)
		}
	}
}

// requestAs sends a request that impersonates a user with groups, and returns the response.
func requestAs(ctx context.Context, config *rest.Config, path, user string, groups ...string) (string, error) {
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Impersonate-User", user)
	request.Header["Impersonate-Group"] = groups
	response, err := c.Do(request)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	return string(body), errors.Join(err, response.Body.Close())
}
