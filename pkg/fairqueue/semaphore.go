// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package fairqueue

import (
	"context"
	"sync"
)

// Semaphore is a semaphore that owners, such as namespaces, share fairly. It limits the callers that
// hold it at the same time: in total, and per owner, so that one owner cannot hold all places.
type Semaphore struct {
	mu          sync.Mutex
	limit       int
	ownerLimit  int
	heldByOwner map[string]int
	held        int
	waiting     Queue[string, *waiter]
}

// waiter is a call of Acquire; admitted is closed when the caller holds the semaphore.
type waiter struct{ admitted chan struct{} }

// NewSemaphore returns a semaphore that at most limit callers hold at the same time, and at most
// ownerLimit callers of one owner.
func NewSemaphore(limit, ownerLimit int) *Semaphore {
	return &Semaphore{limit: limit, ownerLimit: ownerLimit, heldByOwner: map[string]int{}, waiting: NewQueue[string, *waiter]()}
}

// Acquire blocks until there is a place for the owner or the context ends. If there is no
// error, the caller must call release exactly once.
func (s *Semaphore) Acquire(ctx context.Context, owner string) (release func(), err error) {
	w := &waiter{admitted: make(chan struct{})}
	s.mu.Lock()
	s.waiting.Push(owner, w)
	s.admitWaiters()
	s.mu.Unlock()
	select {
	case <-w.admitted:
		return func() { s.release(owner) }, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	isWaiting := s.waiting.Contains(owner, w)
	s.waiting.Remove(owner, w)
	s.mu.Unlock()
	if !isWaiting {
		s.release(owner) // the caller was admitted when the context ended
	}
	return nil, ctx.Err()
}

func (s *Semaphore) release(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held--
	if s.heldByOwner[owner]--; s.heldByOwner[owner] == 0 {
		delete(s.heldByOwner, owner)
	}
	s.admitWaiters()
}

// admitWaiters admits waiting callers as long as there are places.
func (s *Semaphore) admitWaiters() {
	for s.held < s.limit {
		var next string
		w, found := s.waiting.Pop(func(owner string) bool {
			next = owner
			return s.heldByOwner[owner] < s.ownerLimit
		})
		if !found {
			return
		}
		s.held++
		s.heldByOwner[next]++
		close(w.admitted)
	}
}
