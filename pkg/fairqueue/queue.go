// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package fairqueue has a round-robin queue and a semaphore that share a scarce resource fairly
// between owners, such as namespaces: an owner with many waiting items does not delay others.
package fairqueue

import "slices"

// Queue is a round-robin queue: owners take turns, and the items of one owner are first in,
// first out.
type Queue[O, T comparable] struct {
	items map[O][]T
	// owners are the owners with waiting items; the first has the next turn.
	owners []O
}

// NewQueue returns an empty queue.
func NewQueue[O, T comparable]() Queue[O, T] { return Queue[O, T]{items: map[O][]T{}} }

// Push adds an item of an owner.
func (q *Queue[O, T]) Push(owner O, item T) {
	if len(q.items[owner]) == 0 {
		q.owners = append(q.owners, owner)
	}
	q.items[owner] = append(q.items[owner], item)
}

// Pop removes and returns the first item of the next owner for which eligible returns
// true. This owner moves to the end.
func (q *Queue[O, T]) Pop(eligible func(owner O) bool) (item T, found bool) {
	next := slices.IndexFunc(q.owners, eligible)
	if next < 0 {
		return item, false
	}
	owner := q.owners[next]
	item = q.items[owner][0]
	q.owners = slices.Delete(q.owners, next, next+1)
	if rest := q.items[owner][1:]; len(rest) > 0 {
		q.items[owner] = rest
		q.owners = append(q.owners, owner)
	} else {
		delete(q.items, owner)
	}
	return item, true
}

// MoveToFront undoes the move of an owner to the end by the last Pop: the owner has the next turn again.
func (q *Queue[O, T]) MoveToFront(owner O) {
	if last := len(q.owners) - 1; last > 0 && q.owners[last] == owner {
		q.owners = slices.Insert(q.owners[:last], 0, owner)
	}
}

// Contains reports whether an item of an owner is waiting.
func (q *Queue[O, T]) Contains(owner O, item T) bool { return slices.Contains(q.items[owner], item) }

// Remove removes a waiting item of an owner.
func (q *Queue[O, T]) Remove(owner O, item T) {
	if !q.Contains(owner, item) {
		return
	}
	rest := slices.DeleteFunc(q.items[owner], func(other T) bool { return other == item })
	if q.items[owner] = rest; len(rest) == 0 {
		delete(q.items, owner)
		q.owners = slices.DeleteFunc(q.owners, func(other O) bool { return other == owner })
	}
}

// Owners returns the owners with waiting items; the first has the next turn.
func (q *Queue[O, T]) Owners() []O { return q.owners }

// Count returns how many items of an owner wait.
func (q *Queue[O, T]) Count(owner O) int { return len(q.items[owner]) }
