// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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

// A BatchRelease that has changed since it was observed is not deleted: it may have the plan of another release.
func TestChangedBatchReleaseIsNotDeleted(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	server := cluster.Server{Reader: cluster.Reader{Client: s, Live: s}}
	key := types.NamespacedName{Namespace: "default", Name: "web"}
	observed, err := server.BatchRelease(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := server.CommitBatchRelease(t.Context(), observed, rollouts.BatchReleaseStatus{Message: "another release"})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.DeleteBatchRelease(t.Context(), observed); !cluster.IsConflict(err) {
		t.Errorf("deleting the observed version: %v, want a conflict", err)
	}
	if err := server.DeleteBatchRelease(t.Context(), changed); err != nil {
		t.Errorf("deleting the stored version: %v", err)
	}
	if b, err := server.BatchRelease(t.Context(), key); b != nil || err != nil {
		t.Errorf("the BatchRelease is %v (%v), want none", b, err)
	}
}
