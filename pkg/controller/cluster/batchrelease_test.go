// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
)

// A BatchRelease that was just created is not in the cache yet. During a release, BatchReleaseOf must find it on
// the server.
func TestBatchReleaseThatTheCacheHasNot(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web"}
	s := cluster.Reader{
		Client: fake.NewClientBuilder().WithScheme(scheme).Build(),
		Live:   fake.NewClientBuilder().WithScheme(scheme).WithObjects(&v1beta1.BatchRelease{ObjectMeta: meta}).Build(),
	}
	for phase, found := range map[rollouts.Phase]bool{
		rollouts.PhaseInitial:     false,
		rollouts.PhaseHealthy:     false,
		rollouts.PhaseProgressing: true,
		rollouts.PhaseTerminating: true,
		rollouts.PhaseDisabling:   true,
		rollouts.PhaseDisabled:    false,
	} {
		r := &rollouts.Rollout{ObjectMeta: meta, Status: rollouts.RolloutStatus{Phase: phase}}
		b, err := s.BatchReleaseOf(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if (b != nil) != found {
			t.Errorf("phase %s: found %t, want %t", phase, b != nil, found)
		}
	}
}
