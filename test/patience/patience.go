// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package patience answers: how long may a test wait on this machine, as fast as it is now?
//
// A wait that ends without its event fails. A fixed time would fail as well
// where the machine is slow, or busy for an hour with something else. So time
// that is waited for passes as fast as the machine computes: once a second a
// fixed amount of work is timed, and compared with what it takes on the machine
// that the waits were chosen for.
package patience

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Long only ends a wait that hangs: it is a hundred times what one wait takes on an idle
// machine of the reference speed.
const Long = 15 * time.Minute

const (
	pollInterval = 50 * time.Millisecond
	interval     = time.Second
	workAmount   = 10_000_000
	reference    = 11 * time.Millisecond // of work, on one core with nothing beside it
	smoothing    = 0.9                   // how much of the slowness before stays with each measurement
)

// Until asks often, until there is no error. The error that it returns has the last one.
func Until(ctx context.Context, what string, ask func(context.Context) error) error {
	ctx, cancel := Context(ctx, Long)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		err := ask(ctx)
		if ctx.Err() == nil || last == nil {
			last = err // and not that there is no time left
		}
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until %s: %w; last seen: %w", what, context.Cause(ctx), last)
	}
	return nil
}

// Context ends after d of an idle machine, or with its parent.
func Context(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	measure()
	go func() {
		for left := d; left > 0; left -= share(interval, slowness()) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(min(interval, left)):
			}
		}
		cancel(context.DeadlineExceeded)
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// Scaled is d on a machine that is as slow as this one now, for those that can be told a time only.
func Scaled(d time.Duration) time.Duration {
	measure()
	return time.Duration(float64(d) * slowness())
}

// share is how much of the time that went by counts.
func share(passed time.Duration, slowness float64) time.Duration {
	return time.Duration(float64(passed) / slowness)
}

var bits atomic.Uint64 // of a float64

// slowness is 1 where the machine is as fast as it can be expected, and more where it is not.
func slowness() float64 { return math.Float64frombits(bits.Load()) }

// measure begins to measure, and returns when there is something to go by.
var measure = sync.OnceFunc(func() {
	bits.Store(math.Float64bits(max(1, timeWork())))
	go func() {
		for range time.Tick(interval) {
			bits.Store(math.Float64bits(nextSlowness(slowness(), timeWork())))
		}
	}()
})

// nextSlowness forgets a slow moment slowly, and believes it at once.
func nextSlowness(before, now float64) float64 {
	return max(1, now, smoothing*before)
}

// timeWork times the work.
func timeWork() float64 {
	began := time.Now()
	sum := uint64(began.UnixNano())
	for range workAmount {
		sum = sum*6364136223846793005 + 1442695040888963407
	}
	took := time.Since(began)
	if sum == 0 { // or the compiler would leave the loop out
		return 1
	}
	return float64(took) / float64(reference)
}
