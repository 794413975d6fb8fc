// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"iter"
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

// frozenPass is a pass of a former leader whose process was frozen before a write. Another process leads
// meanwhile. When the process wakes up, it sends the remaining writes of the pass to Weir's own store, where
// only the preconditions of each write protect the new leader (ADR 31). Its writes to the cluster are refused,
// because its lease is stale.
type frozenPass struct {
	next func() (struct{}, bool)
	stop func()
}

// errStaleLease is the error of a write to the cluster by a process that was frozen.
var errStaleLease = fmt.Errorf("%w: the lease is stale", errConflict)

// isOwnKind reports whether the object of a change is in Weir's own store.
func isOwnKind(c object.Change) bool {
	o := c.Want
	if o == nil {
		o = c.Base
	}
	switch keyOf(o).kind {
	case kindRollout, kindBatch, kindRouting, kindHistory:
		return true
	default:
		return false
	}
}

// freeze runs a pass until the process freezes before a write. The pass remains frozen until wake.
func (w *world) freeze(pass func()) {
	f := &frozenPass{}
	f.next, f.stop = iter.Pull(func(yield func(struct{}) bool) {
		w.yield = yield
		pass()
	})
	w.frozen = f
	if _, frozen := f.next(); !frozen {
		w.frozen = nil // the pass had fewer writes
	}
	w.writesBeforeFreeze = -1
}

// stayFrozen returns when the process wakes up. The world has its own actor meanwhile.
func (w *world) stayFrozen() {
	c := w.check
	actor, fromStored, planned, committed := w.actor, w.isFromStored, maps.Clone(c.planned), maps.Clone(c.committed)
	w.writesBeforeFreeze = -1
	if !w.yield(struct{}{}) {
		w.dead = true
		return
	}
	w.actor, w.isFromStored, w.dead, w.isLate = actor, fromStored, false, true
	c.planned, c.committed = planned, committed
}

// wake wakes up the process that is frozen, if there is one.
func (w *world) wake() {
	if f := w.frozen; f != nil {
		w.frozen = nil
		w.observer.did("the former leader wakes up")
		f.next()
		f.stop()
		w.actor, w.isFromStored, w.isLate = "", false, false
	}
}

// frozenMoves are the additional moves of schedules in which a leader freezes. They are separate, so that
// the bytes of other schedules keep their meaning.
var frozenMoves = []move{
	{"freeze", 8, func(s *schedule, b byte) {
		if s.frozen != nil {
			return
		}
		pass := func() { s.rolloutPass(app0) }
		switch {
		case b>>4 == 0:
			pass = func() { s.sizePass(app0) }
		case b>>4 == 1:
			pass = func() { s.batchPass(app0) }
		case b>>4 < 6 && s.usesTrafficRouting():
			pass = func() { s.routingPass(scheduledRouting) }
		}
		s.observer.did("the leader freezes in its next pass")
		s.writesBeforeFreeze = int(b % 5)
		s.world.freeze(pass)
	}},
	{"wake", 2, func(s *schedule, _ byte) { s.wake() }},
}

// TestFrozenSchedules plays random schedules in which a leader freezes between two writes of a pass, another
// leader continues, and the former leader wakes up later and carries out the remaining writes.
func TestFrozenSchedules(t *testing.T) {
	playSchedules(t, func(s *schedule) {
		s.leaderFreezes = true
		s.createDeployment()
	}, *schedules)
}

// TestLateBatchRelease freezes a leader before each write of the pass that starts a release. Another leader ends
// the release. When the former leader wakes up, it may create the BatchRelease, which must not hold the workload.
func TestLateBatchRelease(t *testing.T) {
	t.Parallel()
	created := 0
	for _, end := range []string{"update web image=v1", "disable web"} {
		for writes := range 5 {
			s := newStory(t)
			s.run([]string{"deployment web replicas=4 image=v1", "rollout web", "  step 50%", "  step 100%", "settle", "update web image=v2"})
			s.w.writesBeforeFreeze = writes
			s.w.freeze(func() { s.w.rolloutPass("web") })
			s.run([]string{end, "settle"})
			s.w.wake()
			if find[*rollouts.BatchRelease](s.w.store.objects, kindBatch, "web") != nil {
				created++
			}
			s.run([]string{"settle"})
			if b := find[*rollouts.BatchRelease](s.w.store.objects, kindBatch, "web"); b != nil {
				t.Errorf("%q, frozen after %d writes: the BatchRelease stays", end, writes)
			}
			d := find[*appsv1.Deployment](s.w.store.objects, kindDeployment, "web")
			if d.Spec.Paused || d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
				t.Errorf("%q, frozen after %d writes: the workload is held", end, writes)
			}
			for _, broken := range s.w.check.broken {
				t.Errorf("%q, frozen after %d writes: %s", end, writes, broken)
			}
		}
	}
	if created == 0 {
		t.Error("no late BatchRelease was created, so the test proves nothing")
	}
}
