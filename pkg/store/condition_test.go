// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Of two writes with the same condition, one succeeds, even if they write different keys. The key of the
// condition keeps its value.
func TestCondition(t *testing.T) {
	t.Parallel()
	s := begin(t, Options{DataDir: t.TempDir()})
	plain := clientOf(t, s)
	c, err := OpenConditional(Remote{Servers: []string{s.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the store ends as well
	claim := put(t, plain, prefix+"/claim", "mine")
	write := func(key string, if0 bool, condition func() (Condition, bool)) (*clientv3.TxnResponse, error) {
		txn := c.Txn(WithCondition(t.Context(), condition))
		if if0 {
			txn = txn.If(clientv3.Compare(clientv3.ModRevision(key), "=", 0))
		}
		return txn.Then(clientv3.OpPut(key, "x")).Else(clientv3.OpGet(key)).Commit()
	}
	held := func() (Condition, bool) { return Condition{Key: prefix + "/claim", Revision: claim}, true }

	if r, err := write(prefix+"/a", true, held); err != nil || !r.Succeeded {
		t.Fatalf("the first write: %v, %v", r, err)
	}
	if _, err := write(prefix+"/b", true, held); !errors.Is(err, ErrConditionFailed) {
		t.Errorf("the second write with the same condition: %v", err)
	}
	now, err := plain.Get(t.Context(), prefix+"/claim")
	if err != nil || string(now.Kvs[0].Value) != "mine" {
		t.Fatalf("the claim is %v: %v", now, err)
	}
	fresh := func() (Condition, bool) {
		return Condition{Key: prefix + "/claim", Revision: now.Kvs[0].ModRevision}, true
	}
	// The write fails for its own reason: the response is that of a write without a condition.
	if r, err := write(prefix+"/a", true, fresh); err != nil || r.Succeeded || len(r.Responses) != 1 || len(r.Responses[0].GetResponseRange().Kvs) != 1 {
		t.Errorf("a write whose own comparison fails: %v, %v", r, err)
	}
	if _, err := plain.Delete(t.Context(), prefix+"/claim"); err != nil {
		t.Fatal(err)
	}
	if _, err := write(prefix+"/b", true, fresh); !errors.Is(err, ErrConditionFailed) {
		t.Errorf("a write whose claim is deleted: %v", err)
	}
	none := func() (Condition, bool) { return Condition{}, false }
	if r, err := write(prefix+"/b", true, none); err != nil || !r.Succeeded {
		t.Errorf("a write without a condition: %v, %v", r, err)
	}
	if r, err := c.Txn(context.WithoutCancel(t.Context())).Then(clientv3.OpPut(prefix+"/c", "x")).Commit(); err != nil || !r.Succeeded {
		t.Errorf("a write of another context: %v, %v", r, err)
	}
}
