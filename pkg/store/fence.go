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

// ErrFenced is the error for a write of a process that is no longer the leader.
var ErrFenced = errors.New("another process leads by now")

// fenceTimeout limits how long the fence waits for etcd.
const fenceTimeout = 3 * time.Second

// Fence admits writes of one process only: the process that raised the fence last. Each of its writes
// compares the revision of a key in the same transaction.
type Fence struct {
	// Client is the etcd client whose writes the fence protects.
	Client *clientv3.Client

	inner clientv3.KV
	key   string
	// raised is the revision at which this process raised the fence; 0 if it has not.
	raised atomic.Int64
}

// OpenFence returns a fence with a new etcd client. All processes use the same key.
func OpenFence(r Remote, key string) (*Fence, error) {
	c, err := r.newClient(r.Servers...)
	if err != nil {
		return nil, err
	}
	f := &Fence{Client: c, inner: c.KV, key: key}
	c.KV = fencedKV{c.KV, f}
	return f, nil
}

// Seen returns the revision at which a process raised the fence last; 0 if none has.
func (f *Fence) Seen(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, fenceTimeout)
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

// Raise excludes all other processes from writing. It fails if another process has raised the fence after
// the revision seen.
func (f *Fence) Raise(ctx context.Context, seen int64) error {
	ctx, cancel := context.WithTimeout(ctx, fenceTimeout)
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

// Close closes the client.
func (f *Fence) Close() error { return f.Client.Close() }

// fencedKV compares the fence's key in each transaction. It refuses writes outside of transactions.
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
	return &fencedTxn{txnParts: txnParts{inner: kv.KV.Txn(ctx)}, fence: kv.fence}
}

type fencedTxn struct {
	txnParts
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
