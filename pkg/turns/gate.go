// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package turns

import (
	"context"
	"sync"
)

// Gate is a semaphore that is shared fairly by owners, such as namespaces. It bounds the callers
// that are inside at once: in all, and per owner, so that one owner cannot take all places.
type Gate struct {
	mu      sync.Mutex
	all     int
	each    int
	inside  map[string]int
	total   int
	waiting Line[string, *caller]
}

// caller is a call of Enter; in is closed when the gate admits the caller.
type caller struct{ in chan struct{} }

// NewGate returns a gate that admits at most all callers at once, at most each of them for one
// owner.
func NewGate(all, each int) *Gate {
	return &Gate{all: all, each: each, inside: map[string]int{}, waiting: NewLine[string, *caller]()}
}

// Enter blocks until there is a place for the owner or the context ends. Without an error the
// caller must call leave exactly once.
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
		g.leave(owner) // the gate admitted the caller when the context ended
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

// admit admits waiting callers as long as there are places.
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
