// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// pass is how long one pass may take. What is stored tells the next one how far
	// it has come.
	pass = time.Minute
	// soonest and latest are how long one that fails waits for its next pass. Others
	// that fail do not make it wait longer.
	soonest, latest = 5 * time.Millisecond, 1000 * time.Second
)

// Options are those of a controller with so many workers, of which a namespace has
// half at most.
func Options(workers int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		ReconciliationTimeout:   pass,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](soonest, latest),
		NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			return newQueue(name, limiter, newOrder(max(1, workers/2)))
		},
	}
}

// queue is a queue of client-go in a fair order.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	order *order
}

func newQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request], o *order) *queue {
	inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: o})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name, Queue: inner})
	return &queue{order: o, TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name, DelayingQueue: delaying})}
}

// Done implements workqueue.TypedInterface. What waited for a worker of its
// namespace can be taken now, at the latest by who has done and asks for the next:
// nobody else need be woken.
func (q *queue) Done(r reconcile.Request) {
	q.order.done(r.Namespace)
	q.TypedRateLimitingInterface.Done(r)
}
