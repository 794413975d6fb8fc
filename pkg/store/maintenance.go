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
	// maintenanceInterval is how often the size is checked, which reads two numbers.
	maintenanceInterval = 10 * time.Second
	// worthwhile is how many free bytes are worth a defragmentation.
	worthwhile = 64 << 20
	// quick is how many bytes in use are copied without keeping anybody waiting
	// for long.
	quick = 256 << 20
)

// Usage is how much of the disk the database takes.
type Usage struct {
	// Size is that of the file. It never shrinks by itself.
	Size int64
	// InUse is what of it has data.
	InUse int64
	// Limit is how large the file may grow.
	Limit int64
	// Full is set by etcd when a write would have passed the limit. From then on
	// nothing but deletions is accepted, until the alarm is cleared.
	Full bool
}

// free is what a defragmentation gives back.
func (u Usage) free() int64 { return u.Size - u.InUse }

// hasSpace reports whether writes that free space pass after a defragmentation. Room refuses all
// others before so much is in use.
func (u Usage) hasSpace() bool { return u.InUse <= u.Limit/32*31 }

// blocked reports whether the file is so near the limit that etcd may refuse the next write,
// and a defragmentation helps.
func (u Usage) blocked() bool {
	return (u.Full || u.Size > u.Limit/32*31) && u.hasSpace() && u.free() >= u.Limit/64
}

// fragmented reports whether a defragmentation pays. It copies what is in use, and
// requests wait meanwhile. So it must be quick and give back half of a file or,
// where the limit is near, give back a tenth of what may be had, so that it will
// be long until the next one. Where etcd would refuse writes otherwise, less is enough.
func (u Usage) fragmented() bool {
	if u.Full {
		return u.blocked()
	}
	half := u.InUse <= quick && u.free() >= worthwhile && u.free() >= u.Size/2
	near := u.Size >= u.Limit/4*3 && u.free() >= u.Limit/10
	return half || near
}

// Usage reads how much of the disk the database takes.
func (s *Store) Usage() Usage {
	server := s.etcd.Server
	u := Usage{Size: server.Backend().Size(), InUse: server.Backend().SizeInUse(), Limit: server.Cfg.QuotaBackendBytes}
	for _, alarm := range server.Alarms() {
		u.Full = u.Full || alarm.GetAlarm() == pb.AlarmType_NOSPACE
	}
	return u
}

// Maintain keeps the database small until the store is closed.
func (s *Store) Maintain(ctx context.Context) {
	ctx, s.stop = context.WithCancel(ctx)
	s.maintenance.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			if err := s.Tidy(ctx); err != nil && ctx.Err() == nil {
				klog.ErrorS(err, "Keeping the embedded etcd small")
			}
		}, maintenanceInterval)
	})
}

// Lag implements Backend: etcd commits ten times a second, and counts what is committed.
func (s *Store) Lag() time.Duration { return time.Second }

// Reclaim implements Backend. It compacts old revisions at once. The periodic compaction (once a
// minute) is not enough: a client that overwrites large objects could fill the store in
// between. Watches and paged lists at older revisions then get 410 Gone.
func (s *Store) Reclaim(ctx context.Context, enough func(Usage) bool) bool {
	if s.tidying.Acquire(ctx, 1) != nil {
		return false
	}
	defer s.tidying.Release(1)
	if s.etcd.Server.Backend().ForceCommit(); enough(s.Usage()) {
		return true // a concurrent Reclaim has freed enough
	}
	err := s.reclaim(ctx)
	if err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "Compacting or defragmenting the embedded etcd to free space failed")
	}
	return err == nil && ctx.Err() == nil
}

func (s *Store) reclaim(ctx context.Context) error {
	if s.Usage().Full {
		return s.tidy(ctx)
	}
	if err := s.compact(ctx); err != nil {
		return err
	}
	s.awaitFreed(ctx)
	// Pages that are free now are used by the next writes, so that the file need not grow.
	if u := s.Usage(); u.nearLimit(0) && u.free() >= u.Limit/10 || u.blocked() {
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
	}) // pages that are not free by then are found free by the next Reclaim
}

// Tidy does once what is due.
func (s *Store) Tidy(ctx context.Context) error {
	if err := s.tidying.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("waiting for a compaction to end: %w", err)
	}
	defer s.tidying.Release(1)
	return s.tidy(ctx)
}

func (s *Store) tidy(ctx context.Context) error {
	defer func() { s.Usage().observe() }()
	u := s.Usage()
	if u.Full {
		// The API server compacts by a write of its own, which is refused now.
		if err := s.compact(ctx); err != nil {
			return err
		}
		if u = s.settled(ctx); !u.hasSpace() {
			return fmt.Errorf("the embedded etcd is full: %d of %d bytes are in use; "+
				"delete what is not needed, or raise --data-limit", u.InUse, u.Limit)
		}
	}
	if u.fragmented() {
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

// compact drops everything but what is stored now. Watches from older versions
// are told to read again.
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

// settled is the usage after a compaction. The pages that it freed count as free
// when no reader is left who began before it, and something is committed then.
func (s *Store) settled(ctx context.Context) Usage {
	backend := s.etcd.Server.Backend()
	// Should it not come to that, there is no room, or it is seen the next time.
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
