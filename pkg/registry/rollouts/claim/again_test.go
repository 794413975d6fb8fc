// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/claim"
)

// during calls a function once while a request reads the stored owner of a claim.
func (w *world) during(happens func()) {
	read, done := w.GetRollout, false
	w.GetRollout = func(ctx context.Context, namespace, name string) (*rollouts.Rollout, error) {
		r, err := read(ctx, namespace, name)
		if !done {
			done = true
			happens()
		}
		return r, err
	}
}

// A move fails and leaves its claim behind. More than a minute later the move is tried again. The claim
// must be valid again from then on, or another Rollout could take over the workload while the move is being
// stored.
func TestClaimAgain(t *testing.T) {
	t.Parallel()
	w := newWorld()
	first, second := owner(t, "first", "1"), owner(t, "second", "2")
	w.store(first, api)
	must(w.Acquire(t.Context(), first, web))
	w.pass(time.Hour)
	must(w.Acquire(t.Context(), first, web))
	w.pass(59 * time.Second)
	if err := w.Acquire(t.Context(), second, web); !apierrors.IsConflict(err) {
		t.Errorf("the second Rollout took the claim over, which the first one has just acquired: %v", err)
	}
}

// A request that is about to take over an old claim read it before its owner acquired it again.
func TestTakeOverComparesWhatItRead(t *testing.T) {
	t.Parallel()
	w := newWorld()
	first, second := owner(t, "first", "1"), owner(t, "second", "2")
	w.store(first, api)
	must(w.Acquire(t.Context(), first, web))
	w.pass(time.Hour)
	w.during(func() { must(w.Acquire(t.Context(), first, web)) })
	if err := w.Acquire(t.Context(), second, web); !apierrors.IsConflict(err) {
		t.Errorf("the second Rollout took over a claim that had changed since it was read: %v", err)
	}
}

// Acquiring a claim again raises the revision that the write of the Rollout compares, also within one
// second.
func TestHeldRevision(t *testing.T) {
	t.Parallel()
	w := newWorld()
	first := owner(t, "first", "1")
	var seen []int64
	for range 3 {
		ctx, held := claim.WithAcquiredClaim(t.Context())
		must(w.Acquire(ctx, first, web))
		if held.Key == "" || len(seen) > 0 && held.Revision <= seen[len(seen)-1] {
			t.Fatalf("the claim is held as %+v after revisions %v", *held, seen)
		}
		seen = append(seen, held.Revision)
	}
}

// Release deletes only the claim that it has read, and only if the stored Rollout does not reference the
// workload.
func TestReleaseKeepsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		while func(w *world, first claim.Owner)
		kept  bool
	}{
		"nothing happens":                    {func(*world, claim.Owner) {}, false},
		"the workload is named":              {func(w *world, f claim.Owner) { w.store(f, web) }, true},
		"another request of the owner moves": {func(w *world, f claim.Owner) { w.during(func() { must(w.Acquire(context.Background(), f, web)) }) }, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			first := owner(t, "first", "1")
			w.store(first, api)
			must(w.Acquire(t.Context(), first, web))
			tt.while(w, first)
			must(w.Release(t.Context(), first, web))
			err := w.Acquire(t.Context(), owner(t, "second", "2"), web)
			if (err != nil) != tt.kept {
				t.Errorf("the claim is kept: %t, want %t (%v)", err != nil, tt.kept, err)
			}
		})
	}
}
