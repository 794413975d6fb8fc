// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && web

package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weir-rollouts/weir/pkg/dashboard"
	"github.com/weir-rollouts/weir/test/patience"
)

// TestImpersonate checks that weir-dashboard with the role of artifacts/dashboard-impersonate acts
// as users on a real cluster, only in requests about Rollouts. It starts with exactly this
// permission.
func TestImpersonate(t *testing.T) {
	c := start(t)
	environment := append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
	admin := func(args ...string) { run(t, environment, kubectl, args...) }
	admin("-n", "weir-system", "create", "serviceaccount", "weir-dashboard")
	own := account(t, c.Kubeconfig(), environment)
	starts := func(want string) {
		t.Helper()
		var last error
		ctx, cancel := patience.Context(t.Context(), patience.Long)
		defer cancel()
		err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			last = dashboard.CheckConstrained(ctx, own, "sso:")
			return (last == nil) == (want == "") && (last == nil || strings.Contains(last.Error(), want)), nil
		})
		if err != nil {
			t.Fatalf("the output is %v, want %q", last, want)
		}
	}
	starts("may not act as others for Rollouts")
	admin("apply", "-f", "../../artifacts/dashboard-impersonate/rbac.yaml")
	starts("")
	admin("create", "clusterrolebinding", "sso-alice", "--clusterrole=view", "--user=sso:alice")
	handler, err := dashboard.NewProxy(own, dashboard.Impersonation{Secret: "p", Prefix: "sso:", UserHeader: "U", GroupsHeader: "G"}, dashboard.About{})
	if err != nil {
		t.Fatal(err)
	}
	const api = "/apis/rollouts.kruise.io/v1beta1"
	for request, want := range map[string]string{
		"alice GET " + api + "/rollouts":                                  "200",
		"bob GET " + api + "/rollouts":                                    `403 User "sso:bob" cannot list`,
		"alice POST " + api + "/namespaces/default/rollouts/web/promote":  `403 User "sso:alice" cannot create`,
		"system:admin GET " + api + "/rollouts":                           `403 User "sso:system:admin" cannot list`,
		"alice GET /api/v1/namespaces/default/pods/web-1/log?tailLines=1": "403 weir-dashboard",
	} {
		who, asked, _ := strings.Cut(request, " ")
		method, path, _ := strings.Cut(asked, " ")
		r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader("{}"))
		r.Header = http.Header{"X-Weir-Proxy": {"p"}, "U": {who}, "Content-Type": {"application/json"}}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		code, text, _ := strings.Cut(want, " ")
		if said := strings.ReplaceAll(w.Body.String(), `\"`, `"`); code != w.Result().Status[:3] || !strings.Contains(said, text) {
			t.Errorf("%s: %s %s, want %s", request, w.Result().Status, said, want)
		}
	}
	admin("create", "clusterrole", "too-much", "--verb=impersonate", "--resource=users")
	admin("create", "clusterrolebinding", "too-much", "--clusterrole=too-much", "--serviceaccount=weir-system:weir-dashboard")
	starts("for everything")
}

// account returns a client configuration of the service account of weir-dashboard.
func account(t *testing.T, kubeconfig string, environment []string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), kubectl, "-n", "weir-system", "create", "token", "weir-dashboard")
	cmd.Env = environment
	token, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	config = rest.AnonymousClientConfig(config)
	config.BearerToken = strings.TrimSpace(string(token))
	return config
}
