// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package deleted_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/claim"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/deleted"
	"github.com/weir-rollouts/weir/pkg/store"
)

// The newest 128 deletions of a namespace are remembered for an hour each.
func TestRollouts(t *testing.T) {
	t.Parallel()
	embedded, err := store.Start(t.Context(), store.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer embedded.Close()
	config := storagebackend.NewDefaultConfig("/registry/test", nil)
	config.Transport.ServerList = []string{embedded.Endpoint()}
	storage, destroy, err := claim.NewStorage(config.ForResource(rollouts.Resource("rollouts")), "deletions")
	if err != nil {
		t.Fatal(err)
	}
	defer destroy()
	clock := clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0))
	d := &deleted.Rollouts{Storage: storage, Clock: clock}

	remember := func(name, uid string) {
		t.Helper()
		r := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid)}}
		if err := d.Remember(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(namespace, name string, want types.UID) {
		t.Helper()
		if got, err := d.UID(t.Context(), namespace, name); got != want || err != nil {
			t.Errorf("the uid of %s/%s is %q (%v), want %q", namespace, name, got, err, want)
		}
	}
	expect("shop", "web", "")
	remember("web", "1")
	expect("shop", "web", "1")
	expect("shop", "api", "")
	expect("other", "web", "")
	remember("web", "2")
	expect("shop", "web", "2")

	clock.SetTime(clock.Now().Add(deleted.Period - time.Second))
	expect("shop", "web", "2")
	remember("api", "3")
	clock.SetTime(clock.Now().Add(time.Second))
	expect("shop", "web", "")
	expect("shop", "api", "3")

	for i := range 128 {
		clock.SetTime(clock.Now().Add(time.Millisecond))
		remember(fmt.Sprint("many-", i), "4")
	}
	expect("shop", "api", "")
	expect("shop", "many-0", "4")
	expect("shop", "many-127", "4")
}
