// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package patience adapts the timeouts of tests to the current speed of the machine.
//
// A wait fails if it ends without its event. A fixed timeout would also fail on a slow or busy
// machine. So a timeout counts time at the speed of the machine: once a second a fixed amount of
// work is timed, and compared with its duration on the reference machine.
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

// Long only ends a wait that hangs: it is a hundred times the duration of a wait on an idle
// reference machine.
const Long = 15 * time.Minute

const (
	pollInterval = 50 * time.Millisecond
	interval     = time.Second
	workAmount   = 10_000_000
	reference    = 11 * time.Millisecond // duration of workAmount on one idle core
	smoothing    = 0.9                   // share of the previous slowness that each measurement keeps
)

// Until polls until the condition returns nil. Its error contains the last one of the condition.
func Until(ctx context.Context, what string, ask func(context.Context) error) error {
	ctx, cancel := Context(ctx, Long)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		err := ask(ctx)
		if ctx.Err() == nil || last == nil {
			last = err // not the error of the ended context
		}
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until %s: %w; last seen: %w", what, context.Cause(ctx), last)
	}
	return nil
}

// Context ends after d on an idle machine, or with its parent.
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

// Scaled is d on a machine with the current speed, for functions that accept only a duration.
func Scaled(d time.Duration) time.Duration {
	measure()
	return time.Duration(float64(d) * slowness())
}

// share is how much of the passed time counts.
func share(passed time.Duration, slowness float64) time.Duration {
	return time.Duration(float64(passed) / slowness)
}

var bits atomic.Uint64 // of a float64

// slowness is 1 on a machine with the reference speed, and more on a slower one.
func slowness() float64 { return math.Float64frombits(bits.Load()) }

// measure starts the measurements, and returns after the first one.
var measure = sync.OnceFunc(func() {
	bits.Store(math.Float64bits(max(1, timeWork())))
	go func() {
		for range time.Tick(interval) {
			bits.Store(math.Float64bits(nextSlowness(slowness(), timeWork())))
		}
	}()
})

// nextSlowness applies a higher slowness at once, and a lower one gradually.
func nextSlowness(before, now float64) float64 {
	return max(1, now, smoothing*before)
}

// timeWork returns the duration of the work relative to the reference.
func timeWork() float64 {
	began := time.Now()
	sum := uint64(began.UnixNano())
	for range workAmount {
		sum = sum*6364136223846793005 + 1442695040888963407
	}
	took := time.Since(began)
	if sum == 0 { // otherwise the compiler would remove the loop
		return 1
	}
	return float64(took) / float64(reference)
}
