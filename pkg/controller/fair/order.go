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

// order is the order of a queue: within a namespace, first in, first out.
type order struct {
	mu sync.Mutex
	// limit is how many requests of a namespace are worked on at once.
	limit   int
	rests   Rests
	busy    line
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
	return &order{limit: limit, rests: rests, busy: newLine(), resting: newLine(), working: map[string]int{}}
}

// Touch implements workqueue.Queue: a request that is added again keeps its place, unless
// what it is about rests no more.
func (o *order) Touch(r reconcile.Request) {
	if o.rests(r) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.resting.drop(r) {
		o.busy.push(r)
	}
}

// Push implements workqueue.Queue.
func (o *order) Push(r reconcile.Request) {
	rests := o.rests(r)
	o.mu.Lock()
	defer o.mu.Unlock()
	if rests {
		o.resting.push(r)
	} else {
		o.busy.push(r)
	}
}

// Len implements workqueue.Queue. It counts the requests that can be taken now.
func (o *order) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, namespace := range o.busy.turns {
		n += min(len(o.busy.waiting[namespace])+len(o.resting.waiting[namespace]), o.limit-o.working[namespace])
	}
	for _, namespace := range o.resting.turns {
		if len(o.busy.waiting[namespace]) == 0 {
			n += min(len(o.resting.waiting[namespace]), o.limit-o.working[namespace])
		}
	}
	return n
}

// Pop implements workqueue.Queue.
func (o *order) Pop() reconcile.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	first, second := &o.busy, &o.resting
	if o.taken++; o.taken == lot {
		first, second, o.taken = second, first, 0
	}
	free := func(namespace string) bool { return o.working[namespace] < o.limit }
	r, found := first.pop(free)
	if !found {
		r, _ = second.pop(free)
	}
	o.working[r.Namespace]++
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

// line has requests that wait, by namespace.
type line struct {
	waiting map[string][]reconcile.Request
	// turns are the namespaces in which something waits, the next one first.
	turns []string
}

func newLine() line { return line{waiting: map[string][]reconcile.Request{}} }

func (l *line) push(r reconcile.Request) {
	if len(l.waiting[r.Namespace]) == 0 {
		l.turns = append(l.turns, r.Namespace)
	}
	l.waiting[r.Namespace] = append(l.waiting[r.Namespace], r)
}

// pop takes the next request of a namespace that is free.
func (l *line) pop(free func(namespace string) bool) (reconcile.Request, bool) {
	next := slices.IndexFunc(l.turns, free)
	if next < 0 {
		return reconcile.Request{}, false
	}
	namespace := l.turns[next]
	r := l.waiting[namespace][0]
	l.turns = slices.Delete(l.turns, next, next+1)
	if left := l.waiting[namespace][1:]; len(left) > 0 {
		l.waiting[namespace] = left
		l.turns = append(l.turns, namespace)
	} else {
		delete(l.waiting, namespace)
	}
	return r, true
}

// drop takes a request out, and says whether it was there.
func (l *line) drop(r reconcile.Request) bool {
	all := l.waiting[r.Namespace]
	i := slices.Index(all, r)
	if i < 0 {
		return false
	}
	if l.waiting[r.Namespace] = slices.Delete(all, i, i+1); len(all) == 1 {
		delete(l.waiting, r.Namespace)
		l.turns = slices.DeleteFunc(l.turns, func(namespace string) bool { return namespace == r.Namespace })
	}
	return true
}
