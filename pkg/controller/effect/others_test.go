// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package effect_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/controller/effect"
)

// TestTurns lets one of two take what both name, until it leaves it or the caches
// have had time to show whose it is.
func TestTurns(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	web, both := []string{"Service/web"}, []string{"Ingress/web", "Service/web"}
	var turns effect.Turns
	for i, step := range []struct {
		after time.Duration
		keys  []string
		by    types.UID
		want  bool
	}{
		{0, web, "a", true}, {0, web, "a", true}, {0, both, "b", false}, {0, []string{"Ingress/web"}, "c", true},
		{59 * time.Second, web, "b", false}, {time.Second, web, "b", true},
	} {
		now = now.Add(step.after)
		if got := turns.Take(now, "shop", step.keys, step.by); got != step.want {
			t.Errorf("%d: %s takes %v: %t, want %t", i, step.by, step.keys, got, step.want)
		}
	}
	turns.Leave("shop", web, "c")
	if turns.Take(now, "shop", web, "c") || !turns.Take(now, "other", web, "c") {
		t.Error("c leaves what is not its own, or waits for another namespace")
	}
	turns.Leave("shop", web, "b")
	if !turns.Take(now, "shop", web, "c") {
		t.Error("c does not take what b has left")
	}
}
