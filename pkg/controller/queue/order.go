// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package queue has the work queues of the controllers. Namespaces take turns, and no namespace uses
// more than its share of the workers. Objects with a release in progress come before resting objects.
// The package must not know what a request is about.
package queue

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-rollouts/weir/pkg/fairqueue"
)

// requestQueue is a round-robin queue of reconcile requests, in which namespaces take turns.
type requestQueue = fairqueue.Queue[string, reconcile.Request]

// IsResting reports whether the object of a request is resting: no release of it is in progress.
type IsResting func(reconcile.Request) bool

// restingInterval is the interval at which a resting request is taken first, so that resting
// requests are not delayed forever.
const restingInterval = 16

// namespaceOrder is the order of requests in a queue. Requests of one namespace are first in, first
// out. It calls isResting when a request has its turn, not when the request is added: before the
// workers start, the caches do not have the objects yet.
type namespaceOrder struct {
	mu sync.Mutex
	// namespaceLimit is the maximum number of requests of a namespace in progress.
	namespaceLimit int
	isResting      IsResting
	waiting        requestQueue
	// resting has the requests that had their turn while they were resting.
	resting    requestQueue
	inProgress map[string]int
	// takenSinceResting counts the requests taken since a resting request was taken first.
	takenSinceResting int
}

var _ workqueue.Queue[reconcile.Request] = &namespaceOrder{}

func newNamespaceOrder(namespaceLimit int, isResting IsResting) *namespaceOrder {
	if isResting == nil {
		isResting = func(reconcile.Request) bool { return false }
	}
	return &namespaceOrder{namespaceLimit: namespaceLimit, isResting: isResting, waiting: fairqueue.NewQueue[string, reconcile.Request](), resting: fairqueue.NewQueue[string, reconcile.Request](), inProgress: map[string]int{}}
}

// Touch implements workqueue.Queue. A request that is added again keeps its place. If it is not
// resting any more, it moves to the requests that come first.
func (o *namespaceOrder) Touch(r reconcile.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.resting.Contains(r.Namespace, r) && !o.isResting(r) {
		o.resting.Remove(r.Namespace, r)
		o.waiting.Push(r.Namespace, r)
	}
}

// Push implements workqueue.Queue.
func (o *namespaceOrder) Push(r reconcile.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting.Push(r.Namespace, r)
}

// Len implements workqueue.Queue. It returns the number of requests that can be taken now.
func (o *namespaceOrder) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, namespace := range o.waiting.Owners() {
		n += min(o.waiting.Count(namespace)+o.resting.Count(namespace), o.namespaceLimit-o.inProgress[namespace])
	}
	for _, namespace := range o.resting.Owners() {
		if o.waiting.Count(namespace) == 0 {
			n += min(o.resting.Count(namespace), o.namespaceLimit-o.inProgress[namespace])
		}
	}
	return n
}

// Pop implements workqueue.Queue.
func (o *namespaceOrder) Pop() reconcile.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.takenSinceResting++
	r, found := reconcile.Request{}, false
	if o.takenSinceResting == restingInterval {
		o.takenSinceResting = 0
		r, found = o.resting.Pop(o.hasCapacity)
	}
	if !found {
		r, found = o.popActive()
	}
	if !found {
		r, _ = o.resting.Pop(o.hasCapacity)
	}
	o.inProgress[r.Namespace]++
	return r
}

// popActive takes the next request that is not resting.
func (o *namespaceOrder) popActive() (reconcile.Request, bool) {
	for {
		r, found := o.waiting.Pop(o.hasCapacity)
		if !found || !o.isResting(r) {
			return r, found
		}
		o.resting.Push(r.Namespace, r)
		o.waiting.MoveToFront(r.Namespace)
	}
}

// hasCapacity reports whether a namespace uses less than its share of the workers.
func (o *namespaceOrder) hasCapacity(namespace string) bool {
	return o.inProgress[namespace] < o.namespaceLimit
}

// done records that a request of a namespace is not in progress any more.
func (o *namespaceOrder) done(namespace string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.inProgress[namespace]--; o.inProgress[namespace] == 0 {
		delete(o.inProgress, namespace)
	}
}
