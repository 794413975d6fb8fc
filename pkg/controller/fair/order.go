// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package fair orders a work queue: requests are taken from one namespace after the
// other, and no namespace has more than its share of the workers. It must not know
// what a request is about.
package fair

import (
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// order is the order of a queue: within a namespace, first in, first out.
type order struct {
	mu sync.Mutex
	// limit is how many requests of a namespace are worked on at once.
	limit   int
	waiting map[string][]reconcile.Request
	working map[string]int
	// turns are the namespaces in which something waits, the next one first.
	turns []string
}

var _ workqueue.Queue[reconcile.Request] = &order{}

func newOrder(limit int) *order {
	return &order{limit: limit, waiting: map[string][]reconcile.Request{}, working: map[string]int{}}
}

// Touch implements workqueue.Queue: a request that is added again keeps its place.
func (*order) Touch(reconcile.Request) {}

// Push implements workqueue.Queue.
func (o *order) Push(r reconcile.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting[r.Namespace]) == 0 {
		o.turns = append(o.turns, r.Namespace)
	}
	o.waiting[r.Namespace] = append(o.waiting[r.Namespace], r)
}

// Len implements workqueue.Queue. It counts the requests that can be taken now.
func (o *order) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, namespace := range o.turns {
		n += min(len(o.waiting[namespace]), o.limit-o.working[namespace])
	}
	return n
}

// Pop implements workqueue.Queue.
func (o *order) Pop() reconcile.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	next := slices.IndexFunc(o.turns, func(namespace string) bool { return o.working[namespace] < o.limit })
	namespace := o.turns[next]
	r := o.waiting[namespace][0]
	o.turns = slices.Delete(o.turns, next, next+1)
	if left := o.waiting[namespace][1:]; len(left) > 0 {
		o.waiting[namespace] = left
		o.turns = append(o.turns, namespace)
	} else {
		delete(o.waiting, namespace)
	}
	o.working[namespace]++
	return r
}

// done frees a worker of a namespace.
func (o *order) done(namespace string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.working[namespace]--; o.working[namespace] == 0 {
		delete(o.working, namespace)
	}
}
