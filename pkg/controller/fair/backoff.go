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

// backoff delays a request that fails, each time for longer, but not beyond the time at
// which its pass wanted to look again anyway. controller-runtime ignores the RequeueAfter of
// a pass that returns an error, so a pause of a second would end up to 15 s late.
type backoff struct {
	workqueue.TypedRateLimiter[reconcile.Request]
	mu sync.Mutex
	// due is what noLater said since the request failed last.
	due map[reconcile.Request]time.Duration
}

func newBackoff() *backoff {
	return &backoff{
		TypedRateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](soonest, Latest),
		due:              map[reconcile.Request]time.Duration{},
	}
}

// NoLater returns the function of a controller by which a pass says, before it returns an
// error, that its next pass is due after that time.
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
