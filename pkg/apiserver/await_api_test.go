// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The controllers wait while CRDs serve the API, even if a user has just applied Weir's APIServices over
// those that kube-apiserver manages.
func TestLeadsToServer(t *testing.T) {
	t.Parallel()
	service := map[string]any{"service": map[string]any{"name": "weir-apiserver"}}
	managed := map[string]any{"labels": map[string]any{"kube-aggregator.kubernetes.io/automanaged": "true"}}
	for name, tc := range map[string]struct {
		object map[string]any
		want   bool
	}{
		"of CRDs":           {map[string]any{"metadata": managed, "spec": map[string]any{}}, false},
		"applied over it":   {map[string]any{"metadata": managed, "spec": service}, false},
		"of nobody":         {map[string]any{"spec": map[string]any{}}, false},
		"of weir-apiserver": {map[string]any{"spec": service}, true},
	} {
		if got := isServedByServer(&unstructured.Unstructured{Object: tc.object}); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}
