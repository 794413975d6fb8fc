// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

func TestInstall(t *testing.T) {
	t.Parallel()
	scheme := newScheme()
	want := []schema.GroupVersion{v1beta1.SchemeGroupVersion, v1alpha1.SchemeGroupVersion}
	if diff := cmp.Diff(want, scheme.PrioritizedVersionsForGroup(rollouts.GroupName)); diff != "" {
		t.Errorf("versions: (-want +got)\n%s", diff)
	}
	kinds := []string{"Rollout", "RolloutList", "BatchRelease", "BatchReleaseList", "PromoteOptions", "AbortOptions",
		"RollbackOptions", "RetryOptions", "PauseOptions", "ResumeOptions", "JumpOptions"}
	views := []string{"RolloutWhy", "RolloutTree", "RolloutPlan", "RolloutReleases", "HistoryOptions"}
	older := []string{"TrafficRouting", "TrafficRoutingList", "RolloutHistory", "RolloutHistoryList"}
	for _, version := range append(want, rollouts.SchemeGroupVersion) {
		for _, kind := range older {
			if got, want := scheme.Recognizes(version.WithKind(kind)), version.Version != "v1beta1"; got != want {
				t.Errorf("%s has %s: %t, want %t", version, kind, got, want)
			}
		}
		for _, kind := range views {
			if got, want := scheme.Recognizes(version.WithKind(kind)), version.Version != "v1alpha1"; got != want {
				t.Errorf("%s has %s: %t, want %t", version, kind, got, want)
			}
		}
		for _, kind := range kinds {
			if !scheme.Recognizes(version.WithKind(kind)) {
				t.Errorf("%s has no %s", version, kind)
			}
		}
	}
}

func TestFieldSelectors(t *testing.T) {
	t.Parallel()
	scheme := newScheme()
	for _, version := range []schema.GroupVersion{v1beta1.SchemeGroupVersion, v1alpha1.SchemeGroupVersion} {
		kinds := []string{"Rollout", "BatchRelease"}
		if version == v1alpha1.SchemeGroupVersion {
			kinds = append(kinds, "TrafficRouting", "RolloutHistory")
		}
		for _, kind := range kinds {
			for label, want := range map[string]bool{
				"metadata.name": true, "metadata.namespace": true, "status.phase": kind == "Rollout", "spec.strategy.paused": false,
			} {
				_, _, err := scheme.ConvertFieldLabel(version.WithKind(kind), label, "x")
				if got := err == nil; got != want {
					t.Errorf("%s of %s %s: selectable is %t, want %t", label, version, kind, got, want)
				}
			}
		}
	}
}
