// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package lease answers: may this process still write?
//
// A leader that was frozen wakes without knowing that another one leads by now.
// Before the election tells it, its passes would go on where they stood. So each
// write checks, last before the wire, how long ago the lease was renewed.
//
// It must not know what is written.
package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// ErrStale refuses a write.
var ErrStale = errors.New("the lease was not renewed in time, so another replica may lead")

// ErrLost is the error of controllers that were the leader and did not renew the lease in time.
var ErrLost = errors.New("the leader election lease weir-controller was not renewed in time")

// Lease is the lock of a leader election that remembers when this process last
// renewed it.
type Lease struct {
	resourcelock.Interface
	// Limit is how old a renewal may be for a write. It must be less than the time
	// after which others take over by what a request takes.
	Limit time.Duration
	// Clock must be monotonic, and go on while the process is stopped.
	Clock clock.PassiveClock
	// Fence is raised when the lease is taken, or renewed too late; nil for none.
	Fence Fence

	mu      sync.Mutex
	renewed time.Time
	// taken reports whether this process has ever had the lease.
	taken bool
	// read is the record as it was read last, and since when it has been so.
	read  []byte
	since time.Time
}

// Get reads the lease. An election waits for a holder from when it reads the record first,
// which is after all caches are filled. The record says less where this process has read
// the same before: nobody has renewed the lease since.
func (l *Lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err != nil {
		return nil, nil, err
	}
	left := time.Duration(record.LeaseDurationSeconds)*time.Second - l.age(raw)
	rest := *record
	rest.LeaseDurationSeconds = int(max(left+time.Second-1, 0) / time.Second)
	return &rest, raw, nil
}

// age is how long the record is known to be as it is.
func (l *Lease) age(raw []byte) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !bytes.Equal(raw, l.read) {
		l.read, l.since = raw, l.Clock.Now()
	}
	return l.Clock.Since(l.since)
}

// Create takes the lease that nobody has held.
func (l *Lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.renew(ctx, record, func() error { return l.Interface.Create(ctx, record) })
}

// Update takes, renews or releases the lease.
func (l *Lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.renew(ctx, record, func() error { return l.Interface.Update(ctx, record) })
}

// Fence keeps processes that led before from writing.
type Fence interface {
	// Seen is when it was raised last.
	Seen(context.Context) (int64, error)
	// Raise raises it, unless somebody has since.
	Raise(ctx context.Context, seen int64) error
}

// renew counts from before the request: others count from when they see it.
func (l *Lease) renew(ctx context.Context, record resourcelock.LeaderElectionRecord, write func() error) error {
	began, ours := l.Clock.Now(), record.HolderIdentity == l.Identity()
	if !ours {
		// It is given back: no write may follow, whether that works or not.
		l.set(time.Time{})
	}
	if ours && l.Fence != nil && l.check() != nil {
		// Another process may have taken the lease and raised the fence since, even if this
		// one has not given it back.
		write = l.behindFence(ctx, write)
	}
	err := write()
	if err == nil && ours {
		l.set(began)
	}
	return err
}

// behindFence raises the fence once the lease is taken. Whoever saw it before another took
// the lease and raised it can not raise it any more.
func (l *Lease) behindFence(ctx context.Context, take func() error) func() error {
	return func() error {
		seen, err := l.Fence.Seen(ctx)
		if err != nil {
			return err
		}
		if err := take(); err != nil {
			return err
		}
		return l.Fence.Raise(ctx, seen)
	}
}

// Lost wraps the error of controllers that ended although their context had not. It wraps the
// error in ErrLost if this process has ever held the lease. It does not ask whether the lease
// is held now: an election that fails to renew the lease tries to release it.
func (l *Lease) Lost(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil || !l.taken {
		return err
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

func (l *Lease) set(renewed time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = renewed
	l.taken = l.taken || !renewed.IsZero()
}

// check returns why a write is refused, or nil.
func (l *Lease) check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewed.IsZero() {
		return fmt.Errorf("%w: this process does not hold it", ErrStale)
	}
	if age := l.Clock.Since(l.renewed); age > l.Limit {
		return fmt.Errorf("%w: %s ago", ErrStale, age.Round(time.Millisecond))
	}
	return nil
}

// Guard lets reads pass, and writes while the lease is fresh.
func (l *Lease) Guard(inner http.RoundTripper) http.RoundTripper {
	return guard{l, inner}
}

type guard struct {
	lease *Lease
	inner http.RoundTripper
}

func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if err := g.lease.check(); err != nil {
			if r.Body != nil {
				err = errors.Join(err, r.Body.Close())
			}
			return nil, err
		}
	}
	return g.inner.RoundTrip(r)
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (g guard) WrappedRoundTripper() http.RoundTripper { return g.inner }
