// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	expiring "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// StaleCacheDelay is how long a pass waits for the caches to show what this process
// wrote. What they are given wakes it, mostly after milliseconds.
const StaleCacheDelay = time.Second

// WriteTracker remembers the versions that this process wrote until its caches show
// them. A pass over older ones would plan again what is done already, and the
// server would refuse to store that. So this is a shortcut and no memory: whoever
// lost it is refused. It is forgotten after a while, lest a cache that is never
// shown a version stop a release.
type WriteTracker struct {
	mu sync.Mutex
	// versions are the newest that were written, by uid.
	versions *expiring.Expiring
	// histories are those that were filed, by name; no two Rollouts share one.
	histories *expiring.Expiring
}

// NewWriteTracker returns a tracker that has seen no write.
func NewWriteTracker(c clock.Clock) *WriteTracker {
	return &WriteTracker{versions: expiring.NewExpiringWithClock(c), histories: expiring.NewExpiringWithClock(c)}
}

// historyTTL is how long a history that was filed is not read again. A release that
// waits longer has it on record by then.
const historyTTL = time.Minute

func (w *WriteTracker) recordHistory(name string, status rollouts.RolloutHistoryStatus) {
	if w != nil {
		w.histories.Set(name, status, historyTTL)
	}
}

func (w *WriteTracker) history(name string) (rollouts.RolloutHistoryStatus, bool) {
	if w == nil {
		return rollouts.RolloutHistoryStatus{}, false
	}
	found, _ := w.histories.Get(name)
	status, ok := found.(rollouts.RolloutHistoryStatus)
	return status, ok
}

// recordWrite remembers an object as the server answered it.
func (w *WriteTracker) recordWrite(o metav1.Object) {
	if w == nil || o.GetUID() == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// Two reconcilers may write one object, and note it in either order.
	if written := w.writtenVersion(o); written == "" || isOlder(written, o.GetResourceVersion()) {
		w.versions.Set(o.GetUID(), o.GetResourceVersion(), StaleCacheDelay)
	}
}

// writtenVersion is the newest that was written of an object; empty if none was of late.
func (w *WriteTracker) writtenVersion(o metav1.Object) string {
	found, _ := w.versions.Get(o.GetUID())
	version, _ := found.(string)
	return version
}

// checkFresh fails, as Behind reports, where a cache has an object older than it was written.
func (w *WriteTracker) checkFresh(o metav1.Object) error {
	if w != nil && isOlder(o.GetResourceVersion(), w.writtenVersion(o)) {
		return fmt.Errorf("reading %s: %w", o.GetName(), ErrStaleCache)
	}
	return nil
}

// isOlder compares versions; those that cannot be are not older.
func isOlder(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// ErrStaleCache is for a pass whose cache is older than the writes of this process.
var ErrStaleCache = errors.New("the cache does not show yet what was written")

// IsStaleCache reports whether a pass failed for that. It is no failure: what was written wakes the next pass.
func IsStaleCache(err error) bool { return errors.Is(err, ErrStaleCache) }
