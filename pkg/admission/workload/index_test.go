// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	restclient "k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/install"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// The Rollouts of a workload are found among others of the namespace, the oldest
// first, and read as they are now: without a version.
func TestStored(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	var list v1beta1.RolloutList
	list.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind("RolloutList"))
	for _, r := range []struct{ name, kind, workload string }{
		{"second", "Deployment", "web"}, {"other", "Deployment", "api"}, {"first", "Deployment", "web"}, {"kind", "StatefulSet", "web"},
	} {
		item := v1beta1.Rollout{Spec: v1beta1.RolloutSpec{WorkloadRef: v1beta1.ObjectRef{APIVersion: "apps/v1", Kind: r.kind, Name: r.workload}}}
		item.Name = r.name
		list.Items = append(list.Items, item)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if want := "/apis/rollouts.kruise.io/v1beta1/namespaces/ns/rollouts"; r.URL.String() != want {
			t.Errorf("asked for %s, want %s", r.URL, want)
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(list); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	gv := v1beta1.SchemeGroupVersion
	client, err := restclient.RESTClientFor(&restclient.Config{Host: server.URL, APIPath: "/apis", ContentConfig: restclient.ContentConfig{
		GroupVersion: &gv, NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	index, err := NewIndex(client, scheme)
	if err != nil {
		t.Fatal(err)
	}
	found, err := index.Stored(t.Context(), "ns", rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range found {
		names = append(names, r.Name)
	}
	if diff := cmp.Diff([]string{"first", "second"}, names); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}
