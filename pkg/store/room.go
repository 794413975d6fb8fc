// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Class says how much of the store a write may use. Each class leaves room for those after it.
type Class int

const (
	// Growth is for users' writes that store more than before. They leave a quarter of the
	// store, and are bounded for each namespace.
	Growth Class = iota
	// Record is for writes that add little: a record of what happens, or as much as before.
	// They leave an eighth.
	Record
	// Essential is for what ends releases or frees room. It may use all that there is.
	Essential
)

// Write is what somebody is about to store.
type Write struct {
	// Namespace of the object; empty for objects that are in none.
	Namespace string
	Class     Class
	// Bytes is the size of the object, and Growth is how much larger it is than before.
	Bytes, Growth int64
}

// Backend is an etcd whose usage is known.
type Backend interface {
	// Usage is how much of the etcd is used. The limit is 0 if it is not known.
	Usage() Usage
	// Lag is how old the usage may be.
	Lag() time.Duration
	// Reclaim frees what is not needed any more until there is enough, if that can be done from
	// here. It reports whether the usage has everything afterwards that was written before.
	Reclaim(ctx context.Context, enough func(Usage) bool) bool
}

// reclaimInterval is how often room is made for writes that are refused all the same.
const reclaimInterval = time.Second

// Room decides which writes the store has room for, so that no user can take the space that safety needs.
type Room struct {
	Backend Backend
	// Ledger knows how much each namespace stores.
	Ledger *Ledger
	// NamespaceLimit is how much a namespace may store; 0 for any amount.
	NamespaceLimit int64
	Clock          clock.PassiveClock

	mu sync.Mutex
	// writing are the bytes of writes under way, by namespace. written are those of writes that
	// are done and may not be in the usage yet, in two generations of at least the lag each.
	// Counting some of them twice refuses a write a little early.
	writing, written, before map[string]int64
	turned                   time.Time
	// since is what was written since room was made last: as much may be freed at most.
	since int64
	// vain is when room was made last for a class that was refused all the same.
	vain [Essential]time.Time
}

// everywhere counts what all namespaces were admitted. No namespace has this name.
const everywhere = "/"

// FullError refuses a write for which there is no room.
type FullError struct {
	// Namespace whose share is used; empty if the whole store is full.
	Namespace string
	Used, Of  int64
	// Parts says what uses the share of the namespace.
	Parts string
}

// Error implements error.
func (e *FullError) Error() string {
	if e.Namespace != "" {
		return fmt.Sprintf("namespace %q stores %s of the %s that it may (%s)", e.Namespace, mebibytes(e.Used), mebibytes(e.Of), e.Parts)
	}
	return fmt.Sprintf("the store has %s of its %s in use", mebibytes(e.Used), mebibytes(e.Of))
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// Admit returns a FullError if there is no room for the write. Otherwise the function that it
// returns must be called when the write is done. Before Admit refuses a write, and before a
// write reaches the limit of etcd, Admit frees what is not needed any more.
func (r *Room) Admit(ctx context.Context, w Write) (done func(), _ error) {
	if w.Class == Growth {
		if err := r.namespaceHasRoom(ctx, w); err != nil {
			return nil, err
		}
	}
	enough := func(u Usage) bool { return r.lacks(u, w) == nil && !r.isTight(u, w) }
	if !enough(r.Backend.Usage()) && r.mayReclaim(w.Class) {
		before := r.unmeasured(everywhere)
		if r.Backend.Reclaim(ctx, enough) {
			r.measured(everywhere, before)
		}
	}
	if err := r.lacks(r.Backend.Usage(), w); err != nil {
		r.reclaimedInVain(w.Class)
		return nil, err
	}
	return r.count(w), nil
}

// HasMuchRoom reports whether less than half of the store is used, so that no essential write
// needs to be counted.
func (r *Room) HasMuchRoom() bool {
	u := r.Backend.Usage()
	return u.Limit == 0 || !u.Full && max(u.Size, u.InUse) < u.Limit/2
}

// mayReclaim reports whether room is made for a write of a class now. A user whose writes are
// refused must not keep the store busy.
func (r *Room) mayReclaim(c Class) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return c == Essential || r.Clock.Since(r.vain[c]) >= reclaimInterval
}

// reclaimedInVain remembers that a write was refused although room was made.
func (r *Room) reclaimedInVain(c Class) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Clock.Since(r.vain[c]) >= reclaimInterval {
		r.vain[c] = r.Clock.Now()
	}
}

// namespaceHasRoom judges the share of the namespace. Before it refuses a write, it counts
// exactly what was written.
func (r *Room) namespaceHasRoom(ctx context.Context, w Write) error {
	if w.Namespace == "" || r.NamespaceLimit == 0 || r.inNamespace(w) == nil {
		return nil
	}
	if before := r.unmeasured(w.Namespace); before > 0 && r.Ledger.CatchUp(ctx) {
		r.measured(w.Namespace, before)
	}
	return r.inNamespace(w)
}

func (r *Room) inNamespace(w Write) error {
	used, parts := r.Ledger.Of(w.Namespace)
	if used+r.lately(w.Namespace)+w.Growth <= r.NamespaceLimit {
		return nil
	}
	return &FullError{Namespace: w.Namespace, Used: used, Of: r.NamespaceLimit, Parts: parts}
}

// lacks judges the whole store. What was overwritten counts until it is compacted, since etcd
// counts it.
func (r *Room) lacks(u Usage, w Write) error {
	if u.Limit == 0 || w.Class == Essential {
		return nil
	}
	share := u.Limit / 4 * 3
	if w.Class == Record {
		share = u.Limit / 8 * 7
	}
	if u.InUse+r.lately(everywhere)+w.Bytes <= share {
		return nil
	}
	return &FullError{Used: u.InUse, Of: u.Limit}
}

// isTight reports whether room must be made before a write, although the write may use all of
// the store. Etcd refuses a write by the size of its file, whatever of it is free. A
// compaction in time lets later writes use the file as it is. Without it the file must be
// defragmented, for which everybody waits.
func (r *Room) isTight(u Usage, w Write) bool {
	if u.Limit == 0 {
		return false
	}
	if u.Full || u.Size+w.Bytes >= u.Limit {
		return true
	}
	more := r.lately(everywhere) + w.Bytes
	mayGrow := u.nearLimit(more) && u.free() < 2*more
	return (mayGrow || u.InUse+more > u.Limit/8*7) && r.sinceReclaim() > u.Limit/64
}

func (r *Room) sinceReclaim() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since
}

// nearLimit reports whether the file comes near the limit with so many more bytes.
func (u Usage) nearLimit(bytes int64) bool { return u.Size+bytes > u.Limit/16*15 }

// count remembers what is being written, until the function is called that it returns.
func (r *Room) count(w Write) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	add := func(to map[string]int64, sign int64) {
		to[everywhere] += sign * w.Bytes
		if w.Namespace != "" && w.Growth > 0 {
			to[w.Namespace] += sign * w.Growth
		}
	}
	add(r.writing, 1)
	r.since += w.Bytes
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.turn()
		add(r.writing, -1)
		if r.writing[w.Namespace] == 0 {
			delete(r.writing, w.Namespace)
		}
		add(r.written, 1)
	}
}

// lately is what is being written to a namespace, or to all of them, and what was written so
// lately that it may not be counted yet.
func (r *Room) lately(namespace string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	return r.writing[namespace] + r.written[namespace] + r.before[namespace]
}

// turn begins a new generation when the one under way is old enough.
func (r *Room) turn() {
	if r.writing == nil {
		r.writing = map[string]int64{}
	}
	now, lag := r.Clock.Now(), r.Backend.Lag()
	age := now.Sub(r.turned)
	if r.written != nil && age < lag {
		return
	}
	r.before = r.written
	if age >= 2*lag {
		r.before = nil
	}
	r.written, r.turned = map[string]int64{}, now
}

// unmeasured is what has been written to a namespace, or to all, and may not be in the usage.
func (r *Room) unmeasured(namespace string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	return r.written[namespace] + r.before[namespace]
}

// measured forgets what was written before the usage was measured.
func (r *Room) measured(namespace string, written int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	older := min(written, r.before[namespace])
	if older > 0 {
		r.before[namespace] -= older
	}
	r.written[namespace] -= min(written-older, r.written[namespace])
	if namespace == everywhere {
		r.since = 0
	}
}
