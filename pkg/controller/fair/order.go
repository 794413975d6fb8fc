// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package fair orders a work queue: what is under way goes before what rests, requests are
// taken from one namespace after the other, and no namespace has more than its share of
// the workers. It must not know what a request is about.
package fair

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-rollouts/weir/pkg/turns"
)

// line is a round-robin queue of reconcile requests, in which namespaces take turns.
type line = turns.Line[string, reconcile.Request]

// Rests reports whether nothing is under way of what a request is about.
type Rests func(reconcile.Request) bool

// lot is how many requests are taken until one that rests goes before those that do not.
const lot = 16

// order is the order of a queue: within a namespace, first in, first out. Whether a request
// rests is asked when its turn comes: before the workers begin, caches do not know yet.
type order struct {
	mu sync.Mutex
	// limit is how many requests of a namespace are worked on at once.
	limit   int
	rests   Rests
	waiting line
	// resting are those that had their turn, and rested.
	resting line
	working map[string]int
	// taken counts the requests since one that rests went first.
	taken int
}

var _ workqueue.Queue[reconcile.Request] = &order{}

func newOrder(limit int, rests Rests) *order {
	if rests == nil {
		rests = func(reconcile.Request) bool { return false }
	}
	return &order{limit: limit, rests: rests, waiting: turns.NewLine[string, reconcile.Request](), resting: turns.NewLine[string, reconcile.Request](), working: map[string]int{}}
}

// Touch implements workqueue.Queue: a request that is added again keeps its place, unless
// what it is about rests no more.
func (o *order) Touch(r reconcile.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.resting.Has(r.Namespace, r) && !o.rests(r) {
		o.resting.Drop(r.Namespace, r)
		o.waiting.Push(r.Namespace, r)
	}
}

// Push implements workqueue.Queue.
func (o *order) Push(r reconcile.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting.Push(r.Namespace, r)
}

// Len implements workqueue.Queue. It counts the requests that can be taken now.
func (o *order) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, namespace := range o.waiting.Owners() {
		n += min(o.waiting.Count(namespace)+o.resting.Count(namespace), o.limit-o.working[namespace])
	}
	for _, namespace := range o.resting.Owners() {
		if o.waiting.Count(namespace) == 0 {
			n += min(o.resting.Count(namespace), o.limit-o.working[namespace])
		}
	}
	return n
}

// Pop implements workqueue.Queue.
func (o *order) Pop() reconcile.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taken++
	r, found := reconcile.Request{}, false
	if o.taken == lot {
		o.taken = 0
		r, found = o.resting.Pop(o.free)
	}
	if !found {
		r, found = o.underWay()
	}
	if !found {
		r, _ = o.resting.Pop(o.free)
	}
	o.working[r.Namespace]++
	return r
}

// underWay takes the next request that does not rest.
func (o *order) underWay() (reconcile.Request, bool) {
	for {
		r, found := o.waiting.Pop(o.free)
		if !found || !o.rests(r) {
			return r, found
		}
		o.resting.Push(r.Namespace, r)
		o.waiting.KeepTurn(r.Namespace)
	}
}

// free reports whether a namespace has not got its share of the workers.
func (o *order) free(namespace string) bool { return o.working[namespace] < o.limit }

// done frees a worker of a namespace.
func (o *order) done(namespace string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.working[namespace]--; o.working[namespace] == 0 {
		delete(o.working, namespace)
	}
}
