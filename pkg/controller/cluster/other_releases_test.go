// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
)

// TestNetworkLocks checks that only one of two Rollouts acquires a shared Service, until it releases the lock or the caches
// have had time to show the owner. A deleted Rollout has released its locks, and a recreated one acquires them at once.
func TestNetworkLocks(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	web, both := []string{"Service/web"}, []string{"Ingress/web", "Service/web"}
	a, b, c := types.NamespacedName{Namespace: "shop", Name: "a"}, types.NamespacedName{Namespace: "shop", Name: "b"}, types.NamespacedName{Namespace: "shop", Name: "c"}
	var turns cluster.NetworkLocks
	for i, step := range []struct {
		after time.Duration
		keys  []string
		by    types.NamespacedName
		want  bool
	}{
		{0, web, a, true}, {0, web, a, true}, {0, both, b, false}, {0, []string{"Ingress/web"}, c, true},
		{59 * time.Second, web, b, false}, {time.Second, web, b, true},
	} {
		now = now.Add(step.after)
		if got := turns.TryAcquire(now, step.by, step.keys); got != step.want {
			t.Errorf("%d: %s takes %v: %t, want %t", i, step.by, step.keys, got, step.want)
		}
	}
	turns.Release(c)
	if turns.TryAcquire(now, c, web) || !turns.TryAcquire(now, types.NamespacedName{Namespace: "other", Name: "c"}, web) {
		t.Error("c leaves what is not its own, or waits for another namespace")
	}
	turns.Release(b)
	if !turns.TryAcquire(now, c, web) {
		t.Error("c does not take what b has left")
	}
}
