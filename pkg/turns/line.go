// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package turns has a round-robin queue and a semaphore that share a scarce resource fairly
// between owners, such as namespaces: an owner with many waiting items does not delay others.
package turns

import "slices"

// Line is a round-robin queue: owners take turns, and the items of one owner are first in,
// first out.
type Line[O, T comparable] struct {
	items map[O][]T
	// owners are the owners with waiting items; the first has the next turn.
	owners []O
}

// NewLine returns an empty line.
func NewLine[O, T comparable]() Line[O, T] { return Line[O, T]{items: map[O][]T{}} }

// Push adds an item of an owner.
func (l *Line[O, T]) Push(owner O, item T) {
	if len(l.items[owner]) == 0 {
		l.owners = append(l.owners, owner)
	}
	l.items[owner] = append(l.items[owner], item)
}

// Pop removes and returns the first item of the next owner for which may returns true. That
// owner moves to the end.
func (l *Line[O, T]) Pop(may func(owner O) bool) (item T, found bool) {
	next := slices.IndexFunc(l.owners, may)
	if next < 0 {
		return item, false
	}
	owner := l.owners[next]
	item = l.items[owner][0]
	l.owners = slices.Delete(l.owners, next, next+1)
	if left := l.items[owner][1:]; len(left) > 0 {
		l.items[owner] = left
		l.owners = append(l.owners, owner)
	} else {
		delete(l.items, owner)
	}
	return item, true
}

// KeepTurn moves an owner that Pop has just moved to the end back to the front.
func (l *Line[O, T]) KeepTurn(owner O) {
	if last := len(l.owners) - 1; last > 0 && l.owners[last] == owner {
		l.owners = slices.Insert(l.owners[:last], 0, owner)
	}
}

// Has reports whether an item of an owner waits.
func (l *Line[O, T]) Has(owner O, item T) bool { return slices.Contains(l.items[owner], item) }

// Drop removes a waiting item of an owner.
func (l *Line[O, T]) Drop(owner O, item T) {
	if !l.Has(owner, item) {
		return
	}
	left := slices.DeleteFunc(l.items[owner], func(other T) bool { return other == item })
	if l.items[owner] = left; len(left) == 0 {
		delete(l.items, owner)
		l.owners = slices.DeleteFunc(l.owners, func(other O) bool { return other == owner })
	}
}

// Owners returns the owners with waiting items; the first has the next turn.
func (l *Line[O, T]) Owners() []O { return l.owners }

// Count returns how many items of an owner wait.
func (l *Line[O, T]) Count(owner O) int { return len(l.items[owner]) }
