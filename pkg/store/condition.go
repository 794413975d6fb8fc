// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// ErrConditionFailed is the error of a write that was not stored, because the key of its
// Condition has changed.
var ErrConditionFailed = errors.New("another request modified the etcd key that this write depends on")

// Condition is a precondition on another key: a transaction is stored only if that key is
// unchanged since Revision.
type Condition struct {
	Key string
	// Revision at which the key must have been modified last.
	Revision int64
}

type conditionKey struct{}

// WithCondition returns a context whose transactions have a condition. The function is called
// when a transaction is committed. If it returns false, the transaction has no condition.
func WithCondition(ctx context.Context, condition func() (Condition, bool)) context.Context {
	return context.WithValue(ctx, conditionKey{}, condition)
}

// OpenConditional returns an etcd client that adds the condition of the context to each
// transaction. A successful transaction also raises the revision of the condition's key,
// without changing its value. So two writes with the same condition never both succeed.
func OpenConditional(r Remote) (*clientv3.Client, error) {
	c, err := r.newClient(r.Servers...)
	if err != nil {
		return nil, err
	}
	c.KV = conditionalKV{c.KV}
	return c, nil
}

type conditionalKV struct{ clientv3.KV }

// Txn implements clientv3.KV.
func (kv conditionalKV) Txn(ctx context.Context) clientv3.Txn {
	inner := kv.KV.Txn(ctx)
	ask, ok := ctx.Value(conditionKey{}).(func() (Condition, bool))
	if !ok {
		return inner
	}
	return &conditionalTxn{txnParts: txnParts{inner: inner}, condition: ask}
}

type conditionalTxn struct {
	txnParts
	condition func() (Condition, bool)
}

// If implements clientv3.Txn.
func (t *conditionalTxn) If(compares ...clientv3.Cmp) clientv3.Txn {
	t.addIf(compares)
	return t
}

// Then implements clientv3.Txn.
func (t *conditionalTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.addThen(ops)
	return t
}

// Else implements clientv3.Txn.
func (t *conditionalTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.addElse(ops)
	return t
}

// Commit implements clientv3.Txn.
func (t *conditionalTxn) Commit() (*clientv3.TxnResponse, error) {
	c, ok := t.condition()
	if !ok {
		return t.commit()
	}
	t.addThen([]clientv3.Op{clientv3.OpPut(c.Key, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())})
	return t.commitIf(c.Key, c.Revision, ErrConditionFailed)
}

// txnParts collects the compares and operations of a transaction, to which Commit adds its own.
type txnParts struct {
	inner        clientv3.Txn
	compares     []clientv3.Cmp
	then, orElse []clientv3.Op
}

func (p *txnParts) addIf(compares []clientv3.Cmp) { p.compares = append(p.compares, compares...) }
func (p *txnParts) addThen(ops []clientv3.Op)     { p.then = append(p.then, ops...) }
func (p *txnParts) addElse(ops []clientv3.Op)     { p.orElse = append(p.orElse, ops...) }

func (p *txnParts) commit() (*clientv3.TxnResponse, error) {
	return p.inner.If(p.compares...).Then(p.then...).Else(p.orElse...).Commit()
}

// commitIf commits the transaction if the key was last modified at the revision, and returns
// the error changed otherwise. The Get of the key is the last operation and is removed from the
// response, so callers see only the responses to their own operations.
func (p *txnParts) commitIf(key string, revision int64, changed error) (*clientv3.TxnResponse, error) {
	p.addIf([]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", revision)})
	p.addElse([]clientv3.Op{clientv3.OpGet(key)})
	r, err := p.commit()
	if err != nil || r.Succeeded {
		return r, err
	}
	last := len(r.Responses) - 1
	at := r.Responses[last].GetResponseRange().Kvs
	if len(at) == 0 || at[0].ModRevision != revision {
		return nil, changed
	}
	r.Responses = r.Responses[:last]
	return r, nil
}
