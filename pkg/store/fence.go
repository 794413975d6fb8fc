// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// ErrFenced refuses a write of a process that another one has followed.
var ErrFenced = errors.New("another process leads by now")

// fenceLimit is how long the fence waits for etcd.
const fenceLimit = 3 * time.Second

// Fence lets one process at a time write, the one that raised it last. Each of its writes
// compares a key of the store in its own transaction.
type Fence struct {
	// Client writes behind the fence.
	Client *clientv3.Client

	inner clientv3.KV
	key   string
	// raised is the revision at which this process has raised it; 0 if it has not.
	raised atomic.Int64
}

// OpenFence makes a client of an etcd that compares the key.
func OpenFence(r Remote, key string) (*Fence, error) {
	c, err := r.client(r.Servers...)
	if err != nil {
		return nil, err
	}
	f := &Fence{Client: c, inner: c.KV, key: key}
	c.KV = fencedKV{c.KV, f}
	return f, nil
}

// Seen is the revision at which some process has raised the fence last.
func (f *Fence) Seen(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, fenceLimit)
	defer cancel()
	r, err := f.inner.Get(ctx, f.key)
	if err != nil {
		return 0, fmt.Errorf("reading the fence: %w", err)
	}
	if len(r.Kvs) == 0 {
		return 0, nil
	}
	return r.Kvs[0].ModRevision, nil
}

// Raise keeps all others from writing, unless one has raised the fence since it was seen.
func (f *Fence) Raise(ctx context.Context, seen int64) error {
	ctx, cancel := context.WithTimeout(ctx, fenceLimit)
	defer cancel()
	r, err := f.inner.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(f.key), "=", seen)).Then(clientv3.OpPut(f.key, "")).Commit()
	if err != nil {
		return fmt.Errorf("raising the fence: %w", err)
	}
	if !r.Succeeded {
		return fmt.Errorf("raising the fence: %w", ErrFenced)
	}
	f.raised.Store(r.Header.Revision)
	return nil
}

// Close ends the client.
func (f *Fence) Close() error { return f.Client.Close() }

// fencedKV compares the fence in each transaction. Other writes are not possible.
type fencedKV struct {
	clientv3.KV
	fence *Fence
}

var errUnfenced = errors.New("only a transaction can write behind the fence")

// Put implements clientv3.KV.
func (fencedKV) Put(context.Context, string, string, ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	return nil, errUnfenced
}

// Delete implements clientv3.KV.
func (fencedKV) Delete(context.Context, string, ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	return nil, errUnfenced
}

// Do implements clientv3.KV.
func (kv fencedKV) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	if !op.IsGet() {
		return clientv3.OpResponse{}, errUnfenced
	}
	return kv.KV.Do(ctx, op)
}

// Txn implements clientv3.KV.
func (kv fencedKV) Txn(ctx context.Context) clientv3.Txn {
	return &fencedTxn{parts: parts{inner: kv.KV.Txn(ctx)}, fence: kv.fence}
}

type fencedTxn struct {
	parts
	fence *Fence
}

// If implements clientv3.Txn.
func (t *fencedTxn) If(compares ...clientv3.Cmp) clientv3.Txn {
	t.addIf(compares)
	return t
}

// Then implements clientv3.Txn.
func (t *fencedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.addThen(ops)
	return t
}

// Else implements clientv3.Txn.
func (t *fencedTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.addElse(ops)
	return t
}

// Commit implements clientv3.Txn. It returns ErrFenced if another process leads.
func (t *fencedTxn) Commit() (*clientv3.TxnResponse, error) {
	raised := t.fence.raised.Load()
	if raised == 0 {
		return nil, ErrFenced
	}
	return t.commitIf(t.fence.key, raised, ErrFenced)
}
