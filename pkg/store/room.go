// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"
)

// Class determines how much of the store a write may fill. Each class reserves space for the
// classes after it.
type Class int

const (
	// Growth is for creations, and for updates that make an object larger. They may fill three
	// quarters of the store, and the share of their namespace.
	Growth Class = iota
	// Record is for writes that add little, such as approvals and updates that do not change the
	// size. They may fill seven eighths of the store, and may exceed the share of their namespace
	// by an eighth.
	Record
	// Essential is for other writes of the controllers, which end releases. They may fill fifteen
	// sixteenths of the store.
	Essential
	// Always is for writes that free space or add at most a few KiB to an object, such as safety
	// verbs. They may fill the whole store.
	Always
)

// storeShare returns how many bytes of a store with a limit writes of the class may fill; 0 means
// all.
func (c Class) storeShare(limit int64) int64 {
	switch c {
	case Growth:
		return limit / 4 * 3
	case Record:
		return limit / 8 * 7
	case Essential:
		return limit / 16 * 15
	default:
		return 0
	}
}

// objectsShare returns how many bytes all namespaces may store together with writes of the class;
// 0 means that they are not limited.
func (c Class) objectsShare(limit int64) int64 {
	if c == Growth || c == Record {
		return c.storeShare(limit)
	}
	return 0
}

// namespaceShare returns how many bytes a namespace may store with writes of the class, where
// limit is its share; 0 means that they are not limited.
func (c Class) namespaceShare(limit int64) int64 {
	switch c {
	case Growth:
		return limit
	case Record:
		return limit + limit/8
	default:
		return 0
	}
}

// Write describes a write that a request is about to do.
type Write struct {
	// Namespace is the namespace of the object; empty for cluster-scoped objects.
	Namespace string
	Class     Class
	// Bytes is the size of the object, and Growth is how much larger it is than before.
	Bytes, Growth int64
}

// pageOverhead is the space that a write takes in the file of etcd in addition to its bytes. The file has
// pages of 4 KiB. A write fills its last page and one page of the index only in part.
const pageOverhead = 8 << 10

// storedBytes returns the maximum number of bytes that the write takes in the file of etcd.
func (w Write) storedBytes() int64 { return w.Bytes + pageOverhead }

// Backend is an etcd that reports its usage: a Store (embedded) or an External.
type Backend interface {
	// Usage returns how much of the etcd is used. Its Limit is 0 if the limit is unknown.
	Usage() Usage
	// Lag returns the maximum age of the usage: later writes may be missing in it.
	Lag() time.Duration
	// Reclaim compacts and defragments until enough returns true, if the backend supports that.
	// It reports whether it did so, and Usage includes all earlier writes.
	Reclaim(ctx context.Context, enough func(Usage) bool) bool
}

// ledgerLag is the maximum delay of the ledger, which follows a watch of etcd.
const ledgerLag = catchUpTimeout

// reclaimInterval is the minimum time between two calls of Reclaim for a class whose write was
// refused in spite of the first.
const reclaimInterval = time.Second

// Room decides which writes the store has room for, so that no user can fill the space that is
// reserved for ending releases.
type Room struct {
	Backend Backend
	// Ledger counts how many bytes each namespace stores.
	Ledger *Ledger
	// NamespaceLimit is how many bytes a namespace may store; 0 means no limit.
	NamespaceLimit int64
	// Limit is how many bytes all namespaces may store together, since the server keeps all
	// objects in memory; 0 means no limit.
	Limit int64
	Clock clock.PassiveClock

	// reclaims shares calls of Reclaim between writes that can be refused.
	reclaims singleflight.Group
	// reserving is held while a write is checked and counted.
	reserving sync.Mutex
	mu        sync.Mutex
	// recent are the writes that the usage may not include yet. namespaces are the writes, by
	// namespace, that the ledger may not include yet.
	recent recentWrites
	// The entry allNamespaces has the writes of all namespaces.
	recentByNamespace map[string]*recentWrites
	// bytesSinceReclaim is the number of bytes written since the last Reclaim. Another one can free at
	// most as much.
	bytesSinceReclaim int64
	// lastVainReclaim is the time, by class, of the last Reclaim after which the write was still refused.
	lastVainReclaim [Always]time.Time
}

// allNamespaces is a key that is not the name of a namespace.
const allNamespaces = ""

// FullError is the error for a write for which there is no room.
type FullError struct {
	// Namespace is the namespace that has reached its limit. It is empty if all namespaces together, or the
	// store, have reached theirs.
	Namespace string
	// Objects is true if all namespaces together have reached their limit.
	Objects  bool
	Used, Of int64
	// Class is the class of the write.
	Class Class
	// Parts lists the bytes of the namespace by kind.
	Parts string
}

// Error implements error.
func (e *FullError) Error() string {
	if e.Namespace != "" {
		return fmt.Sprintf("namespace %q stores %s of the %s that it may (%s)", e.Namespace, mebibytes(e.Used), mebibytes(e.Of), e.Parts)
	}
	if e.Objects {
		return fmt.Sprintf("all namespaces together store %s of the %s for which the server has memory", mebibytes(e.Used), mebibytes(e.Of))
	}
	return fmt.Sprintf("the store has %s of its %s in use", mebibytes(e.Used), mebibytes(e.Of))
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// Admit returns a FullError if there is no room for the write. Otherwise the caller must call done
// when the write has ended. Admit calls Reclaim before it refuses a write, and before a write
// would reach the limit of etcd.
func (r *Room) Admit(ctx context.Context, w Write) (done func(), _ error) {
	if err := r.refreshUsage(ctx, w); err != nil {
		return nil, err
	}
	return r.reserve(w)
}

// Check returns a FullError if there is no room for such a write now. It does not count the write.
func (r *Room) Check(ctx context.Context, w Write) error {
	if err := r.refreshUsage(ctx, w); err != nil {
		return err
	}
	r.reserving.Lock()
	defer r.reserving.Unlock()
	return r.checkLimits(r.Backend.Usage(), w)
}

// refreshUsage updates the usage and the ledger if the write is near a limit.
func (r *Room) refreshUsage(ctx context.Context, w Write) error {
	if err := r.checkNamespaceCaughtUp(ctx, w); err != nil {
		return err
	}
	if w.Class != Always {
		r.reclaimShared(ctx, w)
	} else if !r.hasEnough(r.Backend.Usage(), w) {
		r.reclaim(ctx, w)
	}
	return nil
}

// hasEnough reports whether the write can be admitted without a Reclaim.
func (r *Room) hasEnough(u Usage, w Write) bool { return r.checkStore(u, w) == nil && !r.isTight(u, w) }

func (r *Room) reclaim(ctx context.Context, w Write) {
	before := r.unmeasuredWrites()
	if r.Backend.Reclaim(ctx, func(u Usage) bool { return r.hasEnough(u, w) }) {
		r.recordReclaim(before)
	}
	if r.checkStore(r.Backend.Usage(), w) != nil { // never true for the class Always
		r.recordVainReclaim(w.Class)
	}
}

// reclaimShared calls Reclaim for a write that can be refused. Many such writes at once share
// one call: in a full store, one call for each would keep the store busy with compactions.
func (r *Room) reclaimShared(ctx context.Context, w Write) {
	for range 2 { // the first call may have made enough room for a smaller write
		if r.hasEnough(r.Backend.Usage(), w) || !r.mayReclaim(w.Class) {
			return
		}
		led := false
		done := r.reclaims.DoChan(strconv.Itoa(int(w.Class)), func() (any, error) {
			led = true
			if r.mayReclaim(w.Class) { // the previous call may have ended just now
				r.reclaim(context.WithoutCancel(ctx), w)
			}
			return nil, nil
		})
		select {
		case <-ctx.Done():
			return
		case <-done:
		}
		if led {
			return
		}
	}
}

// reserve checks the write again and counts it in the same critical section. So concurrent writes cannot
// exceed a limit together.
func (r *Room) reserve(w Write) (done func(), _ error) {
	u := r.Backend.Usage()
	r.reserving.Lock()
	defer r.reserving.Unlock()
	if err := r.checkLimits(u, w); err != nil {
		return nil, err
	}
	return r.countWrite(w), nil
}

func (r *Room) checkLimits(u Usage, w Write) error {
	if err := r.checkStore(u, w); err != nil {
		return err
	}
	return r.checkNamespace(w)
}

// IsHalfEmpty reports whether less than half of the store is used. Then writes that are not limited by
// their namespace need not be counted.
func (r *Room) IsHalfEmpty() bool {
	u := r.Backend.Usage()
	return u.Limit == 0 || !u.Full && max(u.Size, u.InUse) < u.Limit/2
}

// mayReclaim reports whether Admit may call Reclaim for a write of a class now. A user whose writes
// are refused repeatedly must not keep the store busy with compactions.
func (r *Room) mayReclaim(c Class) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return c == Always || r.Clock.Since(r.lastVainReclaim[c]) >= reclaimInterval
}

// recordVainReclaim records that a write was refused in spite of a Reclaim.
func (r *Room) recordVainReclaim(c Class) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Clock.Since(r.lastVainReclaim[c]) >= reclaimInterval {
		r.lastVainReclaim[c] = r.Clock.Now()
	}
}

// checkNamespaceCaughtUp checks the limits of the namespace and of all namespaces. If more than half of a limit
// is used, it first waits until the ledger includes all earlier writes: the ledger follows a watch, which
// may be delayed on a busy machine.
func (r *Room) checkNamespaceCaughtUp(ctx context.Context, w Write) error {
	used, _ := r.Ledger.BytesOf(w.Namespace)
	namespace, all := r.shares(w)
	if (namespace == 0 || used+r.recentBytesIn(w.Namespace)+w.Growth <= namespace/2) &&
		(all == 0 || r.Ledger.Total()+r.recentBytesIn(allNamespaces)+w.Growth <= all/2) {
		return nil
	}
	r.mu.Lock()
	written, writtenInAll := r.recentIn(w.Namespace).getUnmeasured(), r.recentIn(allNamespaces).getUnmeasured()
	r.mu.Unlock()
	if r.Ledger.CatchUp(ctx) {
		r.mu.Lock()
		r.recentIn(w.Namespace).removeMeasured(written)
		r.recentIn(allNamespaces).removeMeasured(writtenInAll)
		r.mu.Unlock()
	}
	return r.checkNamespace(w)
}

// checkNamespace returns a FullError if the namespace of the write, or all namespaces together, would
// store more than writes of its class may fill.
func (r *Room) checkNamespace(w Write) error {
	namespace, all := r.shares(w)
	if used, parts := r.Ledger.BytesOf(w.Namespace); namespace != 0 && used+r.recentBytesIn(w.Namespace)+w.Growth > namespace {
		return &FullError{Namespace: w.Namespace, Used: used, Of: namespace, Class: w.Class, Parts: parts}
	}
	if used := r.Ledger.Total(); all != 0 && used+r.recentBytesIn(allNamespaces)+w.Growth > all {
		return &FullError{Objects: true, Used: used, Of: r.Limit, Class: w.Class}
	}
	return nil
}

// shares returns how many bytes the namespace of a write, and all namespaces together, may store
// after the write; 0 means that the write is not limited. A write that adds nothing is never limited.
func (r *Room) shares(w Write) (namespace, all int64) {
	if w.Namespace == "" || w.Growth <= 0 {
		return 0, 0
	}
	return w.Class.namespaceShare(r.NamespaceLimit), w.Class.objectsShare(r.Limit)
}

// checkStore returns a FullError if the write would exceed the part of the store that its class may
// fill. Old versions of objects count until they are compacted, because they occupy space.
func (r *Room) checkStore(u Usage, w Write) error {
	share := w.Class.storeShare(u.Limit)
	if share == 0 || u.InUse+r.recentBytes()+w.storedBytes() <= share {
		return nil
	}
	return &FullError{Used: u.InUse, Of: u.Limit, Class: w.Class}
}

// isTight reports whether Reclaim should run before a write that checkStore admits. etcd compares its
// limit with the size of its file, even if most of the file is free. A compaction in time lets
// later writes reuse free pages of the file. Otherwise the file grows and must be
// defragmented, and all requests wait for a defragmentation.
func (r *Room) isTight(u Usage, w Write) bool {
	if u.Limit == 0 {
		return false
	}
	if u.Full || u.Size+w.storedBytes() >= u.Limit {
		return true
	}
	more := r.recentBytes() + w.storedBytes()
	mayGrow := u.nearLimit(more) && u.freeBytes() < 2*more
	return (mayGrow || u.InUse+more > u.Limit/8*7) && r.getBytesSinceReclaim() > u.Limit/64
}

// unmeasuredWrites returns the writes that the usage may not include yet.
func (r *Room) unmeasuredWrites() unmeasured {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recent.rotate(r.Clock.Now(), r.Backend.Lag())
	return r.recent.getUnmeasured()
}

// recordReclaim records a Reclaim. The usage now includes the given writes.
func (r *Room) recordReclaim(written unmeasured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recent.rotate(r.Clock.Now(), r.Backend.Lag())
	r.recent.removeMeasured(written)
	r.bytesSinceReclaim = 0
}

func (r *Room) getBytesSinceReclaim() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytesSinceReclaim
}

// nearLimit reports whether the file would exceed 15/16 of the limit with so many more bytes.
func (u Usage) nearLimit(bytes int64) bool { return u.Size+bytes > u.Limit/16*15 }

// countWrite adds a write to the writes in progress. done moves it to the written ones.
func (r *Room) countWrite(w Write) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recent.writing += w.storedBytes()
	r.bytesSinceReclaim += w.storedBytes()
	bounded := w.Namespace != "" && w.Growth > 0
	if bounded {
		r.recentIn(w.Namespace).writing += w.Growth
		r.recentIn(allNamespaces).writing += w.Growth
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.recent.finishWrite(w.storedBytes(), r.Clock.Now(), r.Backend.Lag())
		if bounded {
			r.recentIn(w.Namespace).finishWrite(w.Growth, r.Clock.Now(), ledgerLag)
			r.recentIn(allNamespaces).finishWrite(w.Growth, r.Clock.Now(), ledgerLag)
		}
	}
}

// recentWrites counts bytes of writes that may not be measured yet.
type recentWrites struct {
	// writing are the bytes of writes in progress.
	writing int64
	// written and before are the bytes of completed writes, in two generations. Each generation lasts at
	// least as long as the lag of the measurement. Some bytes count twice, which refuses a write a little
	// too early.
	written, previous int64
	rotatedAt         time.Time
	// measurements counts the calls of measured.
	measurements int
}

// unmeasured are the completed writes that a measurement which begins now will include.
type unmeasured struct {
	bytes        int64
	measurements int
}

func (n *recentWrites) getUnmeasured() unmeasured {
	return unmeasured{n.written + n.previous, n.measurements}
}

// rotate begins a new generation when the current one is older than the lag.
func (n *recentWrites) rotate(now time.Time, lag time.Duration) {
	switch age := now.Sub(n.rotatedAt); {
	case age < lag:
	case age >= 2*lag:
		n.previous, n.written, n.rotatedAt = 0, 0, now
	default:
		n.previous, n.written, n.rotatedAt = n.written, 0, now
	}
}

func (n *recentWrites) finishWrite(bytes int64, now time.Time, lag time.Duration) {
	n.rotate(now, lag)
	n.writing -= bytes
	n.written += bytes
}

// removeMeasured removes the writes that were completed before the measurement began. If another measurement has
// ended since then, that one has removed them already, and newer writes stay.
func (n *recentWrites) removeMeasured(u unmeasured) {
	if u.measurements != n.measurements {
		return
	}
	n.measurements++
	older := min(u.bytes, n.previous)
	n.previous -= older
	n.written -= min(u.bytes-older, n.written)
}

// recentIn returns the recent writes of a namespace. It deletes the entries of namespaces without recent
// writes.
func (r *Room) recentIn(name string) *recentWrites {
	if r.recentByNamespace == nil {
		r.recentByNamespace = map[string]*recentWrites{}
	}
	n := r.recentByNamespace[name]
	if n == nil {
		for other, o := range r.recentByNamespace {
			if o.rotate(r.Clock.Now(), ledgerLag); o.writing+o.written+o.previous == 0 {
				delete(r.recentByNamespace, other)
			}
		}
		n = &recentWrites{rotatedAt: r.Clock.Now()}
		r.recentByNamespace[name] = n
	}
	n.rotate(r.Clock.Now(), ledgerLag)
	return n
}

// recentBytes returns the bytes of all writes that are in progress or that the usage may not include yet.
func (r *Room) recentBytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := &r.recent
	n.rotate(r.Clock.Now(), r.Backend.Lag())
	return n.writing + n.written + n.previous
}

// recentBytesIn returns the bytes of writes to a namespace that are in progress or that the ledger may not
// include yet.
func (r *Room) recentBytesIn(namespace string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.recentIn(namespace)
	return n.writing + n.written + n.previous
}
