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
	// Namespace of the object; empty for cluster-scoped objects.
	Namespace string
	Class     Class
	// Bytes is the size of the object, and Growth is how much larger it is than before.
	Bytes, Growth int64
}

// pageOverhead is what a write takes in the file of etcd besides its bytes. The file has pages of
// 4 KiB, and a write fills the last of its pages and that of the index only in part.
const pageOverhead = 8 << 10

// stored is how much of the file of etcd the write takes at most.
func (w Write) stored() int64 { return w.Bytes + pageOverhead }

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

// ledgerLag is how late the ledger may be. It follows a watch of etcd.
const ledgerLag = catchUpLimit

// reclaimInterval is the minimum time between two calls of Reclaim for a class whose write was
// refused in spite of the first.
const reclaimInterval = time.Second

// Room decides which writes the store has room for, so that no user can fill the space that is
// reserved for ending releases.
type Room struct {
	Backend Backend
	// Ledger knows how much each namespace stores.
	Ledger *Ledger
	// NamespaceLimit is how many bytes a namespace may store; 0 means no limit.
	NamespaceLimit int64
	// Limit is how many bytes all namespaces may store together, since the server keeps all
	// objects in memory; 0 means no limit.
	Limit int64
	Clock clock.PassiveClock

	// reclaims has the calls of Reclaim that are under way for writes that can be refused.
	reclaims singleflight.Group
	// reserving is held while a write is judged and counted.
	reserving sync.Mutex
	mu        sync.Mutex
	// everywhere are the writes that may not be in the usage yet, and namespaces are those that
	// may not be in the ledger yet, by namespace.
	everywhere recent
	// The entry allNamespaces has those of all.
	namespaces map[string]*recent
	// since is the number of bytes written since the last Reclaim. Another one can free at
	// most as much.
	since int64
	// vain is the time, by class, of the last Reclaim after which the write was still refused.
	vain [Always]time.Time
}

// allNamespaces is no name of a namespace.
const allNamespaces = ""

// FullError refuses a write for which there is no room.
type FullError struct {
	// Namespace that has reached its limit; empty if all namespaces together, or the store, have
	// reached theirs.
	Namespace string
	// Objects is true if all namespaces together have reached their limit.
	Objects  bool
	Used, Of int64
	// Class of the write.
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
	if err := r.prepare(ctx, w); err != nil {
		return nil, err
	}
	return r.reserve(w)
}

// Check returns a FullError if there is no room for such a write now. It does not count the write.
func (r *Room) Check(ctx context.Context, w Write) error {
	if err := r.prepare(ctx, w); err != nil {
		return err
	}
	r.reserving.Lock()
	defer r.reserving.Unlock()
	return r.judge(r.Backend.Usage(), w)
}

// prepare brings the usage up to date where the write is near a limit.
func (r *Room) prepare(ctx context.Context, w Write) error {
	if err := r.namespaceHasRoom(ctx, w); err != nil {
		return err
	}
	if w.Class != Always {
		r.reclaimTogether(ctx, w)
	} else if !r.hasEnough(r.Backend.Usage(), w) {
		r.reclaim(ctx, w)
	}
	return nil
}

// hasEnough reports whether the write can be admitted without a Reclaim.
func (r *Room) hasEnough(u Usage, w Write) bool { return r.lacks(u, w) == nil && !r.isTight(u, w) }

func (r *Room) reclaim(ctx context.Context, w Write) {
	before := r.written()
	if r.Backend.Reclaim(ctx, func(u Usage) bool { return r.hasEnough(u, w) }) {
		r.reclaimed(before)
	}
	if r.lacks(r.Backend.Usage(), w) != nil { // never for the class Always
		r.reclaimedInVain(w.Class)
	}
}

// reclaimTogether calls Reclaim for a write that can be refused. Many such writes at once share
// one call: in a full store, one call for each would keep the store busy with compactions.
func (r *Room) reclaimTogether(ctx context.Context, w Write) {
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

// reserve judges the write once more and counts it in the same step. Of many writes that come
// at once, each is judged with those before it.
func (r *Room) reserve(w Write) (done func(), _ error) {
	u := r.Backend.Usage()
	r.reserving.Lock()
	defer r.reserving.Unlock()
	if err := r.judge(u, w); err != nil {
		return nil, err
	}
	return r.count(w), nil
}

func (r *Room) judge(u Usage, w Write) error {
	if err := r.lacks(u, w); err != nil {
		return err
	}
	return r.inNamespace(w)
}

// HasMuchRoom reports whether less than half of the store is used. Then writes that are admitted
// whatever their namespace stores need not be counted.
func (r *Room) HasMuchRoom() bool {
	u := r.Backend.Usage()
	return u.Limit == 0 || !u.Full && max(u.Size, u.InUse) < u.Limit/2
}

// mayReclaim reports whether Admit may call Reclaim for a write of a class now. A user whose writes
// are refused repeatedly must not keep the store busy with compactions.
func (r *Room) mayReclaim(c Class) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return c == Always || r.Clock.Since(r.vain[c]) >= reclaimInterval
}

// reclaimedInVain records that a write was refused in spite of a Reclaim.
func (r *Room) reclaimedInVain(c Class) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Clock.Since(r.vain[c]) >= reclaimInterval {
		r.vain[c] = r.Clock.Now()
	}
}

// namespaceHasRoom judges the share of the namespace and that of all. When more than half of a share
// is used, it waits until everything is counted that was written before: the ledger follows a watch,
// which may be late on a busy machine.
func (r *Room) namespaceHasRoom(ctx context.Context, w Write) error {
	used, _ := r.Ledger.Of(w.Namespace)
	namespace, all := r.shares(w)
	if (namespace == 0 || used+r.latelyIn(w.Namespace)+w.Growth <= namespace/2) &&
		(all == 0 || r.Ledger.Total()+r.latelyIn(allNamespaces)+w.Growth <= all/2) {
		return nil
	}
	r.mu.Lock()
	written, writtenInAll := r.namespace(w.Namespace).unmeasured(), r.namespace(allNamespaces).unmeasured()
	r.mu.Unlock()
	if r.Ledger.CatchUp(ctx) {
		r.mu.Lock()
		r.namespace(w.Namespace).measured(written)
		r.namespace(allNamespaces).measured(writtenInAll)
		r.mu.Unlock()
	}
	return r.inNamespace(w)
}

// inNamespace returns a FullError if the namespace of the write, or all namespaces together, would
// store more than writes of its class may fill.
func (r *Room) inNamespace(w Write) error {
	namespace, all := r.shares(w)
	if used, parts := r.Ledger.Of(w.Namespace); namespace != 0 && used+r.latelyIn(w.Namespace)+w.Growth > namespace {
		return &FullError{Namespace: w.Namespace, Used: used, Of: namespace, Class: w.Class, Parts: parts}
	}
	if used := r.Ledger.Total(); all != 0 && used+r.latelyIn(allNamespaces)+w.Growth > all {
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

// lacks returns a FullError if the write would exceed the part of the store that its class may
// fill. Old versions of objects count until they are compacted, because they occupy space.
func (r *Room) lacks(u Usage, w Write) error {
	share := w.Class.storeShare(u.Limit)
	if share == 0 || u.InUse+r.lately()+w.stored() <= share {
		return nil
	}
	return &FullError{Used: u.InUse, Of: u.Limit, Class: w.Class}
}

// isTight reports whether Reclaim should run before a write that lacks admits. etcd compares its
// limit with the size of its file, even if most of the file is free. A compaction in time lets
// later writes reuse free pages of the file. Otherwise the file grows and must be
// defragmented, and all requests wait for a defragmentation.
func (r *Room) isTight(u Usage, w Write) bool {
	if u.Limit == 0 {
		return false
	}
	if u.Full || u.Size+w.stored() >= u.Limit {
		return true
	}
	more := r.lately() + w.stored()
	mayGrow := u.nearLimit(more) && u.free() < 2*more
	return (mayGrow || u.InUse+more > u.Limit/8*7) && r.sinceReclaim() > u.Limit/64
}

// written is what was written so lately that the usage may not have it.
func (r *Room) written() unmeasured {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.everywhere.turn(r.Clock.Now(), r.Backend.Lag())
	return r.everywhere.unmeasured()
}

// reclaimed forgets what was written before room was made: the usage has it.
func (r *Room) reclaimed(written unmeasured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.everywhere.turn(r.Clock.Now(), r.Backend.Lag())
	r.everywhere.measured(written)
	r.since = 0
}

func (r *Room) sinceReclaim() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since
}

// nearLimit reports whether the file would exceed 15/16 of the limit with so many more bytes.
func (u Usage) nearLimit(bytes int64) bool { return u.Size+bytes > u.Limit/16*15 }

// count adds a write to writing. done moves it to written.
func (r *Room) count(w Write) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.everywhere.writing += w.stored()
	r.since += w.stored()
	bounded := w.Namespace != "" && w.Growth > 0
	if bounded {
		r.namespace(w.Namespace).writing += w.Growth
		r.namespace(allNamespaces).writing += w.Growth
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.everywhere.finish(w.stored(), r.Clock.Now(), r.Backend.Lag())
		if bounded {
			r.namespace(w.Namespace).finish(w.Growth, r.Clock.Now(), ledgerLag)
			r.namespace(allNamespaces).finish(w.Growth, r.Clock.Now(), ledgerLag)
		}
	}
}

// recent are bytes of writes that may not be measured yet.
type recent struct {
	// writing are the bytes of writes under way.
	writing int64
	// written are those of writes that are done, in two generations of at least the lag of
	// the measurement each. Some count twice, which refuses a write a little early.
	written, before int64
	turned          time.Time
	// measurements counts the calls of measured.
	measurements int
}

// unmeasured is what a measurement that begins now will have.
type unmeasured struct {
	bytes        int64
	measurements int
}

func (n *recent) unmeasured() unmeasured { return unmeasured{n.written + n.before, n.measurements} }

// turn begins a new generation when the one under way is older than the lag.
func (n *recent) turn(now time.Time, lag time.Duration) {
	switch age := now.Sub(n.turned); {
	case age < lag:
	case age >= 2*lag:
		n.before, n.written, n.turned = 0, 0, now
	default:
		n.before, n.written, n.turned = n.written, 0, now
	}
}

func (n *recent) finish(bytes int64, now time.Time, lag time.Duration) {
	n.turn(now, lag)
	n.writing -= bytes
	n.written += bytes
}

// measured forgets what was written before the measurement began. If another measurement has
// ended since then, that one has forgotten it already, and what was written later stays.
func (n *recent) measured(u unmeasured) {
	if u.measurements != n.measurements {
		return
	}
	n.measurements++
	older := min(u.bytes, n.before)
	n.before -= older
	n.written -= min(u.bytes-older, n.written)
}

// namespace returns the recent writes of a namespace. Namespaces without any are forgotten.
func (r *Room) namespace(name string) *recent {
	if r.namespaces == nil {
		r.namespaces = map[string]*recent{}
	}
	n := r.namespaces[name]
	if n == nil {
		for other, o := range r.namespaces {
			if o.turn(r.Clock.Now(), ledgerLag); o.writing+o.written+o.before == 0 {
				delete(r.namespaces, other)
			}
		}
		n = &recent{turned: r.Clock.Now()}
		r.namespaces[name] = n
	}
	n.turn(r.Clock.Now(), ledgerLag)
	return n
}

// lately is what is being written anywhere, and what was written so lately that the usage may
// not have it.
func (r *Room) lately() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := &r.everywhere
	n.turn(r.Clock.Now(), r.Backend.Lag())
	return n.writing + n.written + n.before
}

// latelyIn is what is being written to a namespace, and what was written so lately that the
// ledger may not have it.
func (r *Room) latelyIn(namespace string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.namespace(namespace)
	return n.writing + n.written + n.before
}
