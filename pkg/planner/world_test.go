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

// errCrash ends a pass as the death of its process would.
var errCrash = errors.New("crash")

// world is a cluster with one workload, its Rollout, and everybody who acts on
// them. Adapters, providers, admission, planner and the passes of the controllers
// run for real. Whoever drives the world decides who acts next, how old a view is and when somebody dies.
type world struct {
	now   time.Time
	store *store
	// seen is the moment that the caches have reached, by kind, and lag how far
	// behind the newest they may stay in the next pass.
	seen map[kind]int
	lag  map[kind]int
	// writesLeft is how many writes are left until the acting process dies; endless
	// when negative.
	writesLeft int
	// crashes kill an actor before what they name.
	crashes map[string]*plannedCrash
	// refused is why the server refused the last edit.
	refused string
	// actor is who writes at the moment.
	actor string
	// idle is the moment at which the native controller had nothing to do.
	idle int
	// rule is what decided the last pass over the Rollout, and died whether
	// somebody died since it was last cleared.
	rule string
	died bool
	// dead reports whether the acting process has died in this pass.
	dead bool
	// isFromStored reports whether what is done now follows from what is stored.
	isFromStored bool
	// routingWake is when a TrafficRouting wants to be woken, in the last round.
	routingWake time.Duration
	// otherReleases is who routes by what the Rollout names, and has no pass here.
	otherReleases []traffic.OtherRelease
	// scheduled reports whether a schedule is played.
	scheduled bool
	// measures are what the sources of metrics know.
	measures measuredWorld
	// actionCount counts actions since it was last cleared.
	actionCount int
	// podLabels are the labels of pods, by their name.
	podLabels map[string]planner.PodLabel
	// historyWrites counts the writes made for histories alone.
	historyWrites int
	// observer gets what happens, for people.
	observer observer
	// check gets what happens, for the invariants.
	check *invariants
}

// plannedCrash is a death before the next commit or effect, or before each.
type plannedCrash struct {
	what string
	each bool
	// wasTried reports whether this one was tried before, and is spared now.
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
	w := &world{now: start, seen: map[kind]int{}, lag: map[kind]int{}, writesLeft: -1, crashes: map[string]*plannedCrash{}, podLabels: map[string]planner.PodLabel{}, observer: tell, check: check}
	check.w = w
	w.store = newStore(func() time.Time { return w.now })
	w.store.wrote = w.wrote
	return w
}

// fork is a world that goes its own way from here.
func (w *world) fork(tell observer, check *invariants) *world {
	f := newWorld(w.now, tell, check)
	now := f.store.now
	f.store = w.store.fork()
	f.store.now, f.store.wrote = now, f.wrote
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

// view is what the caches show of a kind. They may be late, but never go back.
func (w *world) view(k kind) snapshot {
	w.seen[k] = max(w.seen[k], w.store.newest()-w.lag[k])
	return w.store.at(w.seen[k])
}

// spendWrite is a write on the way to the server; the process may die instead.
func (w *world) spendWrite(what string) error {
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

// runAs runs a pass in somebody's name.
func (w *world) runAs(actor string, pass func() error) {
	before := w.actor
	w.actor, w.dead = actor, false
	err := pass()
	w.actor = before
	if err == nil && w.writesLeft >= 0 {
		err = errCrash // it got everything done before it died
		w.writesLeft = -1
	}
	if err != nil && !errors.Is(err, errConflict) && !errors.Is(err, errCrash) {
		w.check.violate("erred", "%s: %v", actor, err)
	}
}
