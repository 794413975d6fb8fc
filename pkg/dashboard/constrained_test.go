// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// A dashboard with impersonation starts only if the cluster limits its impersonation to Rollouts.
func TestCheckConstrained(t *testing.T) {
	t.Parallel()
	const (
		self   = `rollouts is forbidden: User "system:serviceaccount:weir-system:weir-dashboard" cannot impersonate-on:user-info:list resource "rollouts"`
		user   = `rollouts is forbidden: User "sso:weir-dashboard-probe" cannot list resource "rollouts"`
		listed = ""
	)
	for name, tc := range map[string]struct {
		rollouts, namespaces, grouped string
		want                          string
	}{
		"constrained":               {user, self, self, ""},
		"constrained, and listed":   {listed, self, self, ""},
		"no right":                  {self, self, self, "may not act as others for Rollouts"},
		"every right":               {user, user, user, "for everything"},
		"every right, and all seen": {listed, listed, listed, "for everything"},
		"every group":               {user, self, listed, "may act as any group"},
		"down":                      {"down", self, self, "the cluster answers 503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				message := tc.namespaces
				if strings.HasPrefix(r.URL.Path, apiPath) {
					message = tc.rollouts
				}
				if r.Header.Get("Impersonate-Group") == "sso:weir-dashboard-probe" {
					message = tc.grouped
				}
				if r.Header.Get("Impersonate-User") != "sso:weir-dashboard-probe" {
					t.Errorf("impersonated %q", r.Header.Get("Impersonate-User"))
				}
				switch message {
				case listed:
				case "down":
					w.WriteHeader(http.StatusServiceUnavailable)
				default:
					w.WriteHeader(http.StatusForbidden)
					if err := json.NewEncoder(w).Encode(metav1.Status{Message: message}); err != nil {
						t.Error(err)
					}
				}
			}))
			defer server.Close()
			err := CheckConstrained(t.Context(), &rest.Config{Host: server.URL}, "sso:")
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
