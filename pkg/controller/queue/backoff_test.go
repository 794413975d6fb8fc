// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestBackoff fails a request again and again: it waits longer each time, and no longer than
// its pass wants to wait.
func TestBackoff(t *testing.T) {
	t.Parallel()
	options := Options(2)
	limiter, noLater := options.RateLimiter, BackoffLimiter(options)
	r, other := reconcile.Request{}, reconcile.Request{}
	r.Name, other.Name = "web", "other"
	if first, second := limiter.When(r), limiter.When(r); first != minBackoff || second != 2*minBackoff {
		t.Errorf("it waits %s, then %s", first, second)
	}
	for range 20 {
		limiter.When(r)
	}
	noLater(other, time.Second)
	for _, step := range []struct{ due, want time.Duration }{{0, MaxBackoff}, {5 * time.Second, 5 * time.Second}, {0, MaxBackoff}, {time.Minute, MaxBackoff}} {
		if step.due > 0 {
			noLater(r, step.due)
		}
		if got := limiter.When(r); got != step.want {
			t.Errorf("due after %s: it waits %s, want %s", step.due, got, step.want)
		}
	}
	noLater(r, time.Second)
	limiter.Forget(r)
	for range 20 {
		limiter.When(r)
	}
	if got := limiter.When(r); got != MaxBackoff {
		t.Errorf("after a success it waits %s, want %s", got, MaxBackoff)
	}
}
