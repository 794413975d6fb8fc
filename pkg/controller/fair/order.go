// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package fair orders a work queue: what is under way goes before what rests, requests are
// taken from one namespace after the other, and no namespace has more than its share of
// the workers. It must not know what a request is about.
package fair

import (
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

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
	return &order{limit: limit, rests: rests, waiting: newLine(), resting: newLine(), working: map[string]int{}}
}

// Touch implements workqueue.Queue: a request that is added again keeps its place, unless
// what it is about rests no more.
func (o *order) Touch(r reconcile.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.resting.has(r) && !o.rests(r) {
		o.resting.drop(r)
		o.waiting.push(r)
	}
}

// Push implements workqueue.Queue.
func (o *order) Push(r reconcile.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting.push(r)
}

// Len implements workqueue.Queue. It counts the requests that can be taken now.
func (o *order) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, namespace := range o.waiting.turns {
		n += min(len(o.waiting.requests[namespace])+len(o.resting.requests[namespace]), o.limit-o.working[namespace])
	}
	for _, namespace := range o.resting.turns {
		if len(o.waiting.requests[namespace]) == 0 {
			n += min(len(o.resting.requests[namespace]), o.limit-o.working[namespace])
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
		r, found = o.resting.pop(o.free)
	}
	if !found {
		r, found = o.underWay()
	}
	if !found {
		r, _ = o.resting.pop(o.free)
	}
	o.working[r.Namespace]++
	return r
}

// underWay takes the next request that does not rest.
func (o *order) underWay() (reconcile.Request, bool) {
	for {
		r, found := o.waiting.pop(o.free)
		if !found || !o.rests(r) {
			return r, found
		}
		o.resting.push(r)
		o.waiting.keepTurn(r.Namespace)
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

// line has requests that wait, by namespace.
type line struct {
	requests map[string][]reconcile.Request
	// turns are the namespaces in which something waits, the next one first.
	turns []string
}

func newLine() line { return line{requests: map[string][]reconcile.Request{}} }

func (l *line) push(r reconcile.Request) {
	if len(l.requests[r.Namespace]) == 0 {
		l.turns = append(l.turns, r.Namespace)
	}
	l.requests[r.Namespace] = append(l.requests[r.Namespace], r)
}

// pop takes the next request of a namespace that is free.
func (l *line) pop(free func(namespace string) bool) (reconcile.Request, bool) {
	next := slices.IndexFunc(l.turns, free)
	if next < 0 {
		return reconcile.Request{}, false
	}
	namespace := l.turns[next]
	r := l.requests[namespace][0]
	l.turns = slices.Delete(l.turns, next, next+1)
	if left := l.requests[namespace][1:]; len(left) > 0 {
		l.requests[namespace] = left
		l.turns = append(l.turns, namespace)
	} else {
		delete(l.requests, namespace)
	}
	return r, true
}

// keepTurn gives a namespace its turn back after one of its requests was passed over.
func (l *line) keepTurn(namespace string) {
	if last := len(l.turns) - 1; last > 0 && l.turns[last] == namespace {
		l.turns = slices.Insert(l.turns[:last], 0, namespace)
	}
}

func (l *line) has(r reconcile.Request) bool { return slices.Contains(l.requests[r.Namespace], r) }

// drop takes a request out.
func (l *line) drop(r reconcile.Request) {
	left := slices.DeleteFunc(l.requests[r.Namespace], func(other reconcile.Request) bool { return other == r })
	if l.requests[r.Namespace] = left; len(left) == 0 {
		delete(l.requests, r.Namespace)
		l.turns = slices.DeleteFunc(l.turns, func(namespace string) bool { return namespace == r.Namespace })
	}
}
