// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// reconcileTimeout limits one reconcile. The next reconcile continues from the stored status.
	reconcileTimeout = time.Minute
	// minBackoff is the delay after the first failed reconcile of a request. Failures of other
	// requests do not increase it.
	minBackoff = 5 * time.Millisecond
	// MaxBackoff is the longest delay. It is short, because the cause of a failure, such as a
	// quota, can end without an event.
	MaxBackoff = 15 * time.Second
)

// Options returns the options of a controller with this number of workers. A namespace uses at most
// half of the workers.
func Options(workers int) controller.Options { return OptionsWithRestingLast(workers, nil) }

// OptionsWithRestingLast returns the options of a controller that reconciles resting objects last.
func OptionsWithRestingLast(workers int, isResting IsResting) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		ReconciliationTimeout:   reconcileTimeout,
		RateLimiter:             newLimitedBackoff(),
		NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			return newFairQueue(name, limiter, newNamespaceOrder(max(1, workers/2), isResting))
		},
	}
}

// fairQueue is a queue of client-go that takes requests in a fair order.
type fairQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	order *namespaceOrder
}

func newFairQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request], o *namespaceOrder) *fairQueue {
	inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: o})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name, Queue: inner})
	return &fairQueue{order: o, TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name, DelayingQueue: delaying})}
}

// Done implements workqueue.TypedInterface. Requests that waited for a worker of this namespace can
// be taken now. The worker that calls Done takes the next request itself, so no other worker must
// be woken.
func (q *fairQueue) Done(r reconcile.Request) {
	q.order.done(r.Namespace)
	q.TypedRateLimitingInterface.Done(r)
}
