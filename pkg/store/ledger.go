// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

const (
	// keyOverhead is an estimate of the bytes that etcd needs for a key in addition to the key
	// and its value.
	keyOverhead = 256
	// ledgerPageSize is the page size of the first read of all keys. A value may exceed 1 MiB, and each page is
	// in memory as a whole, in this process and in etcd.
	ledgerPageSize = 20
	// ledgerRetryInterval is how long to wait before reading again after a failure.
	ledgerRetryInterval = 5 * time.Second
	// catchUpTimeout is how long a write waits until the ledger has counted all earlier writes.
	catchUpTimeout = 5 * time.Second
)

// Account is the account that the bytes of a key are charged to.
type Account struct{ Namespace, Kind string }

// Ledger counts the bytes that each namespace stores, by kind. It watches etcd, so it counts the
// writes of all processes.
type Ledger struct {
	client *clientv3.Client
	prefix string
	// accountOf returns the Account of a key, given without the prefix. A key for which it returns
	// false is not counted.
	accountOf func(key string) (Account, bool)

	mu          sync.Mutex
	sizes       map[string]int64
	sizesByKind map[string]map[string]int64
	total       int64
	// countedRevision is the etcd revision up to which all writes are counted.
	countedRevision int64
}

// NewLedger returns a ledger of the keys that begin with the prefix. Follow starts it.
func NewLedger(r Remote, prefix string, placeOf func(key string) (Account, bool)) (*Ledger, error) {
	c, err := r.newClient(r.Servers...)
	if err != nil {
		return nil, err
	}
	return &Ledger{client: c, prefix: prefix, accountOf: placeOf}, nil
}

// Close closes the client.
func (l *Ledger) Close() error { return l.client.Close() }

// BytesOf returns the bytes that a namespace stores, and their breakdown by kind, such as "rollouts
// 12.4 MiB".
func (l *Ledger) BytesOf(namespace string) (total int64, parts string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var texts []string
	for _, kind := range slices.Sorted(maps.Keys(l.sizesByKind[namespace])) {
		n := l.sizesByKind[namespace][kind]
		total += n
		texts = append(texts, kind+" "+mebibytes(n))
	}
	return total, strings.Join(texts, ", ")
}

// Total returns the bytes that all namespaces store together.
func (l *Ledger) Total() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// CatchUp waits until all writes up to the current revision are counted, at most catchUpTimeout.
// It reports whether they are.
func (l *Ledger) CatchUp(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	now, err := l.client.Get(ctx, l.prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return false
	}
	err = wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(context.Context) (bool, error) {
		if l.currentRevision() >= now.Header.Revision {
			return true, nil
		}
		return false, l.client.RequestProgress(ctx)
	})
	return err == nil
}

func (l *Ledger) currentRevision() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.countedRevision
}

// Follow keeps the ledger up to date until the context ends. It reads all keys, calls counted
// once, and then watches for changes.
func (l *Ledger) Follow(ctx context.Context, counted func()) {
	var once sync.Once
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		revision, err := l.readAll(ctx)
		if err == nil {
			once.Do(counted)
			err = l.watch(ctx, revision+1)
		}
		if err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Counting the bytes that each namespace stores failed; retrying")
		}
	}, ledgerRetryInterval)
}

// readAll replaces all counts with those of one revision, and returns that revision.
func (l *Ledger) readAll(ctx context.Context) (revision int64, _ error) {
	sizes, from, end := map[string]int64{}, l.prefix, clientv3.GetPrefixRangeEnd(l.prefix)
	for {
		page, err := l.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(ledgerPageSize), clientv3.WithRev(revision))
		if err != nil {
			return 0, fmt.Errorf("reading what is stored: %w", err)
		}
		if revision == 0 {
			revision = page.Header.Revision
		}
		for _, kv := range page.Kvs {
			sizes[string(kv.Key)] = storedSize(kv)
		}
		if !page.More {
			break
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sizes, l.sizesByKind, l.total, l.countedRevision = map[string]int64{}, map[string]map[string]int64{}, 0, revision
	for key, size := range sizes {
		l.setSize(key, size)
	}
	return revision, nil
}

// watch counts changes until the watch ends. It always returns an error; then all keys must be read again.
func (l *Ledger) watch(ctx context.Context, from int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := range l.client.Watch(ctx, l.prefix, clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithProgressNotify()) {
		if err := r.Err(); err != nil {
			return fmt.Errorf("watching what is stored: %w", err)
		}
		l.mu.Lock()
		for _, e := range r.Events {
			size := storedSize(e.Kv)
			if e.Type == mvccpb.Event_DELETE {
				size = 0
			}
			l.setSize(string(e.Kv.Key), size)
		}
		l.countedRevision = r.Header.Revision
		l.mu.Unlock()
	}
	return errors.New("watching what is stored: the watch ended")
}

func storedSize(kv *mvccpb.KeyValue) int64 { return int64(keyOverhead + len(kv.Key) + len(kv.Value)) }

// setSize replaces the size of a key; 0 removes it.
func (l *Ledger) setSize(key string, size int64) {
	place, ok := l.accountOf(strings.TrimPrefix(key, l.prefix))
	if !ok {
		return
	}
	kinds := l.sizesByKind[place.Namespace]
	if kinds == nil {
		kinds = map[string]int64{}
		l.sizesByKind[place.Namespace] = kinds
	}
	kinds[place.Kind] += size - l.sizes[key]
	l.total += size - l.sizes[key]
	if kinds[place.Kind] == 0 {
		delete(kinds, place.Kind)
	}
	if len(kinds) == 0 {
		delete(l.sizesByKind, place.Namespace)
	}
	if l.sizes[key] = size; size == 0 {
		delete(l.sizes, key)
	}
}
