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

// mostStatus is the maximum number of bytes read of kube-apiserver's refusal.
const mostStatus = 64 << 10

// probe is the name of a user and a group that CheckConstrained impersonates to test its own
// rights. Neither needs to exist.
const probe = "weir-dashboard-probe"

// CheckConstrained reports an error unless the account of the configuration may act as
// users for Rollouts, and for nothing else. A cluster before 1.36 knows no such right. An
// account that may impersonate for everything, or any group, is too powerful for a program
// that faces browsers.
func CheckConstrained(ctx context.Context, cluster *rest.Config, prefix string) error {
	may, err := impersonates(ctx, cluster, prefix, version+"/rollouts?limit=1")
	if err != nil {
		return err
	}
	if !may {
		return errors.New("this account may not act as others for Rollouts: apply artifacts/dashboard-impersonate, " +
			"on Kubernetes 1.36 or newer, where impersonation can be constrained; or use --auth=bearer or --auth=token")
	}
	more, err := impersonates(ctx, cluster, prefix, "/api/v1/namespaces?limit=1")
	if err != nil {
		return err
	}
	if more {
		return errors.New(`this account may act as others for everything: take the verb "impersonate" from its roles`)
	}
	anyGroup, err := impersonates(ctx, cluster, prefix, version+"/rollouts?limit=1", prefix+probe)
	if err != nil {
		return err
	}
	if anyGroup {
		return errors.New("the service account of weir-dashboard may act as any group: list your users' groups in resourceNames of its ClusterRole, or remove the rule for groups")
	}
	return nil
}

// impersonates reports whether a request was answered to the user that it impersonates,
// with the groups, whatever that user may do.
func impersonates(ctx context.Context, cluster *rest.Config, prefix, path string, groups ...string) (bool, error) {
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
	r.Header.Set(transport.ImpersonateUserHeader, prefix+probe)
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
		body, err := io.ReadAll(io.LimitReader(answer.Body, mostStatus))
		if err == nil {
			err = json.Unmarshal(body, &status)
		}
		if err != nil {
			return false, fmt.Errorf("reading the answer of the cluster: %w", err)
		}
		return strings.Contains(status.Message, fmt.Sprintf("User %q cannot", prefix+probe)), nil
	default:
		return false, fmt.Errorf("the cluster answers %s to %s", answer.Status, path)
	}
}
