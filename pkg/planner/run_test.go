// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// The order of a round: each controller acts once, and the native controller after each of them,
// because it reacts within milliseconds.

// maxRounds is the number of rounds in which a world must come to rest.
const maxRounds = 300

// round lets each controller act once. It returns the requeue interval of the Rollout controller,
// or zero if there is none.
func (w *world) round() (wake time.Duration) {
	w.routingWake = 0
	for _, r := range listOf[*rollouts.Rollout](w.store.objects) {
		wake = shorterWait(wake, w.rolloutPass(r.Name))
		w.check.checkBetweenMoves()
		w.syncNatives()
	}
	for _, r := range listOf[*rollouts.TrafficRouting](w.store.objects) {
		w.routingWake = shorterWait(w.routingWake, w.routingPass(r.Name))
		w.check.checkBetweenMoves()
	}
	for _, b := range listOf[*rollouts.BatchRelease](w.store.objects) {
		w.batchPass(b.Name)
		w.check.checkBetweenMoves()
		w.syncNatives()
	}
	for _, d := range listOf[*appsv1.Deployment](w.store.objects) {
		w.sizePass(d.Name)
		w.check.checkBetweenMoves()
		w.syncNatives()
	}
	w.runKubelets()
	w.check.checkBetweenMoves()
	w.syncNatives()
	w.runAs("gc", func() error { w.store.collectGarbage(); return nil })
	return wake
}

// shorterWait returns the shorter of two requeue intervals. Zero means no requeue.
func shorterWait(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

func (w *world) syncNatives() {
	before := w.store.newest()
	if w.idle == before {
		return // the native controller had nothing to do in this state
	}
	defer func() {
		if w.store.newest() == before {
			w.idle = before
		}
	}()
	for _, o := range workloads(w.store.objects) {
		w.runAs("kube", func() error { nativeOf(o).sync(w.store, o.GetName()); return nil })
	}
}

// runKubelets brings each set to its size and makes its pods ready.
func (w *world) runKubelets() {
	for _, rs := range byAge(listOf[*appsv1.ReplicaSet](w.store.objects)) {
		w.runAs("pods", func() error {
			syncSet(w.store, rs)
			makePodsReady(w.store, find[*appsv1.ReplicaSet](w.store.objects, kindSet, rs.Name), math.MaxInt32/2)
			return nil
		})
	}
	for _, p := range podsIn(w.store.objects) {
		w.runAs("pods", func() error { kubelet(w.store, p); return nil })
	}
}

// runUntilIdle runs rounds until nothing is written. It advances the clock over all waits except
// pauses, because stories control those. wait is the remaining duration of a pause.
func (w *world) runUntilIdle() (wait time.Duration, ok bool) {
	idle := 0
	for range maxRounds {
		before := w.store.newest()
		w.died, w.actionCount = false, 0
		wake := w.round()
		if w.actionCount > 0 && w.store.newest() == before && !w.died && !w.check.isStableBroken() {
			w.check.violate("quiet", "a waiting world acts, rule %q", w.rule)
			return 0, true
		}
		if idle++; w.store.newest() != before || w.died {
			idle = 0
		}
		switch {
		case idle == 0:
		case w.routingWake > 0:
			w.now = w.now.Add(w.routingWake)
		case wake == 0 || w.isWaitingForPause() || w.isMeasuring() && idle > maxRounds/3:
			return wake, true
		default:
			w.now = w.now.Add(wake)
		}
	}
	return 0, false
}

// isMeasuring reports whether a release is measured. Such a release is requeued in each window,
// whatever it waits for.
func (w *world) isMeasuring() bool {
	return slices.ContainsFunc(listOf[*rollouts.Rollout](w.store.objects), func(r *rollouts.Rollout) bool { return r.Status.Analysis != nil })
}

// isWaitingForPause reports whether a step waits for the end of its pause or for checks before its
// traffic, or a measured release is paused.
func (w *world) isWaitingForPause() bool {
	for _, r := range listOf[*rollouts.Rollout](w.store.objects) {
		p := r.Status.Active()
		waits := p != nil && p.State == rollouts.StepPaused && w.rule == "in progress"
		paused := p != nil && p.FinalisingStep == "" && r.Status.Analysis != nil && r.Status.Activity() == rollouts.ActivityPaused
		if waits || paused {
			return true
		}
		// A story advances the clock itself. A schedule waits only for decisions of users.
		if held := planner.StoredChecksHoldingTraffic(r); slices.ContainsFunc(held, func(c rollouts.CheckStatus) bool { return !w.scheduled || c.Result != rollouts.CheckRunning }) {
			return true
		}
	}
	return false
}

// setClockBack sets the clock back. The elapsed durations of waits stay the same.
func (w *world) setClockBack(d time.Duration) {
	w.now = w.now.Add(-d)
	for at, since := range w.check.gates.since {
		w.check.gates.since[at] = since.Add(-d)
	}
	for hash, until := range w.check.promises.keptUntil {
		w.check.promises.keptUntil[hash] = until.Add(-d)
	}
}
