// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	testingclock "k8s.io/utils/clock/testing"
)

// countingBackend counts the calls of Reclaim. The first call waits until all requests have read
// the usage.
type countingBackend struct {
	*Store
	requests int64
	read     atomic.Int64
	all      chan struct{}
	reclaims atomic.Int64
}

func (b *countingBackend) Usage() Usage {
	if b.read.Add(1) == b.requests {
		close(b.all)
	}
	return b.Store.Usage()
}

func (b *countingBackend) Reclaim(ctx context.Context, enough func(Usage) bool) bool {
	b.reclaims.Add(1)
	<-b.all
	return b.Store.Reclaim(ctx, enough)
}

// Many creations at once in a full store cause one compaction, not one each.
func TestRefusedWritesShareOneReclaim(t *testing.T) {
	t.Parallel()
	for _, class := range []Class{Growth, Record} {
		t.Run(fmt.Sprint(class), func(t *testing.T) {
			t.Parallel()
			w := newTenants(t, 0)
			w.fill(class, "a", object)
			b := &countingBackend{Store: w.store, requests: 50, all: make(chan struct{})}
			r := &Room{Backend: b, Ledger: w.Ledger, Clock: testingclock.NewFakePassiveClock(time.Now())}
			var wg sync.WaitGroup
			for range b.requests {
				wg.Go(func() {
					var full *FullError
					if _, err := r.Admit(t.Context(), Write{Namespace: "a", Class: class, Bytes: mib, Growth: mib}); !errors.As(err, &full) {
						t.Errorf("a write to a full store: %v", err)
					}
				})
			}
			wg.Wait()
			if n := b.reclaims.Load(); n != 1 {
				t.Errorf("%d refused writes caused %d calls of Reclaim, want 1", b.requests, n)
			}
		})
	}
}

// A Reclaim that did not take place must not look like one: the Room would forget the writes that
// the usage may not include yet.
func TestReclaimReportsFailure(t *testing.T) {
	t.Parallel()
	s := begin(t, Options{DataDir: t.TempDir()})
	put(t, clientOf(t, s), prefix+"/a", "b")
	never := func(Usage) bool { return false }
	if !s.Reclaim(t.Context(), never) {
		t.Error("a Reclaim that compacted returned false")
	}
	put(t, clientOf(t, s), prefix+"/a", "c")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s.Reclaim(ctx, never) {
		t.Error("a cancelled Reclaim returned true")
	}
}

// largestPage records the largest response to a read.
type largestPage struct {
	clientv3.KV
	bytes, pages int
}

func (k *largestPage) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	page, err := k.KV.Get(ctx, key, opts...)
	if err == nil {
		k.pages++
		bytes := 0
		for _, kv := range page.Kvs {
			bytes += len(kv.Value)
		}
		k.bytes = max(k.bytes, bytes)
	}
	return page, err
}

// The first count of the ledger must not hold hundreds of large objects in memory at once.
func TestLedgerReadsSmallPages(t *testing.T) {
	t.Parallel()
	w := newTenants(t, 0)
	const keys, size = 50, 100_000
	for i := range keys {
		put(t, w.client, fmt.Sprintf("%s/rollouthistories/a/%03d", prefix, i), strings.Repeat("x", size))
	}
	ledger, err := NewLedger(Remote{Servers: []string{w.store.Endpoint()}}, prefix+"/", w.Ledger.accountOf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	read := &largestPage{KV: ledger.client.KV}
	ledger.client.KV = read
	if _, err := ledger.readAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if most := 22 * size; read.bytes > most {
		t.Errorf("a page has %d bytes, want at most %d", read.bytes, most)
	}
	if n, _ := ledger.BytesOf("a"); n < keys*size || n > keys*(size+1000) {
		t.Errorf("in %d pages the ledger counts %d bytes in %d keys of %d", read.pages, n, keys, size)
	}
}
