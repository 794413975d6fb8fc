// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/turns"
)

// Target is what an item sends queries to: a Service, a MetricSource or a Job. It may never answer.
type Target struct {
	Namespace, Name string
	// Most is the number of concurrent queries to the target while it answers.
	Most int
}

// Limits are the maximum numbers of items in progress: in all, and per namespace.
type Limits struct{ All, Namespace int }

// Targets is a work queue of items that query targets. Namespaces take turns, and so do the
// targets of one namespace. The number of items in progress is limited per namespace, so that
// slow targets of one namespace block few workers. A target that did not answer its last query
// is silent: only one item at a time queries it.
type Targets[T comparable] struct {
	workqueue.TypedDelayingInterface[T]
	order *targets[T]
}

// NewTargets returns a queue. The function of returns the target of an item; the queue calls
// it when the item is added.
func NewTargets[T comparable](c clock.WithTicker, limits Limits, of func(T) Target) *Targets[T] {
	o := &targets[T]{
		limits: limits, of: of, waiting: map[string]*turns.Line[string, T]{}, targets: map[string]map[string]Target{},
		taken: map[T]Target{}, working: map[string]int{}, asked: map[Target]int{}, silent: map[Target]bool{},
	}
	inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Queue: o, Clock: c})
	return &Targets[T]{order: o, TypedDelayingInterface: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{Queue: inner, Clock: c})}
}

// Done implements workqueue.TypedInterface. The worker that calls Done takes the next item
// itself, so no other worker must be woken.
func (q *Targets[T]) Done(item T) {
	q.order.done(item)
	q.TypedDelayingInterface.Done(item)
}

// Heard records whether the target of an item in progress has answered.
func (q *Targets[T]) Heard(item T, answered bool) { q.order.heard(item, answered) }

// maxSilent bounds how many silent targets are remembered.
const maxSilent = 4096

// targets is the order of the queue.
type targets[T comparable] struct {
	mu     sync.Mutex
	limits Limits
	of     func(T) Target
	// waiting has the waiting items of each namespace, by the name of their target. namespaces
	// has the namespaces with waiting items; the first has the next turn.
	waiting    map[string]*turns.Line[string, T]
	namespaces []string
	targets    map[string]map[string]Target
	// taken has the target of each item in progress.
	taken   map[T]Target
	working map[string]int
	asked   map[Target]int
	silent  map[Target]bool
}

// Touch implements workqueue.Queue: an item that is added again keeps its place.
func (o *targets[T]) Touch(T) {}

// Push implements workqueue.Queue.
func (o *targets[T]) Push(item T) {
	target := o.of(item) // before taking the lock, because of may take other locks
	o.mu.Lock()
	defer o.mu.Unlock()
	line := o.waiting[target.Namespace]
	if line == nil {
		line = new(turns.NewLine[string, T]())
		o.waiting[target.Namespace], o.targets[target.Namespace] = line, map[string]Target{}
		o.namespaces = append(o.namespaces, target.Namespace)
	}
	line.Push(target.Name, item)
	o.targets[target.Namespace][target.Name] = target
}

// Len implements workqueue.Queue. It returns the number of namespaces from which Pop can take
// an item now.
func (o *targets[T]) Len() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, namespace := range o.namespaces {
		if o.hasPlace(namespace) && slices.ContainsFunc(o.waiting[namespace].Owners(), o.mayAsk(namespace)) {
			n++
		}
	}
	return n
}

// Pop implements workqueue.Queue.
func (o *targets[T]) Pop() (item T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	anything := func(string) bool { return true }
	for _, namespace := range slices.Clone(o.namespaces) {
		if o.hasPlace(namespace) {
			if item, found := o.take(namespace, o.mayAsk(namespace)); found {
				return item
			}
		}
	}
	// A target has become silent after the call of Len. The workqueue must get an item, so
	// ignore the limits.
	item, _ = o.take(o.namespaces[0], anything)
	return item
}

// take removes and returns the next item of a namespace, and moves the namespace to the end.
func (o *targets[T]) take(namespace string, may func(name string) bool) (item T, found bool) {
	line := o.waiting[namespace]
	var name string
	item, found = line.Pop(func(of string) bool {
		name = of
		return may(of)
	})
	if !found {
		return item, false
	}
	target := o.targets[namespace][name]
	o.taken[item] = target
	o.working[namespace]++
	o.asked[target]++
	if line.Count(name) == 0 {
		delete(o.targets[namespace], name)
	}
	o.namespaces = slices.DeleteFunc(o.namespaces, func(other string) bool { return other == namespace })
	if len(line.Owners()) > 0 {
		o.namespaces = append(o.namespaces, namespace)
	} else {
		delete(o.waiting, namespace)
		delete(o.targets, namespace)
	}
	return item, true
}

// hasPlace reports whether one more item of a namespace may be in progress. Once half of all places
// are taken, the rest is reserved for namespaces without an item in progress.
func (o *targets[T]) hasPlace(namespace string) bool {
	has := o.working[namespace]
	return has == 0 || has < o.limits.Namespace && len(o.taken) < o.limits.All/2
}

// mayAsk returns a function that reports whether one more item may query a target of a namespace.
func (o *targets[T]) mayAsk(namespace string) func(name string) bool {
	return func(name string) bool {
		target := o.targets[namespace][name]
		if o.silent[target] {
			return o.asked[target] == 0
		}
		return o.asked[target] < target.Most
	}
}

func (o *targets[T]) heard(item T, answered bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	target := o.taken[item]
	if answered {
		delete(o.silent, target)
		return
	}
	if len(o.silent) >= maxSilent { // most are of releases that are over
		clear(o.silent)
	}
	o.silent[target] = true
}

func (o *targets[T]) done(item T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	target := o.taken[item]
	delete(o.taken, item)
	if o.working[target.Namespace]--; o.working[target.Namespace] == 0 {
		delete(o.working, target.Namespace)
	}
	if o.asked[target]--; o.asked[target] == 0 {
		delete(o.asked, target)
	}
}
