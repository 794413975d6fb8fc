// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sync"
	"time"
)

// timeline is when the things of one release were seen.
type timeline struct {
	mu sync.Mutex

	// sent is when the new template was, answered when the update returned.
	sent, answered, held time.Time
	// size is how many pods of the new version are wanted, and scaled since when
	// there are any.
	size   int32
	scaled time.Time
	// waits are the steps that were waited at, in their order.
	waits []waiting
	// step and paused are the state that was seen last.
	step    int32
	paused  bool
	moving  bool
	healthy time.Time
	done    chan struct{}
}

// waiting is one step that was waited at.
type waiting struct {
	step int32
	// since when it is seen to wait, and was approved.
	since, approved time.Time
	// grown is when the next batch was seen to be scaled.
	grown time.Time
	size  int32
	lost  int
}

func begin() *timeline { return &timeline{sent: time.Now(), done: make(chan struct{})} }

func (t *timeline) sawAnswer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answered = time.Now()
}

func (t *timeline) sawHold() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held.IsZero() {
		t.held = time.Now()
	}
}

// sawSize is told how many pods of the new version are wanted.
func (t *timeline) sawSize(size int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if size > 0 && t.scaled.IsZero() {
		t.scaled = now
	}
	if n := len(t.waits); n > 0 {
		if w := &t.waits[n-1]; !w.approved.IsZero() && w.grown.IsZero() && size > w.size {
			w.grown = now
		}
	}
	t.size = size
}

// sawState reports whether a step has begun to wait.
func (t *timeline) sawState(step int32, paused bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.step, t.paused = step, paused
	if n := len(t.waits); !paused || n > 0 && t.waits[n-1].step == step {
		return false
	}
	t.waits = append(t.waits, waiting{step: step, since: time.Now(), size: t.size})
	return true
}

// sawPhase is told whether the release is over.
func (t *timeline) sawPhase(healthy bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !healthy {
		t.moving = true
		return
	}
	if t.moving && t.healthy.IsZero() {
		t.healthy = time.Now()
		close(t.done)
	}
}

// approving is told that the step is going to be approved.
func (t *timeline) approving(step int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &t.waits[len(t.waits)-1]
	if w.step != step {
		return
	}
	if !w.approved.IsZero() {
		w.lost++
	}
	w.approved, w.size = time.Now(), t.size
}

// waitsAt reports whether that step still waits, as far as is seen. One that is
// merely slow has another state.
func (t *timeline) waitsAt(step int32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.paused && t.step == step
}

// durations are what is measured of one release, by row.
func (t *timeline) durations() map[string][]time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := map[string][]time.Duration{}
	add := func(row string, from, to time.Time) {
		if !from.IsZero() && !to.IsZero() {
			d[row] = append(d[row], to.Sub(from))
		}
	}
	add(rowUpdate, t.sent, t.answered)
	add(rowHeld, t.sent, t.held)
	add(rowScaled, t.sent, t.scaled)
	for i, w := range t.waits {
		if i == 0 {
			add(rowPaused, t.sent, w.since)
		} else {
			add(rowNext, t.waits[i-1].approved, w.since)
		}
		add(rowGrown, w.approved, w.grown)
	}
	if n := len(t.waits); n > 0 {
		add(rowHealthy, t.waits[n-1].approved, t.healthy)
	}
	add(rowWhole, t.sent, t.healthy)
	return d
}

func (t *timeline) approvals() (sent, lost int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.waits {
		if !w.approved.IsZero() {
			sent++
		}
		lost += w.lost
	}
	return sent, lost
}

// isScaled reports whether the first batch was seen, and the hold before it.
func (t *timeline) isScaled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.scaled.IsZero() && !t.held.IsZero()
}
