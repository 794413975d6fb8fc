// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

const (
	// maintenanceInterval is how often the size of the database is checked. A check is cheap.
	maintenanceInterval = 10 * time.Second
	// minFreedBytes is the minimum number of free bytes that justify a defragmentation.
	minFreedBytes = 64 << 20
	// maxQuickCopyBytes is the maximum number of bytes in use that a defragmentation copies so fast that requests need
	// not wait long.
	maxQuickCopyBytes = 256 << 20
)

// Usage describes the size of an etcd database.
type Usage struct {
	// Size is the size of the file. Only a defragmentation shrinks the file.
	Size int64
	// InUse is the number of bytes in the file that contain data.
	InUse int64
	// Limit is the maximum size of the file.
	Limit int64
	// Full is true after etcd refused a write that would have exceeded the limit. From then on etcd accepts
	// only deletions, until the alarm is cleared.
	Full bool
}

// freeBytes returns the number of bytes that a defragmentation frees.
func (u Usage) freeBytes() int64 { return u.Size - u.InUse }

// hasSpace reports whether writes that free space succeed after a defragmentation. Room refuses all other
// writes before this limit is reached.
func (u Usage) hasSpace() bool { return u.InUse <= u.Limit/32*31 }

// isBlocked reports whether the file is so near the limit that etcd may refuse the next write, although a
// defragmentation would help.
func (u Usage) isBlocked() bool {
	return (u.Full || u.Size > u.Limit/32*31) && u.hasSpace() && u.freeBytes() >= u.Limit/64
}

// needsDefragmentation reports whether a defragmentation is justified. A defragmentation copies all bytes in use, and
// requests wait meanwhile. Therefore it must be fast and free at least half of the file. Near the limit it
// must free a tenth of the limit, so that the next one is not needed soon. If etcd refuses writes already,
// a smaller gain is enough.
func (u Usage) needsDefragmentation() bool {
	if u.Full {
		return u.isBlocked()
	}
	half := u.InUse <= maxQuickCopyBytes && u.freeBytes() >= minFreedBytes && u.freeBytes() >= u.Size/2
	near := u.Size >= u.Limit/4*3 && u.freeBytes() >= u.Limit/10
	return half || near
}

// Usage implements Backend.
func (s *Store) Usage() Usage {
	server := s.etcd.Server
	u := Usage{Size: server.Backend().Size(), InUse: server.Backend().SizeInUse(), Limit: server.Cfg.QuotaBackendBytes}
	for _, alarm := range server.Alarms() {
		u.Full = u.Full || alarm.GetAlarm() == pb.AlarmType_NOSPACE
	}
	return u
}

// Maintain runs the maintenance periodically until the store is closed.
func (s *Store) Maintain(ctx context.Context) {
	ctx, s.stop = context.WithCancel(ctx)
	s.maintenance.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			if err := s.RunMaintenance(ctx); err != nil && ctx.Err() == nil {
				klog.ErrorS(err, "Keeping the embedded etcd small")
			}
		}, maintenanceInterval)
	})
}

// Lag implements Backend. etcd commits ten times per second, and its usage counts committed writes.
func (s *Store) Lag() time.Duration { return time.Second }

// Reclaim implements Backend. It compacts old revisions at once. The periodic compaction (once a
// minute) is not enough: a client that overwrites large objects could fill the store in
// between. Watches and paged lists at older revisions then get 410 Gone.
func (s *Store) Reclaim(ctx context.Context, enough func(Usage) bool) bool {
	if s.maintaining.Acquire(ctx, 1) != nil {
		return false
	}
	defer s.maintaining.Release(1)
	if s.etcd.Server.Backend().ForceCommit(); enough(s.Usage()) {
		return true // a concurrent Reclaim has freed enough
	}
	err := s.freeSpace(ctx)
	if err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "Compacting or defragmenting the embedded etcd to free space failed")
	}
	return err == nil && ctx.Err() == nil
}

func (s *Store) freeSpace(ctx context.Context) error {
	if s.Usage().Full {
		return s.maintain(ctx)
	}
	if err := s.compact(ctx); err != nil {
		return err
	}
	s.awaitFreed(ctx)
	// The next writes use the pages that are free now, so that the file need not grow.
	if u := s.Usage(); u.nearLimit(0) && u.freeBytes() >= u.Limit/10 || u.isBlocked() {
		return s.defragment(u)
	}
	return nil
}

// awaitFreed waits until Usage counts the pages that a compaction freed as free. bbolt frees them
// at a commit after all read transactions that began before the compaction have ended.
func (s *Store) awaitFreed(ctx context.Context) {
	last := int64(-1)
	_ = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 500*time.Millisecond, true, func(context.Context) (bool, error) {
		s.etcd.Server.Backend().ForceCommit()
		before := last
		last = s.Usage().InUse
		return last == before, nil
	}) // the next Reclaim finds pages that become free later
}

// RunMaintenance compacts and defragments once if that is necessary.
func (s *Store) RunMaintenance(ctx context.Context) error {
	if err := s.maintaining.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("waiting for a compaction to end: %w", err)
	}
	defer s.maintaining.Release(1)
	return s.maintain(ctx)
}

func (s *Store) maintain(ctx context.Context) error {
	defer func() { s.Usage().setMetrics() }()
	u := s.Usage()
	if u.Full {
		// The periodic compaction of the API server writes a key, and etcd refuses that write now.
		if err := s.compact(ctx); err != nil {
			return err
		}
		if u = s.usageAfterCompaction(ctx); !u.hasSpace() {
			return fmt.Errorf("the embedded etcd is full: %d of %d bytes are in use; "+
				"delete what is not needed, or raise --data-limit", u.InUse, u.Limit)
		}
	}
	if u.needsDefragmentation() {
		if err := s.defragment(u); err != nil {
			return err
		}
	}
	if !u.Full {
		return nil
	}
	off := &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE, MemberID: uint64(s.etcd.Server.MemberID())}
	if _, err := s.etcd.Server.Alarm(ctx, off); err != nil {
		return fmt.Errorf("accepting writes again: %w", err)
	}
	klog.InfoS("The embedded etcd accepts writes again", "size", s.Usage().Size, "limit", u.Limit)
	return nil
}

// compact removes all old revisions. Watches at an old revision get 410 Gone, and their clients list again.
func (s *Store) compact(ctx context.Context) error {
	kv := s.etcd.Server.KV()
	if kv.FirstRev() >= kv.Rev() {
		return nil
	}
	_, err := s.etcd.Server.Compact(ctx, &pb.CompactionRequest{Revision: kv.Rev(), Physical: true})
	if err != nil {
		return fmt.Errorf("compacting: %w", err)
	}
	return nil
}

// usageAfterCompaction returns the usage after a compaction. The freed pages count as free after a commit, when all read
// transactions that began before the compaction have ended.
func (s *Store) usageAfterCompaction(ctx context.Context) Usage {
	backend := s.etcd.Server.Backend()
	// After a timeout there is no space yet. The next maintenance checks again.
	_ = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Second, true, func(context.Context) (bool, error) {
		backend.ForceCommit()
		return s.Usage().hasSpace(), nil
	})
	return s.Usage()
}

func (s *Store) defragment(before Usage) error {
	start := s.clock.Now()
	if err := s.etcd.Server.Defragment(); err != nil {
		return fmt.Errorf("defragmenting: %w", err)
	}
	took := s.clock.Since(start)
	defragmentations.Observe(took.Seconds())
	klog.InfoS("Defragmented the embedded etcd", "before", before.Size, "after", s.Usage().Size, "took", took)
	return nil
}
