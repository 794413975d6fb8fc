// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/claim"
	"github.com/weir-rollouts/weir/pkg/store"
)

// backend is shared; each test uses its own namespace.
var backend storage.Interface

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weir-claim-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // a directory of the system's for such
	embedded, err := store.Start(context.Background(), store.Options{DataDir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer embedded.Close()
	config := storagebackend.NewDefaultConfig("/registry/test", nil)
	config.Transport.ServerList = []string{embedded.Endpoint()}
	s, destroy, err := claim.NewStorage(config.ForResource(rollouts.Resource("rollouts")), "claims")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer destroy()
	backend = s
	return m.Run()
}

// world contains the stored Rollouts and a clock.
type world struct {
	claim.Claims
	clock  *clocktesting.FakePassiveClock
	stored map[string]*rollouts.Rollout
}

func newWorld() *world {
	w := &world{clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)), stored: map[string]*rollouts.Rollout{}}
	w.Claims = claim.Claims{Storage: backend, Clock: w.clock, GetRollout: func(_ context.Context, _, name string) (*rollouts.Rollout, error) {
		if r, ok := w.stored[name]; ok {
			return r, nil
		}
		return nil, apierrors.NewNotFound(rollouts.Resource("rollouts"), name)
	}}
	return w
}

func (w *world) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

func (w *world) store(o claim.Owner, ref *rollouts.ObjectRef) {
	w.stored[o.Name] = &rollouts.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID},
		Spec:       rollouts.RolloutSpec{WorkloadRef: ref},
	}
}

func owner(t *testing.T, name, uid string) claim.Owner {
	return claim.Owner{Namespace: t.Name(), Name: name, UID: types.UID(uid)}
}

var (
	web = &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	api = &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "api"}
)

// A Rollout is created again right after it was deleted, while its claim still exists. The error must not
// be "already exists", because the object cannot be read. It is one after which clients retry.
func TestClaimOfADeletedOne(t *testing.T) {
	t.Parallel()
	w := newWorld()
	gone, again := owner(t, "web", "1"), owner(t, "web", "2")
	must(w.Acquire(t.Context(), gone, web))
	if err := w.Acquire(t.Context(), again, web); !apierrors.IsServerTimeout(err) {
		t.Errorf("before the claim goes: %v", err)
	}
	must(w.Release(t.Context(), gone, web))
	must(w.Acquire(t.Context(), again, web))
	w.store(again, web)
	if err := w.Acquire(t.Context(), owner(t, "web", "3"), web); !apierrors.IsAlreadyExists(err) {
		t.Errorf("once it is stored: %v", err)
	}
}

// A claim is valid as long as its owner is stored and references the workload, and otherwise for one
// minute.
func TestClaimCounts(t *testing.T) {
	t.Parallel()
	const almost, whole = 59 * time.Second, time.Minute
	tests := map[string]struct {
		// then is called once first has claimed web.
		then  func(w *world, first claim.Owner)
		taken bool
	}{
		"on its way": {func(w *world, _ claim.Owner) { w.pass(almost) }, false},
		"never came": {func(w *world, _ claim.Owner) { w.pass(whole) }, true},
		"stored":     {func(w *world, f claim.Owner) { w.store(f, web); w.pass(time.Hour) }, false},
		"stored with another version": {func(w *world, f claim.Owner) {
			w.store(f, &rollouts.ObjectRef{APIVersion: "apps/v2", Kind: "Deployment", Name: "web"})
			w.pass(time.Hour)
		}, false},
		"another of its name": {func(w *world, f claim.Owner) { f.UID = "another"; w.store(f, web); w.pass(whole) }, true},
		"moved away":          {func(w *world, f claim.Owner) { w.store(f, api); w.pass(whole) }, true},
		"moving here":         {func(w *world, f claim.Owner) { w.store(f, api); w.pass(almost) }, false},
		"names nothing":       {func(w *world, f claim.Owner) { w.store(f, nil); w.pass(whole) }, true},
		"released":            {func(w *world, f claim.Owner) { must(w.Release(context.Background(), f, web)) }, true},
		"released by another": {func(w *world, f claim.Owner) { f.UID = "another"; must(w.Release(context.Background(), f, web)) }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			first, second := owner(t, "first", "1"), owner(t, "second", "2")
			if err := w.Acquire(t.Context(), first, web); err != nil {
				t.Fatal(err)
			}
			tt.then(w, first)
			check := w.Check(t.Context(), second, web)
			acquire := w.Acquire(t.Context(), second, web)
			for what, err := range map[string]error{"check": check, "acquire": acquire} {
				if (err == nil) != tt.taken || (err != nil && !apierrors.IsConflict(err)) {
					t.Errorf("%s: %v; want it taken over: %t", what, err, tt.taken)
				}
			}
			if err := w.Acquire(t.Context(), first, web); (err == nil) == tt.taken {
				t.Errorf("the first again: %v; want it the owner: %t", err, !tt.taken)
			}
		})
	}
}

// Exactly one of several requests takes over an abandoned claim.
func TestTakeOverAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld()
	if err := w.Acquire(t.Context(), owner(t, "gone", "0"), web); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute)
	const n = 30
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = w.Acquire(t.Context(), owner(t, fmt.Sprint("r", i), fmt.Sprint("uid", i)), web) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !apierrors.IsConflict(err):
			t.Errorf("refused with %v, want a conflict", err)
		}
	}
	if won != 1 {
		t.Errorf("%d took the claim over, want 1", won)
	}
}

// If it is unknown whether the owner exists, the claim cannot be taken over.
func TestUnknownOwner(t *testing.T) {
	t.Parallel()
	w := newWorld()
	if err := w.Acquire(t.Context(), owner(t, "first", "1"), web); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Hour)
	down := errors.New("etcd is down")
	w.GetRollout = func(context.Context, string, string) (*rollouts.Rollout, error) { return nil, down }
	if err := w.Acquire(t.Context(), owner(t, "second", "2"), web); !errors.Is(err, down) {
		t.Errorf("got %v, want %v", err, down)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Each part of a reference is one segment of the key. Different references have different keys. References
// that a cluster can serve keep the keys of earlier versions.
func TestKeysStay(t *testing.T) {
	t.Parallel()
	w := newWorld()
	one, two := claim.Owner{Namespace: "keys-1", Name: "a", UID: "1"}, claim.Owner{Namespace: "keys-2", Name: "b", UID: "2"}
	for i, ref := range []rollouts.ObjectRef{
		{APIVersion: "../v1", Kind: "StatefulSet", Name: "web"},
		{APIVersion: "a.b/v1", Kind: "..", Name: "web"},
		{APIVersion: "a.b/v1", Kind: "../../keys-2/a.b/StatefulSet", Name: "web"},
		{APIVersion: "a/b/c", Kind: "StatefulSet", Name: "web"},
		{APIVersion: "./v1", Kind: ".", Name: ".."},
	} {
		w.store(one, &ref)
		if err := w.Acquire(t.Context(), one, &ref); err != nil {
			t.Fatalf("reference %d: %v", i, err)
		}
		w.store(two, &ref)
		if err := w.Acquire(t.Context(), two, &ref); err != nil {
			t.Errorf("reference %d left its namespace: %v", i, err)
		}
	}
	web := &rollouts.ObjectRef{APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet", Name: "web.1"}
	if err := w.Acquire(t.Context(), one, web); err != nil {
		t.Fatal(err)
	}
	held := &metav1.PartialObjectMetadata{}
	if err := backend.Get(t.Context(), "/claims/keys-1/apps.kruise.io/StatefulSet/web.1", storage.GetOptions{}, held); err != nil || held.UID != one.UID {
		t.Errorf("a claim has another key than before: %v, %v", held.UID, err)
	}
}
