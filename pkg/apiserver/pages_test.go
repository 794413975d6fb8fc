// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	restclient "k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apiserver"
	"github.com/weir-rollouts/weir/pkg/apiserver/apiservertest"
)

const ui = "/apis/rollouts.kruise.io/v1beta1/ui"

// Only users with the ClusterRole weir-ui get the pages, and only if the dashboard is enabled. Each page
// requires only a permission of that role.
func TestDashboard(t *testing.T) {
	t.Parallel()
	users := []user.DefaultInfo{{Name: "alice"}, {Name: "mallory"}}
	allow := func(a authorizer.Attributes) bool {
		return a.GetUser().GetName() == "alice" && a.GetAPIGroup() == "rollouts.kruise.io" && a.GetResource() == "ui" && a.GetSubresource() == "" &&
			(a.GetVerb() == "get" || a.GetVerb() == "list")
	}
	for name, tc := range map[string]struct {
		as, method, path string
		without          bool
		code             int
		media            string
	}{
		"the page":               {as: "alice", path: ui + "/", code: http.StatusOK, media: "text/html"},
		"the program":            {as: "alice", path: ui + "/app.js", code: http.StatusOK, media: "text/javascript"},
		"what is not there":      {as: "alice", path: ui + "/app.js.map", code: http.StatusNotFound, media: "text/plain"},
		"without the last slash": {as: "alice", path: ui, code: http.StatusNotFound, media: "text/plain"},
		"a name like it":         {as: "alice", path: ui + "s/", code: http.StatusForbidden, media: "application/json"},
		"a write":                {as: "alice", method: http.MethodPost, path: ui + "/", code: http.StatusForbidden, media: "application/json"},
		"another user":           {as: "mallory", path: ui + "/", code: http.StatusForbidden, media: "application/json"},
		"no user":                {as: "nobody", path: ui + "/", code: http.StatusUnauthorized, media: "application/json"},
		"a server without pages": {as: "alice", path: ui + "/", without: true, code: http.StatusNotFound, media: "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := apiservertest.Start(t.TempDir(), users, allow, func(o *apiserver.Options) { o.Pages = !tc.without })
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Stop(); err != nil {
					t.Error(err)
				}
			}()
			config := s.As(tc.as)
			client, err := restclient.HTTPClientFor(config)
			if err != nil {
				t.Fatal(err)
			}
			r, err := http.NewRequestWithContext(t.Context(), tc.method, config.Host+tc.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if media := res.Header.Get("Content-Type"); res.StatusCode != tc.code || !strings.HasPrefix(media, tc.media) {
				t.Errorf("answer %d of %s, want %d of %s", res.StatusCode, media, tc.code, tc.media)
			}
			if policy := res.Header.Get("Content-Security-Policy"); tc.code == http.StatusOK && !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'") {
				t.Errorf("policy is %q", policy)
			}
		})
	}
}
