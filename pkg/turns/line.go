// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package turns shares something scarce among owners, such as namespaces: each owner that
// waits has its turn after each other owner, however many items it has waiting.
package turns

import "slices"

// Line has items that wait, by owner. Within an owner, first in is first out.
type Line[O, T comparable] struct {
	items map[O][]T
	// owners are those of which something waits, the next one first.
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

// Pop takes the next item of the next owner that may have one.
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

// KeepTurn gives the owner whose item was taken last its turn back.
func (l *Line[O, T]) KeepTurn(owner O) {
	if last := len(l.owners) - 1; last > 0 && l.owners[last] == owner {
		l.owners = slices.Insert(l.owners[:last], 0, owner)
	}
}

// Has reports whether an item of an owner waits.
func (l *Line[O, T]) Has(owner O, item T) bool { return slices.Contains(l.items[owner], item) }

// Drop takes an item out.
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

// Owners are those of which something waits, the next one first.
func (l *Line[O, T]) Owners() []O { return l.owners }

// Count returns how many items of an owner wait.
func (l *Line[O, T]) Count(owner O) int { return len(l.items[owner]) }
