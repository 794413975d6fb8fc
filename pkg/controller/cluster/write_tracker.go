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

// StaleCacheDelay is how long a pass waits at most for the caches to show the writes of this process. Usually
// the watch event starts the next pass after milliseconds.
const StaleCacheDelay = time.Second

// WriteTracker remembers the resourceVersions that this process wrote until its caches show them. A pass over an
// older version would plan the same actions again, and the server would refuse to store its status. So the
// tracker only saves work; correctness does not depend on it. Entries expire, so that a release continues even
// if a cache never shows a version.
type WriteTracker struct {
	mu sync.Mutex
	// versions has the newest written resourceVersions by uid.
	versions *expiring.Expiring
	// histories has the status of stored histories by name. No two Rollouts share a history.
	histories *expiring.Expiring
}

// NewWriteTracker returns an empty tracker.
func NewWriteTracker(c clock.Clock) *WriteTracker {
	return &WriteTracker{versions: expiring.NewExpiringWithClock(c), histories: expiring.NewExpiringWithClock(c)}
}

// historyTTL is how long a stored history is not read again. After this time the status of the Rollout records
// that the history is stored.
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

// recordWrite remembers the resourceVersion of an object as the server returned it.
func (w *WriteTracker) recordWrite(o metav1.Object) {
	if w == nil || o.GetUID() == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// Two reconcilers may write one object, and record the writes in either order.
	if written := w.writtenVersion(o); written == "" || isOlder(written, o.GetResourceVersion()) {
		w.versions.Set(o.GetUID(), o.GetResourceVersion(), StaleCacheDelay)
	}
}

// writtenVersion returns the newest resourceVersion that was written of an object; empty if there was no recent
// write.
func (w *WriteTracker) writtenVersion(o metav1.Object) string {
	found, _ := w.versions.Get(o.GetUID())
	version, _ := found.(string)
	return version
}

// checkFresh returns ErrStaleCache if an object from a cache is older than the last write of this process.
func (w *WriteTracker) checkFresh(o metav1.Object) error {
	if w != nil && isOlder(o.GetResourceVersion(), w.writtenVersion(o)) {
		return fmt.Errorf("reading %s: %w", o.GetName(), ErrStaleCache)
	}
	return nil
}

// isOlder reports whether resourceVersion a is older than b. It is false if they cannot be compared.
func isOlder(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// ErrStaleCache is the error of a pass whose cache is older than the writes of this process.
var ErrStaleCache = errors.New("the cache does not show yet what was written")

// IsStaleCache reports whether a pass stopped because of a stale cache. This is not a failure: the watch event
// of the write starts the next pass.
func IsStaleCache(err error) bool { return errors.Is(err, ErrStaleCache) }
