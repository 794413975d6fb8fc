// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Only the process that raised the fence last can write. A process that read the fence before another
// process raised it cannot raise it.
func TestFence(t *testing.T) {
	s, err := Start(t.Context(), Options{DataDir: t.TempDir(), Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	open := func() *Fence {
		f, err := OpenFence(Remote{Servers: []string{s.Endpoint()}}, "/leader")
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	older, newer := open(), open()
	defer func() {
		if err := errors.Join(older.Close(), newer.Close()); err != nil {
			t.Error(err)
		}
	}()
	writes := func(f *Fence, rev int64) (*clientv3.TxnResponse, error) {
		return f.Client.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision("/x"), "=", rev)).
			Then(clientv3.OpPut("/x", "y")).Else(clientv3.OpGet("/x")).Commit()
	}
	refused := func(what string, f *Fence) {
		t.Helper()
		if r, err := writes(f, 0); !errors.Is(err, ErrFenced) {
			t.Errorf("%s: %v, %v", what, r, err)
		}
	}
	raise := func(f *Fence, seen int64, want error) {
		t.Helper()
		if err := f.Raise(t.Context(), seen); !errors.Is(err, want) {
			t.Errorf("raising what was seen at %d: %v, want %v", seen, err, want)
		}
	}
	seen := func(f *Fence) int64 {
		t.Helper()
		at, err := f.Seen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return at
	}

	refused("before it leads", older)
	raise(older, seen(older), nil)
	first, err := writes(older, 0)
	if err != nil || !first.Succeeded {
		t.Fatalf("the leader's write: %v, %v", first, err)
	}
	if r, err := writes(older, 0); err != nil || r.Succeeded || len(r.Responses) != 1 || len(r.Responses[0].GetResponseRange().Kvs) != 1 {
		t.Errorf("a write of another version: %v, %v", r, err)
	}
	late := seen(older)
	raise(newer, seen(newer), nil)
	refused("after another leads", older)
	raise(older, late, ErrFenced)
	if r, err := writes(newer, first.Header.Revision); err != nil || !r.Succeeded {
		t.Errorf("the new leader's write: %v, %v", r, err)
	}
	if _, err := older.Client.Put(t.Context(), "/x", "z"); err == nil {
		t.Error("a write without a transaction passed")
	}
	if _, err := older.Client.Delete(t.Context(), "/x"); err == nil {
		t.Error("a delete without a transaction passed")
	}
}
