// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"context"
	"sync"
)

// Gate lets a number of callers in at once, and others when these leave. Callers of one owner
// have at most a part of the places, so that others find some free at any time.
type Gate struct {
	mu      sync.Mutex
	all     int
	each    int
	inside  map[string]int
	total   int
	waiting Line[string, *caller]
}

// caller waits to be let in.
type caller struct{ in chan struct{} }

// NewGate returns a gate with so many places in all, and so many for each owner.
func NewGate(all, each int) *Gate {
	return &Gate{all: all, each: each, inside: map[string]int{}, waiting: NewLine[string, *caller]()}
}

// Enter waits until there is a place for the owner. The caller calls leave once if there is no error.
func (g *Gate) Enter(ctx context.Context, owner string) (leave func(), err error) {
	c := &caller{in: make(chan struct{})}
	g.mu.Lock()
	g.waiting.Push(owner, c)
	g.admit()
	g.mu.Unlock()
	select {
	case <-c.in:
		return func() { g.leave(owner) }, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	waits := g.waiting.Has(owner, c)
	g.waiting.Drop(owner, c)
	g.mu.Unlock()
	if !waits {
		g.leave(owner) // it was let in meanwhile
	}
	return nil, ctx.Err()
}

func (g *Gate) leave(owner string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.total--
	if g.inside[owner]--; g.inside[owner] == 0 {
		delete(g.inside, owner)
	}
	g.admit()
}

// admit lets in whom there is a place for.
func (g *Gate) admit() {
	for g.total < g.all {
		var of string
		c, found := g.waiting.Pop(func(owner string) bool {
			of = owner
			return g.inside[owner] < g.each
		})
		if !found {
			return
		}
		g.total++
		g.inside[of]++
		close(c.in)
	}
}
