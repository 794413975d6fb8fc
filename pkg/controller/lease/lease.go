// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package lease refuses writes of a process that may not be the leader any more.
//
// A leader that was frozen does not know that another replica leads now. Until the election notices, its
// reconciles would continue. So the transport checks before each write when the lease was last renewed.
//
// The package must not know what is written.
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

// ErrStale is the error of a refused write.
var ErrStale = errors.New("the lease was not renewed in time, so another replica may lead")

// ErrLost is the error of controllers that were the leader and did not renew the lease in time.
var ErrLost = errors.New("the leader election lease weir-controller was not renewed in time")

// Lease is the lock of a leader election that remembers when this process last renewed it.
type Lease struct {
	resourcelock.Interface
	// MaxAge is the maximum age of the last renewal at which writes are allowed. It must be shorter
	// than the lease duration by the time that a request takes.
	MaxAge time.Duration
	// Clock must be monotonic, and must continue while the process is stopped.
	Clock clock.PassiveClock

	mu        sync.Mutex
	renewedAt time.Time
	// everHeld reports whether this process has ever held the lease.
	everHeld bool
	// lastRecord is the last record that was read, and lastRecordSince is when it was first read.
	lastRecord      []byte
	lastRecordSince time.Time
}

// Get reads the lease. An election waits for the expiry of another holder from its first read,
// which is after all caches have synced. If this process read the same record earlier, nobody has
// renewed the lease since. So Get reduces the lease duration in the returned record by this time.
func (l *Lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err != nil {
		return nil, nil, err
	}
	left := time.Duration(record.LeaseDurationSeconds)*time.Second - l.recordAge(raw)
	rest := *record
	rest.LeaseDurationSeconds = int(max(left+time.Second-1, 0) / time.Second)
	return &rest, raw, nil
}

// recordAge returns how long the record is known to be unchanged.
func (l *Lease) recordAge(raw []byte) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !bytes.Equal(raw, l.lastRecord) {
		l.lastRecord, l.lastRecordSince = raw, l.Clock.Now()
	}
	return l.Clock.Since(l.lastRecordSince)
}

// Create acquires a lease that does not exist yet.
func (l *Lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.writeRecord(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update acquires, renews or releases the lease.
func (l *Lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.writeRecord(record, func() error { return l.Interface.Update(ctx, record) })
}

// writeRecord writes the record. The renewal counts from before the request, because other replicas
// count from when they see the record.
func (l *Lease) writeRecord(record resourcelock.LeaderElectionRecord, write func() error) error {
	began, ours := l.Clock.Now(), record.HolderIdentity == l.Identity()
	if !ours {
		// The lease is being released: no write may follow, even if the release fails.
		l.setRenewed(time.Time{})
	}
	err := write()
	if err == nil && ours {
		l.setRenewed(began)
	}
	return err
}

// WrapLost wraps the error of controllers that ended although their context had not. It wraps the
// error in ErrLost if this process has ever held the lease. It does not check whether the process
// holds the lease now, because an election that fails to renew the lease tries to release it.
func (l *Lease) WrapLost(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil || !l.everHeld {
		return err
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

func (l *Lease) setRenewed(renewed time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewedAt = renewed
	l.everHeld = l.everHeld || !renewed.IsZero()
}

// checkFresh returns an error if the lease was not renewed recently.
func (l *Lease) checkFresh() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewedAt.IsZero() {
		return fmt.Errorf("%w: this process does not hold it", ErrStale)
	}
	if age := l.Clock.Since(l.renewedAt); age > l.MaxAge {
		return fmt.Errorf("%w: %s ago", ErrStale, age.Round(time.Millisecond))
	}
	return nil
}

// Guard returns a transport that allows reads, and writes while the lease is fresh.
func (l *Lease) Guard(inner http.RoundTripper) http.RoundTripper {
	return guardedTransport{l, inner}
}

type guardedTransport struct {
	lease *Lease
	inner http.RoundTripper
}

func (g guardedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if err := g.lease.checkFresh(); err != nil {
			if r.Body != nil {
				err = errors.Join(err, r.Body.Close())
			}
			return nil, err
		}
	}
	return g.inner.RoundTrip(r)
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (g guardedTransport) WrappedRoundTripper() http.RoundTripper { return g.inner }
