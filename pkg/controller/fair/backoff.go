// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// backoff is an exponential rate limiter whose delay never exceeds the planned wake-up of the
// failed pass. controller-runtime ignores RequeueAfter if a pass returns an error, so without
// the bound a pause of a second could end 15 s late.
type backoff struct {
	workqueue.TypedRateLimiter[reconcile.Request]
	mu sync.Mutex
	// due is the planned wake-up of each request, as set by noLater since the last failure.
	due map[reconcile.Request]time.Duration
}

func newBackoff() *backoff {
	return &backoff{
		TypedRateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](soonest, Latest),
		due:              map[reconcile.Request]time.Duration{},
	}
}

// NoLater returns the function that bounds the backoff of a request. A pass calls it with the time
// until its planned wake-up before the pass returns an error.
func NoLater(o controller.Options) func(reconcile.Request, time.Duration) {
	b, _ := o.RateLimiter.(*backoff)
	return b.noLater
}

func (b *backoff) noLater(r reconcile.Request, after time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.due[r] = after
}

// When implements workqueue.TypedRateLimiter.
func (b *backoff) When(r reconcile.Request) time.Duration {
	after := b.TypedRateLimiter.When(r)
	b.mu.Lock()
	defer b.mu.Unlock()
	if due, ok := b.due[r]; ok {
		delete(b.due, r)
		after = min(after, due)
	}
	return after
}

// Forget implements workqueue.TypedRateLimiter.
func (b *backoff) Forget(r reconcile.Request) {
	b.mu.Lock()
	delete(b.due, r)
	b.mu.Unlock()
	b.TypedRateLimiter.Forget(r)
}
