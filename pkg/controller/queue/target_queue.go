// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/fairqueue"
)

// Target is what an item sends queries to: a Service, a MetricSource or a Job. It may never answer.
type Target struct {
	Namespace, Name string
	// MaxQueries is the number of concurrent queries to the target while it answers.
	MaxQueries int
}

// Limits are the maximum numbers of items in progress.
type Limits struct{ Total, PerNamespace int }

// TargetQueue is a work queue of items that query targets. Namespaces take turns, and so do the
// targets of one namespace. The number of items in progress is limited per namespace, so that
// slow targets of one namespace block few workers. A target that did not answer its last query
// is silent: only one item at a time queries it.
type TargetQueue[T comparable] struct {
	workqueue.TypedDelayingInterface[T]
	order *targetOrder[T]
}

// NewTargetQueue returns a queue. The function targetOf returns the target of an item. The queue
// calls it when the item is added.
func NewTargetQueue[T comparable](c clock.WithTicker, limits Limits, targetOf func(T) Target) *TargetQueue[T] {
	o := &targetOrder[T]{
		limits: limits, targetOf: targetOf, waiting: map[string]*fairqueue.Queue[string, T]{}, targets: map[string]map[string]Target{},
		inProgress: map[T]Target{}, inProgressByNamespace: map[string]int{}, queriesByTarget: map[Target]int{}, silentTargets: map[Target]bool{},
	}
	inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Queue: o, Clock: c})
	return &TargetQueue[T]{order: o, TypedDelayingInterface: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{Queue: inner, Clock: c})}
}

// Done implements workqueue.TypedInterface. The worker that calls Done takes the next item
// itself, so no other worker must be woken.
func (q *TargetQueue[T]) Done(item T) {
	q.order.done(item)
	q.TypedDelayingInterface.Done(item)
}

// ReportAnswer records whether the target of an item in progress has answered.
func (q *TargetQueue[T]) ReportAnswer(item T, answered bool) { q.order.reportAnswer(item, answered) }

// maxSilentTargets limits how many silent targets are remembered.
const maxSilentTargets = 4096

// targetOrder is the order of the queue.
type targetOrder[T comparable] struct {
	mu       sync.Mutex
	limits   Limits
	targetOf func(T) Target
	// waiting has the waiting items of each namespace, by the name of their target. namespaces has
	// the namespaces with waiting items; the first has the next turn.
	waiting    map[string]*fairqueue.Queue[string, T]
	namespaces []string
	targets    map[string]map[string]Target
	// inProgress has the target of each item in progress.
	inProgress            map[T]Target
	inProgressByNamespace map[string]int
	queriesByTarget       map[Target]int
	silentTargets         map[Target]bool
}

// Touch implements workqueue.Queue: an item that is added again keeps its place.
func (o *targetOrder[T]) Touch(T) {}

// Push implements workqueue.Queue.
func (o *targetOrder[T]) Push(item T) {
	target := o.targetOf(item) // before taking the lock, because targetOf may take other locks
	o.mu.Lock()
	defer o.mu.Unlock()
	line := o.waiting[target.Namespace]
	if line == nil {
		line = new(fairqueue.NewQueue[string, T]())
		o.waiting[target.Namespace], o.targets[target.Namespace] = line, map[string]Target{}
		o.namespaces = append(o.namespaces, target.Namespace)
	}
	line.Push(target.Name, item)
	o.targets[target.Namespace][target.Name] = target
}

// Len implements workqueue.Queue. It returns the number of namespaces from which Pop can take
// an item now.
func (o *targetOrder[T]) Len() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, namespace := range o.namespaces {
		if o.hasCapacity(namespace) && slices.ContainsFunc(o.waiting[namespace].Owners(), o.mayQuery(namespace)) {
			n++
		}
	}
	return n
}

// Pop implements workqueue.Queue.
func (o *targetOrder[T]) Pop() (item T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	anything := func(string) bool { return true }
	for _, namespace := range slices.Clone(o.namespaces) {
		if o.hasCapacity(namespace) {
			if item, found := o.take(namespace, o.mayQuery(namespace)); found {
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
func (o *targetOrder[T]) take(namespace string, eligible func(name string) bool) (item T, found bool) {
	line := o.waiting[namespace]
	var name string
	item, found = line.Pop(func(candidate string) bool {
		name = candidate
		return eligible(candidate)
	})
	if !found {
		return item, false
	}
	target := o.targets[namespace][name]
	o.inProgress[item] = target
	o.inProgressByNamespace[namespace]++
	o.queriesByTarget[target]++
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

// hasCapacity reports whether one more item of a namespace may be in progress. Once half of all places
// are taken, the rest is reserved for namespaces without an item in progress.
func (o *targetOrder[T]) hasCapacity(namespace string) bool {
	running := o.inProgressByNamespace[namespace]
	return running == 0 || running < o.limits.PerNamespace && len(o.inProgress) < o.limits.Total/2
}

// mayQuery returns a function that reports whether one more item may query a target of a namespace.
func (o *targetOrder[T]) mayQuery(namespace string) func(name string) bool {
	return func(name string) bool {
		target := o.targets[namespace][name]
		if o.silentTargets[target] {
			return o.queriesByTarget[target] == 0
		}
		return o.queriesByTarget[target] < target.MaxQueries
	}
}

func (o *targetOrder[T]) reportAnswer(item T, answered bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	target := o.inProgress[item]
	if answered {
		delete(o.silentTargets, target)
		return
	}
	if len(o.silentTargets) >= maxSilentTargets { // most belong to finished releases
		clear(o.silentTargets)
	}
	o.silentTargets[target] = true
}

func (o *targetOrder[T]) done(item T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	target := o.inProgress[item]
	delete(o.inProgress, item)
	if o.inProgressByNamespace[target.Namespace]--; o.inProgressByNamespace[target.Namespace] == 0 {
		delete(o.inProgressByNamespace, target.Namespace)
	}
	if o.queriesByTarget[target]--; o.queriesByTarget[target] == 0 {
		delete(o.queriesByTarget, target)
	}
}
