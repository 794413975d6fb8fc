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
	// pass is how long one pass may take. The next pass goes on from what is stored.
	pass = time.Minute
	// soonest and Latest bound how long a request that fails waits for its next pass.
	// Other requests that fail do not make it wait longer.
	soonest = 5 * time.Millisecond
	// Latest is short: what a pass fails by, as a quota, goes without waking anybody.
	Latest = 15 * time.Second
)

// Options are those of a controller with so many workers. A namespace has at most
// half of them.
func Options(workers int) controller.Options { return RestingLast(workers, nil) }

// RestingLast are those of a controller that passes over what rests last.
func RestingLast(workers int, rests Rests) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		ReconciliationTimeout:   pass,
		RateLimiter:             newBackoff(),
		NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			return newQueue(name, limiter, newOrder(max(1, workers/2), rests))
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

// Done implements workqueue.TypedInterface. Requests that waited for a worker of this
// namespace can be taken now. The worker that calls Done takes the next one itself, so
// no other worker must be woken.
func (q *queue) Done(r reconcile.Request) {
	q.order.done(r.Namespace)
	q.TypedRateLimitingInterface.Done(r)
}
