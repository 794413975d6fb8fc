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

// The order of an obedient world: everybody acts once a round, and the native
// controller after each of them, since it answers within milliseconds.

// maxRounds is how many rounds a world may need to come to rest.
const maxRounds = 300

// round lets everybody act once. It returns when the Rollout controller wants
// to be woken, zero if it does not.
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

// shorterWait is the earlier of two wakes, of which zero is none.
func shorterWait(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

func (w *world) syncNatives() {
	before := w.store.newest()
	if w.idle == before {
		return // it has seen this, and found nothing to do
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

// runKubelets brings every set to its size and makes pods ready.
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

// runUntilIdle runs rounds until nothing is written any more. Waits are waited out,
// but for those of a pause, which is what a story is about; wait says how long
// of it is left.
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

// isMeasuring reports whether a release is measured, so that it is woken in each window, whatever it
// waits for.
func (w *world) isMeasuring() bool {
	return slices.ContainsFunc(listOf[*rollouts.Rollout](w.store.objects), func(r *rollouts.Rollout) bool { return r.Status.Analysis != nil })
}

// isWaitingForPause reports whether a step waits for its pause to end, for checks before its traffic, or
// a release that is measured for somebody who resumes it.
func (w *world) isWaitingForPause() bool {
	for _, r := range listOf[*rollouts.Rollout](w.store.objects) {
		p := r.Status.Active()
		waits := p != nil && p.State == rollouts.StepPaused && w.rule == "in progress"
		paused := p != nil && p.FinalisingStep == "" && r.Status.Analysis != nil && r.Status.Activity() == rollouts.ActivityPaused
		if waits || paused {
			return true
		}
		// In a story time goes on by its own lines. In a schedule only a person is waited for.
		if held := planner.StoredChecksHoldingTraffic(r); slices.ContainsFunc(held, func(c rollouts.CheckStatus) bool { return !w.scheduled || c.Result != rollouts.CheckRunning }) {
			return true
		}
	}
	return false
}

// setClockBack sets the clock back, as no time does. How long a step has waited does
// not change by that.
func (w *world) setClockBack(d time.Duration) {
	w.now = w.now.Add(-d)
	for at, since := range w.check.gates.since {
		w.check.gates.since[at] = since.Add(-d)
	}
	for hash, until := range w.check.promises.keptUntil {
		w.check.promises.keptUntil[hash] = until.Add(-d)
	}
}
