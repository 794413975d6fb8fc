// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/weir-rollouts/weir/test/patience"
)

const mib = 1 << 20

// Requests wait for a defragmentation, so it happens only if it frees much space.
func TestFragmented(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		usage Usage
		want  bool
	}{
		"small":                      {Usage{Size: 100 * mib, InUse: 40 * mib}, false},
		"most of it is free":         {Usage{Size: 140 * mib, InUse: 60 * mib}, true},
		"most is free, much in use":  {Usage{Size: 1000 * mib, InUse: 300 * mib}, false},
		"most of it is in use":       {Usage{Size: 1000 * mib, InUse: 600 * mib}, false},
		"near the limit":             {Usage{Size: 1600 * mib, InUse: 1300 * mib}, true},
		"near the limit, but in use": {Usage{Size: 1600 * mib, InUse: 1500 * mib}, false},
		"full of what is free":       {Usage{Size: 2000 * mib, InUse: 1800 * mib, Full: true}, true},
		"full, some of it is free":   {Usage{Size: 2000 * mib, InUse: 1900 * mib, Full: true}, true},
		"full, little of it is free": {Usage{Size: 2000 * mib, InUse: 1980 * mib, Full: true}, false},
		"full of what is in use":     {Usage{Size: 2000 * mib, InUse: 1950 * mib, Full: true}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.usage.Limit = 2000 * mib
			if got := tt.usage.needsDefragmentation(); got != tt.want {
				t.Errorf("worth a defragmentation: %t, want %t", got, tt.want)
			}
		})
	}
}

// The space of overwritten objects is freed: before the limit is reached if there is time, and after that
// otherwise.
func TestTidy(t *testing.T) {
	t.Parallel()
	s := begin(t, Options{DataDir: t.TempDir(), Limit: resource.QuantityValue{Quantity: resource.MustParse("16Mi")}})
	c := clientOf(t, s)
	var full error
	for i := 0; i < 100 && full == nil; i++ {
		_, full = c.Put(t.Context(), prefix+"/a", strings.Repeat("a", mib/2))
	}
	if !errors.Is(full, rpctypes.ErrNoSpace) {
		t.Fatalf("got %v, want %v", full, rpctypes.ErrNoSpace)
	}
	if u := s.Usage(); !u.Full {
		t.Errorf("etcd is full, but its usage is %+v", u)
	}
	if err := s.RunMaintenance(t.Context()); err != nil {
		t.Fatal(err)
	}
	if u := s.Usage(); u.Full || u.Size > 2*mib {
		t.Errorf("after tidying up its usage is %+v", u)
	}
	revision := put(t, c, prefix+"/a", "b")

	// Half of the store was written, and the API server has compacted it: the size is near the limit.
	for range 26 {
		revision = put(t, c, prefix+"/a", strings.Repeat("a", mib/2))
	}
	if _, err := c.Compact(t.Context(), revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	before := freed(t, s)
	if err := s.RunMaintenance(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := s.Usage(); after.Size > before.Size/2 {
		t.Errorf("its usage was %+v and is %+v", before, after)
	}
}

// freed returns the usage once the pages that a compaction freed count as free: after a commit, when all
// earlier read transactions have ended.
func freed(t *testing.T, s *Store) (u Usage) {
	t.Helper()
	ctx, cancel := patience.Context(t.Context(), patience.Long)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		s.etcd.Server.Backend().ForceCommit()
		u = s.Usage()
		return u.needsDefragmentation(), nil
	})
	if err != nil {
		t.Fatalf("%v: its usage is %+v", err, u)
	}
	return u
}

// After a cleanup, a store with nineteen twentieths in use accepts the writes that free space.
func TestTidyWhereMuchIsInUse(t *testing.T) {
	t.Parallel()
	s := begin(t, Options{DataDir: t.TempDir(), Limit: resource.QuantityValue{Quantity: resource.MustParse("16Mi")}})
	c := clientOf(t, s)
	for i := range 76 { // 15.2 MB of 16 MiB
		put(t, c, fmt.Sprint(prefix, "/", i), strings.Repeat("a", 200_000))
	}
	var full error
	for i := 0; i < 100 && full == nil; i++ {
		_, full = c.Put(t.Context(), prefix+"/same", strings.Repeat("a", 200_000))
	}
	if !errors.Is(full, rpctypes.ErrNoSpace) {
		t.Fatalf("got %v, want %v", full, rpctypes.ErrNoSpace)
	}
	if err := s.RunMaintenance(t.Context()); err != nil {
		t.Fatal(err)
	}
	u := s.Usage()
	if u.Full || u.InUse < u.Limit/10*9 {
		t.Errorf("after tidying up its usage is %+v", u)
	}
	put(t, c, prefix+"/1", strings.Repeat("b", 100_000))
}
