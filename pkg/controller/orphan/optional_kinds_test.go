// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// TestDefinitionsOfWorkloads checks that only the CustomResourceDefinitions of workloads cause
// requests.
func TestDefinitionsOfWorkloads(t *testing.T) {
	got := map[string]string{}
	for _, name := range []string{
		"clonesets.apps.kruise.io", "statefulsets.apps.kruise.io", "daemonsets.apps.kruise.io", "statefulsets.apps.example.com",
		"sidecarsets.apps.kruise.io", "clonesets.apps.example.com", "deployments.apps.example.com", "gateways.gateway.networking.k8s.io", "",
	} {
		if row, ok := rowForDefinition(name); ok {
			got[name] = row.GVK.String()
		}
	}
	want := map[string]string{
		"clonesets.apps.kruise.io":      "apps.kruise.io/v1alpha1, Kind=CloneSet",
		"statefulsets.apps.kruise.io":   "apps.kruise.io/v1beta1, Kind=StatefulSet",
		"daemonsets.apps.kruise.io":     "apps.kruise.io/v1alpha1, Kind=DaemonSet",
		"statefulsets.apps.example.com": "apps.example.com/, Kind=StatefulSet", // in whatever version it is served
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestDefinitionOfWhatIsReleased checks that a kind that was not readable when its definition was
// created is tried again when a Rollout or BatchRelease of the kind is deleted.
func TestDefinitionOfWhatIsReleased(t *testing.T) {
	r := &v1beta1.Rollout{}
	if got := requestForReleasedKind(t.Context(), r); len(got) > 0 {
		t.Errorf("a Rollout of nothing: %v", got)
	}
	r.Spec.WorkloadRef = v1beta1.ObjectRef{APIVersion: "apps.example.com/v1", Kind: "StatefulSet", Name: "db"}
	if got := requestForReleasedKind(t.Context(), r); len(got) != 1 || got[0].Name != "statefulsets.apps.example.com" {
		t.Errorf("a look-alike: %v", got)
	}
}
