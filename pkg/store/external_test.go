// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"k8s.io/apimachinery/pkg/api/resource"
)

// External reads the size and the limit of the etcd. The shares of an external etcd are those of an
// embedded one.
func TestExternal(t *testing.T) {
	t.Parallel()
	w := newTenants(t, 0)
	e, err := NewExternal(Remote{Servers: []string{w.store.Endpoint()}}, mib)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() }) // the store ends as well
	if u := e.Usage(); u.Limit != 0 {
		t.Errorf("before it is asked: %+v", u)
	}
	if err := e.readUsage(t.Context()); err != nil {
		t.Fatal(err)
	}
	if u := e.Usage(); u.Limit != 16*mib || u.InUse <= 0 || u.Size < u.InUse || u.Full {
		t.Errorf("its usage is %+v, and that of etcd %+v", u, w.store.Usage())
	}
	w.Backend = e
	if n := w.fill(Growth, "a", object); n < 30 {
		t.Errorf("%d objects are stored", n)
	}
	if u := w.store.Usage(); u.InUse > u.Limit/4*3 {
		t.Errorf("users have %d of %d bytes", u.InUse, u.Limit)
	}
	for range 100 {
		if _, err = w.client.Put(t.Context(), prefix+"/a", strings.Repeat("a", mib/2)); err != nil {
			break
		}
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatal(err)
	}
	if err := e.readUsage(t.Context()); err != nil || !e.Usage().Full {
		t.Errorf("etcd is full, and its usage is %+v: %v", e.Usage(), err)
	}
}

// If the limit is unknown, only the limits of namespaces apply.
func TestUnknownLimit(t *testing.T) {
	t.Parallel()
	w := newTenants(t, mib)
	w.Backend = &External{}
	if err := w.write(Growth, "a", "web", mib/2, mib/2); err != nil {
		t.Error(err)
	}
	if err := w.write(Growth, "a", "other", mib, mib); err == nil {
		t.Error("a namespace has more than its share")
	}
	if err := w.write(Growth, "", "source", mib, mib); err != nil {
		t.Error(err)
	}
}

// If a member does not answer, Follow logs an error and uses the usage of the other members.
func TestSilentMember(t *testing.T) {
	t.Parallel()
	s := begin(t, Options{DataDir: t.TempDir(), Limit: resource.QuantityValue{Quantity: resource.MustParse("16Mi")}})
	e, err := NewExternal(Remote{Servers: []string{s.Endpoint(), "unix:///nowhere/client.sock"}}, mib)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() }) // the store ends as well
	if err := e.readUsage(t.Context()); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a member that does not answer: %v", err)
	}
	if u := e.Usage(); u.Limit != 16*mib {
		t.Errorf("its usage is %+v", u)
	}
}
