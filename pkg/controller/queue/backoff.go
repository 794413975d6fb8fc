// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// limitedBackoff is an exponential rate limiter whose delay never exceeds the planned requeue time
// of the failed reconcile. controller-runtime ignores RequeueAfter if a reconcile returns an error.
// Without the limit, a pause of a second could end 15 s late.
type limitedBackoff struct {
	workqueue.TypedRateLimiter[reconcile.Request]
	mu sync.Mutex
	// limits has the planned requeue time of each request, as set since the last failure.
	limits map[reconcile.Request]time.Duration
}

func newLimitedBackoff() *limitedBackoff {
	return &limitedBackoff{
		TypedRateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, MaxBackoff),
		limits:           map[reconcile.Request]time.Duration{},
	}
}

// BackoffLimiter returns a function that limits the backoff of a request. Before a reconcile
// returns an error, it calls this function with the time until its planned requeue.
func BackoffLimiter(o controller.Options) func(reconcile.Request, time.Duration) {
	b, _ := o.RateLimiter.(*limitedBackoff)
	return b.setLimit
}

func (b *limitedBackoff) setLimit(r reconcile.Request, after time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limits[r] = after
}

// When implements workqueue.TypedRateLimiter.
func (b *limitedBackoff) When(r reconcile.Request) time.Duration {
	after := b.TypedRateLimiter.When(r)
	b.mu.Lock()
	defer b.mu.Unlock()
	if due, ok := b.limits[r]; ok {
		delete(b.limits, r)
		after = min(after, due)
	}
	return after
}

// Forget implements workqueue.TypedRateLimiter.
func (b *limitedBackoff) Forget(r reconcile.Request) {
	b.mu.Lock()
	delete(b.limits, r)
	b.mu.Unlock()
	b.TypedRateLimiter.Forget(r)
}
