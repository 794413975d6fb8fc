// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"errors"
	"maps"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
	"github.com/weir-rollouts/weir/pkg/traffic"
)

// errCrash ends a pass like a crash of its process.
var errCrash = errors.New("crash")

// world is a cluster with one workload, its Rollout, and all actors. Adapters, providers,
// admission, the planner, and the controllers are real. The caller decides which actor is next, how
// stale its cache is, and when it crashes.
type world struct {
	now   time.Time
	store *store
	// seen is the moment that each cache has reached, by kind. lag is how far a cache may be behind
	// the newest moment in the next pass.
	seen map[kind]int
	lag  map[kind]int
	// writesLeft is the number of writes until the acting process crashes, or negative for no
	// crash.
	writesLeft int
	// crashes are planned crashes by actor.
	crashes map[string]*plannedCrash
	// refused is the reason why the server refused the last edit.
	refused string
	// actor is the current actor.
	actor string
	// idle is the last moment at which the native controller had nothing to do.
	idle int
	// rule is the rule that decided the last pass over the Rollout. died reports whether a process
	// has crashed since the field was last cleared.
	rule string
	died bool
	// dead reports whether the acting process has crashed in this pass.
	dead bool
	// writesBeforeFreeze is the number of writes until the acting process freezes, or negative if it does
	// not. frozen is the pass that is frozen, and yield freezes the process in the pass. isLate reports
	// whether the acting process was frozen and has woken up.
	writesBeforeFreeze int
	frozen             *frozenPass
	yield              func(struct{}) bool
	isLate             bool
	// isFromStored reports whether the current action follows from the stored status.
	isFromStored bool
	// routingWake is the requeue interval of TrafficRoutings in the last round.
	routingWake time.Duration
	// otherReleases are other users of the Rollout's Service or router that are not objects in the
	// store.
	otherReleases []traffic.OtherRelease
	// scheduled reports whether a schedule is played.
	scheduled bool
	// measures is the data of the metric sources.
	measures measuredWorld
	// actionCount counts actions since it was last cleared.
	actionCount int
	// podLabels are the labels of ReplicaSet pods by pod name.
	podLabels map[string]planner.PodLabel
	// historyWrites counts the additional writes for histories.
	historyWrites int
	// observer records what happens, for people.
	observer observer
	// check checks the invariants.
	check *invariants
}

// plannedCrash is a crash before the next commit or effect, or before each of them.
type plannedCrash struct {
	what string
	each bool
	// wasTried reports whether the crash happened, so that the retry succeeds.
	wasTried bool
}

func (d *plannedCrash) happensAt(what string) bool {
	if d == nil || d.what != what {
		return false
	}
	strikes := !d.wasTried
	d.wasTried = !d.wasTried || !d.each
	return strikes
}

const (
	committing = "commit"
	acting     = "effect"
)

type observer interface {
	planned(r *rollouts.Rollout, d planner.Decision)
	batchPlanned(p batchPlan)
	routingPlanned(r *rollouts.TrafficRouting, d routingPlan)
	sized(s sizes.Scale)
	acted(a planner.Effect)
	wrote(actor string, old, new object.Object)
	died(actor, what string)
	did(what string)
}

func newWorld(start time.Time, tell observer, check *invariants) *world {
	w := &world{now: start, seen: map[kind]int{}, lag: map[kind]int{}, writesLeft: -1, writesBeforeFreeze: -1, crashes: map[string]*plannedCrash{}, podLabels: map[string]planner.PodLabel{}, observer: tell, check: check}
	check.w = w
	w.store = newStore(func() time.Time { return w.now })
	w.store.onWrite = w.wrote
	return w
}

// fork returns an independent copy of the world.
func (w *world) fork(tell observer, check *invariants) *world {
	f := newWorld(w.now, tell, check)
	now := f.store.now
	f.store = w.store.fork()
	f.store.now, f.store.onWrite = now, f.wrote
	f.podLabels = maps.Clone(w.podLabels)
	f.scheduled = w.scheduled
	f.measures.shared, f.measures.answers = w.measures.shared, w.measures.answers
	return f
}

func (w *world) wrote(old, new object.Object) {
	w.forgetPodLabels(old, new)
	w.observer.wrote(w.actor, old, new)
	w.check.checkWrite(w.actor, old, new)
}

// view returns the cached objects of a kind. A cache may be stale, but never goes back in time.
func (w *world) view(k kind) snapshot {
	w.seen[k] = max(w.seen[k], w.store.newest()-w.lag[k])
	return w.store.at(w.seen[k])
}

// spendWrite counts a write. The process may crash before the write.
func (w *world) spendWrite(what string) error {
	if w.writesBeforeFreeze == 0 {
		w.stayFrozen()
	}
	if w.writesBeforeFreeze > 0 {
		w.writesBeforeFreeze--
	}
	if w.dead {
		return errCrash
	}
	if w.writesLeft == 0 || w.crashes[w.actor].happensAt(what) {
		w.observer.died(w.actor, what)
		w.writesLeft, w.died, w.dead = -1, true, true
		return errCrash
	}
	if w.writesLeft > 0 {
		w.writesLeft--
	}
	return nil
}

// runAs runs a pass as an actor.
func (w *world) runAs(actor string, pass func() error) {
	before := w.actor
	w.actor, w.dead = actor, false
	err := pass()
	w.actor = before
	if err == nil && w.writesLeft >= 0 {
		err = errCrash // the process crashes after its last write
		w.writesLeft = -1
	}
	if err != nil && !errors.Is(err, errConflict) && !errors.Is(err, errCrash) {
		w.check.violate("erred", "%s: %v", actor, err)
	}
}
