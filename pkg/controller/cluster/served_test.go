// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// While CRDs serve the API, no workload counts as unreferenced. Otherwise the controllers would restore it.
func TestNamedWhileOthersServe(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		served []string
		want   string
	}{
		"Weir":   {[]string{"rollouts", "rollouts/status", "rollouts/promote"}, ""},
		"CRDs":   {[]string{"rollouts", "rollouts/status"}, "served by CustomResourceDefinitions"},
		"nobody": {nil, "discovering which server serves"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if tc.served == nil {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "rollouts.kruise.io/v1beta1"}
				for _, name := range tc.served {
					list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
				}
				w.Header().Set("Content-Type", "application/json")
				if err := json.NewEncoder(w).Encode(list); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			api, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			empty := newClientBuilder(t).Build()
			row, _ := workload.Find("apps/v1", "Deployment", rollouts.StylePartition)
			w := &cluster.Workload{Row: row, Object: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}}
			named, err := cluster.Reader{Client: empty, Live: empty, API: api}.IsReferenced(t.Context(), w, cluster.ManagesWorkload)
			if named || (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("named %t, %v, want %q", named, err, tc.want)
			}
		})
	}
}
