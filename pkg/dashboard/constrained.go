// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// maxStatusBytes limits the bytes that are read of an error response of kube-apiserver.
const maxStatusBytes = 64 << 10

// probeName is the name of a user and a group that CheckConstrained impersonates to test its own permissions.
// Neither needs to exist.
const probeName = "weir-dashboard-probe"

// CheckConstrained returns an error unless the account of the configuration may impersonate users only for
// Rollouts. Clusters before 1.36 do not support such a permission. An account that may impersonate for all
// requests, or may impersonate any group, is too powerful for a program that serves browsers.
func CheckConstrained(ctx context.Context, cluster *rest.Config, prefix string) error {
	may, err := canImpersonate(ctx, cluster, prefix, apiPath+"/rollouts?limit=1")
	if err != nil {
		return err
	}
	if !may {
		return errors.New("this account may not act as others for Rollouts: apply artifacts/dashboard-impersonate, " +
			"on Kubernetes 1.36 or newer, where impersonation can be constrained; or use --auth=bearer or --auth=token")
	}
	more, err := canImpersonate(ctx, cluster, prefix, "/api/v1/namespaces?limit=1")
	if err != nil {
		return err
	}
	if more {
		return errors.New(`this account may act as others for everything: take the verb "impersonate" from its roles`)
	}
	anyGroup, err := canImpersonate(ctx, cluster, prefix, apiPath+"/rollouts?limit=1", prefix+probeName)
	if err != nil {
		return err
	}
	if anyGroup {
		return errors.New("the service account of weir-dashboard may act as any group: list your users' groups in resourceNames of its ClusterRole, or remove the rule for groups")
	}
	return nil
}

// canImpersonate reports whether kube-apiserver accepted the impersonation of the user and the groups,
// regardless of what that user may do.
func canImpersonate(ctx context.Context, cluster *rest.Config, prefix, path string, groups ...string) (bool, error) {
	client, err := rest.HTTPClientFor(cluster)
	if err != nil {
		return false, fmt.Errorf("preparing to ask the cluster: %w", err)
	}
	target, _, err := rest.DefaultServerUrlFor(cluster)
	if err != nil {
		return false, fmt.Errorf("reading the address of the cluster: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(target.String(), "/")+path, nil)
	if err != nil {
		return false, err
	}
	r.Header.Set(transport.ImpersonateUserHeader, prefix+probeName)
	r.Header[transport.ImpersonateGroupHeader] = groups
	answer, err := client.Do(r)
	if err != nil {
		return false, fmt.Errorf("asking the cluster: %w", err)
	}
	defer answer.Body.Close()
	var status metav1.Status
	switch answer.StatusCode {
	case http.StatusOK:
		return true, nil
	case http.StatusForbidden:
		body, err := io.ReadAll(io.LimitReader(answer.Body, maxStatusBytes))
		if err == nil {
			err = json.Unmarshal(body, &status)
		}
		if err != nil {
			return false, fmt.Errorf("reading the answer of the cluster: %w", err)
		}
		return strings.Contains(status.Message, fmt.Sprintf("User %q cannot", prefix+probeName)), nil
	default:
		return false, fmt.Errorf("the cluster answers %s to %s", answer.Status, path)
	}
}
