// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

// tenants is an etcd of 16 MiB with a Room, and its writers.
type tenants struct {
	*Room
	t      *testing.T
	store  *Store
	client *clientv3.Client
}

func newTenants(t *testing.T, namespaceLimit int64) *tenants {
	t.Helper()
	s := begin(t, Options{DataDir: t.TempDir(), Limit: resource.QuantityValue{Quantity: resource.MustParse("16Mi")}})
	ledger, err := NewLedger(Remote{Servers: []string{s.Endpoint()}}, prefix+"/", func(key string) (Account, bool) {
		kind, rest, _ := strings.Cut(key, "/")
		namespace, _, ok := strings.Cut(rest, "/")
		return Account{Namespace: namespace, Kind: kind}, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	counted := make(chan struct{})
	var follows sync.WaitGroup
	follows.Go(func() { ledger.Follow(ctx, func() { close(counted) }) })
	t.Cleanup(func() {
		cancel()
		follows.Wait()
		_ = ledger.Close() // the store ends as well
	})
	<-counted
	return &tenants{&Room{Backend: s, Ledger: ledger, NamespaceLimit: namespaceLimit, Clock: clock.RealClock{}}, t, s, clientOf(t, s)}
}

// write stores an object of the given size, if there is room.
func (w *tenants) write(class Class, namespace, name string, bytes, growth int) error {
	done, err := w.Admit(w.t.Context(), Write{Namespace: namespace, Class: class, Bytes: int64(bytes), Growth: int64(growth)})
	if err == nil {
		defer done()
		_, err = w.client.Put(w.t.Context(), prefix+"/rollouts/"+namespace+"/"+name, strings.Repeat("x", bytes))
	}
	return err
}

// fill writes new objects until a write is refused, and returns how many were stored.
func (w *tenants) fill(class Class, namespace string, bytes int) int {
	w.t.Helper()
	for i := range 1000 {
		var full *FullError
		switch err := w.write(class, namespace, fmt.Sprintf("%d-%d", class, i), bytes, bytes); {
		case errors.As(err, &full):
			return i
		case err != nil:
			w.t.Fatalf("write %d of class %d, with %+v: %v", i, class, w.store.Usage(), err)
		}
	}
	w.t.Fatal("nothing is refused")
	return 0
}

const object = 240_000

// Growth leaves a quarter of the store free, and records leave an eighth. The rest is enough to overwrite
// the largest objects repeatedly, although etcd counts overwritten versions until it is compacted, and
// compares its limit with the size of its file.
func TestRoomIsKept(t *testing.T) {
	t.Parallel()
	w := newTenants(t, 0)
	n := w.fill(Growth, "a", object)
	u := w.store.Usage()
	t.Logf("%d objects of %d bytes: %+v", n, object, u)
	if u.InUse > u.Limit/4*3 || u.InUse < u.Limit/2 {
		t.Errorf("users have %d of %d bytes", u.InUse, u.Limit)
	}
	for _, namespace := range []string{"b", ""} {
		if err := w.write(Growth, namespace, "more", object, object); err == nil || !strings.Contains(err.Error(), "the store has") {
			t.Errorf("in namespace %q: %v", namespace, err)
		}
	}
	w.overwrites(200, u) // 48 MB
	if w.fill(Record, "a", object) == 0 {
		t.Error("there is no room for records")
	}
	if u := w.store.Usage(); u.InUse > u.Limit/8*7 {
		t.Errorf("with records %d of %d bytes are in use", u.InUse, u.Limit)
	}
	w.overwrites(20, u)
}

// Objects can become smaller even in a full store, because no other class of write may use the last part.
func TestShrinkingHasRoom(t *testing.T) {
	t.Parallel()
	w := newTenants(t, 0)
	for _, class := range []Class{Growth, Record, Essential} {
		w.fill(class, "a", object/8)
	}
	u := w.store.Usage()
	if u.InUse > u.Limit/16*15 || u.InUse < u.Limit/10*9 {
		t.Errorf("the controllers have %d of %d bytes", u.InUse, u.Limit)
	}
	for i := range 100 {
		if err := w.write(Always, "a", "0-0", object, -1); err != nil {
			t.Fatalf("write %d of an object that becomes smaller, with %+v: %v", i, w.store.Usage(), err)
		}
	}
}

// overwrites overwrites three objects repeatedly, as controllers and safety verbs do.
func (w *tenants) overwrites(times int, u Usage) {
	w.t.Helper()
	most := int64(0)
	for i := range times {
		if err := w.write(Essential, "b", fmt.Sprint("essential", i%3), object, 0); err != nil {
			w.t.Fatalf("essential write %d, with %+v: %v", i, w.store.Usage(), err)
		}
		most = max(most, w.store.Usage().Size)
	}
	w.t.Logf("beside %d bytes that users store, the file had up to %d of %d bytes", u.InUse, most, u.Limit)
}

// A user who overwrites objects as fast as possible does not use up the space of others: overwritten
// versions are compacted when the space is needed.
func TestRoomAfterOverwriting(t *testing.T) {
	t.Parallel()
	w := newTenants(t, 0)
	for i := range 300 { // 72 MB
		if err := w.write(Record, "a", "same", object, 0); err != nil {
			t.Fatalf("write %d, with %+v: %v", i, w.store.Usage(), err)
		}
		if i%20 == 0 {
			if err := w.write(Growth, "b", strconv.Itoa(i), object, object); err != nil {
				t.Fatalf("somebody else at write %d, with %+v: %v", i, w.store.Usage(), err)
			}
		}
	}
}

// Concurrent writes are counted before etcd has committed them.
func TestRoomForManyAtOnce(t *testing.T) {
	t.Parallel()
	w := newTenants(t, 4*mib)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			var full *FullError
			if err := w.write(Growth, fmt.Sprint("n", i%2), strconv.Itoa(i), object, object); err != nil && !errors.As(err, &full) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, namespace := range []string{"n0", "n1"} {
		w.counts(namespace, func(n int64) bool { return n > 2*mib && n <= 4*mib })
	}
}

// Two writes can both find room before either is counted. reserve checks the later one again.
func TestReserveJudges(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]Write{
		"the namespace": {Namespace: "a", Class: Growth, Bytes: object, Growth: 3 * mib},
		"the store":     {Class: Growth, Bytes: 7 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTenants(t, 4*mib)
			done, err := w.reserve(write)
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			var full *FullError
			if _, err := w.reserve(write); !errors.As(err, &full) || full.Namespace != write.Namespace {
				t.Errorf("two writes that exceed what %s has left: %v", name, err)
			}
		})
	}
}

// counts waits until the ledger shows the expected bytes of a namespace.
func (w *tenants) counts(namespace string, right func(int64) bool) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		n, _ := w.Ledger.BytesOf(namespace)
		return right(n), nil
	})
	if err != nil {
		n, parts := w.Ledger.BytesOf(namespace)
		w.t.Errorf("namespace %s stores %d bytes: %s", namespace, n, parts)
	}
}

// A namespace has its own limit, which does not affect others. The ledger counts the writes of all
// processes, and the error lists the kinds of stored objects.
func TestNamespaceHasItsShare(t *testing.T) {
	t.Parallel()
	w := newTenants(t, 2*mib)
	stored := func(key string, bytes int) {
		put(t, w.client, prefix+"/"+key, strings.Repeat("x", bytes))
	}
	stored("rollouthistories/a/h1", mib)
	stored("decisions/a/web/uid", mib/2)
	w.counts("a", func(n int64) bool { return n > 3*mib/2 })
	err := w.write(Growth, "a", "web", mib, mib)
	for _, want := range []string{`namespace "a"`, "of the 2.0 MiB", "rollouthistories 1.0 MiB", "decisions 0.5 MiB"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the refusal is %v, want %q in it", err, want)
		}
	}
	if err := w.write(Record, "a", "web", mib, mib); err == nil || !strings.Contains(err.Error(), "of the 2.2 MiB") {
		t.Errorf("an approval far above the share: %v", err)
	}
	for _, ok := range []struct {
		class  Class
		growth int
	}{{Record, mib / 2}, {Record, 0}, {Essential, mib}, {Always, mib}} {
		if err := w.write(ok.class, "a", fmt.Sprint("other", ok.class), mib/2, ok.growth); err != nil {
			t.Errorf("class %d: %v", ok.class, err)
		}
	}
	if err := w.write(Growth, "b", "web", mib, mib); err != nil {
		t.Errorf("in another namespace: %v", err)
	}
	if _, err := w.client.Delete(t.Context(), prefix, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	w.counts("a", func(n int64) bool { return n == 0 })
}

// All namespaces together have a limit too, because the server keeps all objects in memory.
func TestAllNamespacesHaveALimit(t *testing.T) {
	t.Parallel()
	w := newTenants(t, 0)
	w.Limit = 4 * mib
	n := 0
	for ; n < 100; n++ {
		if err := w.write(Growth, fmt.Sprint("n", n%4), strconv.Itoa(n), object, object); err != nil {
			for _, want := range []string{"all namespaces together store 3.0 MiB", "of the 4.0 MiB"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the refusal is %v, want %q in it", err, want)
				}
			}
			break
		}
	}
	if n != 13 { // three quarters
		t.Errorf("%d objects of %d bytes are stored", n, object)
	}
	if err := w.write(Record, "n1", "record", object, object); err != nil {
		t.Errorf("an approval: %v", err)
	}
	if err := w.write(Record, "n2", "record", mib, mib); err == nil {
		t.Error("an approval is stored above seven eighths")
	}
	for _, class := range []Class{Essential, Always} {
		if err := w.write(class, "n2", fmt.Sprint("other", class), mib, mib); err != nil {
			t.Errorf("class %d: %v", class, err)
		}
	}
	// Cluster-scoped objects are not counted.
	if err := w.write(Growth, "", "cluster", object, object); err != nil {
		t.Error(err)
	}
	if _, err := w.client.Delete(t.Context(), prefix+"/rollouts/n1/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	w.counts("n1", func(n int64) bool { return n == 0 })
}
