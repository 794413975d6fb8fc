// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// move is one action of one actor in a schedule.
type move struct {
	name   string
	weight int
	do     func(*schedule, byte)
}

// moves are the possible moves of every schedule. The weight is the probability of a move.
var moves = []move{
	{"rollout", 8, func(s *schedule, b byte) { s.runStalePass(b, func() { s.rolloutPass(app0) }) }},
	{"batch", 6, func(s *schedule, b byte) { s.runStalePass(b, func() { s.batchPass(app0) }) }},
	{"sizes", 6, func(s *schedule, b byte) { s.runStalePass(b, func() { s.sizePass(app0) }) }},
	{"kube", 6, func(s *schedule, b byte) { s.syncNatives() }},
	{"pods", 6, (*schedule).advanceSomePods},
	{"round", 6, func(s *schedule, b byte) {
		for range b%8 + 1 {
			s.now = s.now.Add(s.round())
		}
	}},
	{"clock", 2, func(s *schedule, b byte) {
		if s.clockMayGoBack && b%2 == 1 {
			s.setClockBack(time.Duration(b) * time.Minute)
			return
		}
		s.now = s.now.Add(time.Duration(b) * 700 * time.Millisecond)
	}},
	{"image", 2, func(s *schedule, b byte) {
		s.updateWorkload(app0, setImage([]string{"v1", "v2", "v3", "v2", "failed", "v4", "v1", "v3"}[b%8]))
	}},
	{"promote", 4, func(s *schedule, b byte) {
		via := rollouts.ViaVerb
		if b&2 != 0 {
			via = rollouts.ViaStatus
		}
		s.applyVerb(app0, verb.Command{Verb: rollouts.VerbPromote, User: "alice", Full: b%5 == 4, Via: via})
	}},
	{"abort", 1, func(s *schedule, _ byte) { s.applyVerb(app0, verb.Command{Verb: rollouts.VerbAbort, User: "bob"}) }},
	{"pause", 1, func(s *schedule, _ byte) {
		s.editRollout(app0, func(r *rollouts.RolloutSpec) { r.Strategy.Paused = !r.Strategy.Paused })
	}},
	{"scale", 1, func(s *schedule, b byte) { s.scaleWorkload(app0, []int32{0, 1, 2, 3, 5, 6, 10, 15}[b%8]) }},
	{"disable", 1, func(s *schedule, b byte) {
		s.editRollout(app0, func(r *rollouts.RolloutSpec) { r.Disabled = !r.Disabled && b%2 == 0 })
	}},
	{"replan", 1, func(s *schedule, b byte) {
		next := plans[int(b)%len(plans)]()
		s.editRollout(app0, func(r *rollouts.RolloutSpec) {
			_, release := r.Strategy.Active()
			release.Steps = next.Steps
		})
	}},
	{"apply", 1, (*schedule).applyManifest},
	{"delete", 1, func(s *schedule, b byte) {
		if b%4 == 0 && !s.deleteObject(kindRollout, app0) {
			s.createRollout(app0, s.plan, s.blueGreen)
		}
	}},
	{"rollback", 1, func(s *schedule, _ byte) {
		s.applyVerb(app0, verb.Command{Verb: rollouts.VerbRollback, User: "bob"})
	}},
	{"retry", 2, func(s *schedule, _ byte) { s.applyVerb(app0, verb.Command{Verb: rollouts.VerbRetry, User: "bob"}) }},
	{"freeze", 1, func(s *schedule, b byte) {
		v := rollouts.VerbPause
		if b&1 != 0 {
			v = rollouts.VerbResume
		}
		s.applyVerb(app0, verb.Command{Verb: v, User: "bob"})
	}},
	{"jump", 1, func(s *schedule, b byte) {
		via := rollouts.ViaVerb
		if b&4 != 0 {
			via = rollouts.ViaStatus
		}
		s.applyVerb(app0, verb.Command{Verb: rollouts.VerbJump, User: "carol", Step: int32(b & 3), Via: via})
	}},
	{"name", 1, func(s *schedule, b byte) { s.updateWorkload(app0, setName([]string{"one", "two"}[b%2])) }},
	{"batches", 1, func(s *schedule, b byte) { s.annotateRollout(app0, "rollback-in-batch", strconv.FormatBool(b%4 != 0)) }},
	{"gc", 1, func(s *schedule, b byte) {
		s.runAs("gc", func() error { s.store.collectGarbage(); return nil })
		if b%4 == 2 {
			s.toggleObject(b >> 2)
		}
		if r := find[*rollouts.Rollout](s.store.objects, kindRollout, app0); b%4 == 3 && r != nil && r.Status.Phase == rollouts.PhaseProgressing {
			stable := r.Status.Active().StableRevision
			s.deleteSets(func(rs *appsv1.ReplicaSet) bool { return rs.Labels[hashKey] == stable })
		}
	}},
}

// routingMoves are the additional moves of schedules with a TrafficRouting. They are separate, so
// that the bytes of other schedules keep their meaning.
var routingMoves = []move{
	{"routing", 4, func(s *schedule, b byte) { s.runStalePass(b, func() { s.routingPass(scheduledRouting) }) }},
	{"reroute", 1, (*schedule).changeTrafficRouting},
}

func (s *schedule) playMove() {
	possible := moves
	if s.usesTrafficRouting() {
		possible = slices.Concat(possible, routingMoves)
	}
	if s.analysis != nil {
		possible = slices.Concat(possible, measuredMoves)
	}
	if s.leaderFreezes {
		possible = slices.Concat(possible, frozenMoves)
	}
	if s.ownerBreaksPods {
		possible = slices.Concat(possible, clumsyMoves)
	}
	total := 0
	for _, m := range possible {
		total += m.weight
	}
	n := int(s.nextByte()) % total
	for _, m := range possible {
		if n -= m.weight; n < 0 {
			m.do(s, s.nextByte())
			return
		}
	}
}

// runStalePass runs a pass with stale caches that may crash. Two bits of b are the staleness of the
// caches of Weir's kinds, two bits that of the native kinds, and the rest the number of writes
// before a crash, if any.
func (s *schedule) runStalePass(b byte, run func()) {
	for k, late := range map[kind]byte{
		kindRollout: b & 3, kindIndex: b & 3, kindBatch: b & 3, kindRouting: b & 3, kindDeployment: b >> 2 & 3, kindSet: b >> 2 & 3,
		kindStatefulSet: b >> 2 & 3, kindDaemonSet: b >> 2 & 3, kindRevision: b >> 2 & 3, kindPod: b >> 2 & 3, kindService: b >> 4 & 1, kindIngress: b >> 4 & 1,
	} {
		s.lag[k] = int(late) * 2
	}
	if die := int(b>>5) - 4; die >= 0 {
		s.writesLeft = die
	}
	run()
	clear(s.lag)
	s.writesLeft = -1
}

// advanceSomePods changes the pods of one set, or of all sets.
func (s *schedule) advanceSomePods(b byte) {
	sets, pods := byAge(listOf[*appsv1.ReplicaSet](s.store.objects)), podsIn(s.store.objects)
	switch {
	case b%4 == 0 || len(sets)+len(pods) == 0:
		s.runKubelets()
		return
	case len(sets) == 0:
		s.advanceOnePod(pods[int(b>>3)%len(pods)], b)
		return
	}
	rs := sets[int(b>>3)%len(sets)]
	s.runAs("pods", func() error {
		switch {
		case b%4 == 1:
			syncSet(s.store, rs)
		case b%4 == 2:
			makePodsReady(s.store, rs, 1)
		case s.podsMayFail && b%8 == 3:
			s.check.noteFailedPods()
			makePodsReady(s.store, rs, -1)
		default:
			makePodsReady(s.store, rs, 2)
		}
		return nil
	})
}

// applyManifest plays a user who changes more than the image.
func (s *schedule) applyManifest(b byte) {
	s.updateWorkload(app0, func(o object.Object) {
		switch b % 3 {
		case 0:
			nativeOf(o).resume(o)
		case 1:
			o.SetAnnotations(nil)
			o.SetLabels(nil)
		default:
			nativeOf(o).restoreStrategy(o, s.check.owner)
		}
	})
}
