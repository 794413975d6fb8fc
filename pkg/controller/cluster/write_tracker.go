// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Patience is how long a pass waits for the caches to show what this process
// wrote. What they are given wakes it, mostly after milliseconds.
const Patience = time.Second

// WriteTracker remembers the versions that this process wrote until its caches show
// them. A pass over older ones would plan again what is done already, and the
// server would refuse to store that. So this is a shortcut and no memory: whoever
// lost it is refused. It is forgotten after a while, lest a cache that is never
// shown a version stop a release.
type WriteTracker struct {
	Clock clock.PassiveClock

	mu sync.Mutex
	by map[types.UID]writing
	// histories are those that were filed, by name; no two Rollouts share one.
	histories map[string]filing
	// swept is when what was forgotten was last removed.
	swept time.Time
}

// writing is the newest version that was written of an object.
type writing struct {
	version string
	at      time.Time
}

// filing is a history as it was stored.
type filing struct {
	status rollouts.RolloutHistoryStatus
	at     time.Time
}

// known is how long a history that was filed is not read again. A release that
// waits longer has it on record by then.
const known = time.Minute

func (w *WriteTracker) file(name string, status rollouts.RolloutHistoryStatus) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.Clock.Now()
	kept := map[string]filing{name: {status: status, at: now}}
	for other, f := range w.histories {
		if other != name && now.Sub(f.at) < known {
			kept[other] = f
		}
	}
	w.histories = kept
}

func (w *WriteTracker) filed(name string) (rollouts.RolloutHistoryStatus, bool) {
	if w == nil {
		return rollouts.RolloutHistoryStatus{}, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f, ok := w.histories[name]
	return f.status, ok && w.Clock.Since(f.at) < known
}

// note remembers an object as the server answered it.
func (w *WriteTracker) note(o metav1.Object) {
	if w == nil || o.GetUID() == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.Clock.Now()
	if w.by == nil || now.Sub(w.swept) > Patience {
		w.sweep(now)
	}
	// Two reconcilers may write one object, and note it in either order.
	if was, noted := w.by[o.GetUID()]; !noted || older(was.version, o.GetResourceVersion()) {
		w.by[o.GetUID()] = writing{version: o.GetResourceVersion(), at: now}
	}
}

func (w *WriteTracker) sweep(now time.Time) {
	kept := map[types.UID]writing{}
	for uid, was := range w.by {
		if now.Sub(was.at) < Patience {
			kept[uid] = was
		}
	}
	w.by, w.swept = kept, now
}

// shown fails, as Behind reports, where a cache has an object older than it was written.
func (w *WriteTracker) shown(o metav1.Object) error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	was, noted := w.by[o.GetUID()]
	if noted && w.Clock.Since(was.at) < Patience && older(o.GetResourceVersion(), was.version) {
		return fmt.Errorf("reading %s: %w", o.GetName(), ErrBehind)
	}
	return nil
}

// older compares versions; those that cannot be are not older.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// ErrBehind is for a pass whose cache is older than the writes of this process.
var ErrBehind = errors.New("the cache does not show yet what was written")

// Behind reports whether a pass failed for that. It is no failure: what was written wakes the next pass.
func Behind(err error) bool { return errors.Is(err, ErrBehind) }
