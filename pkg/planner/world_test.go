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
	// life is how many writes are left until the acting process dies; endless
	// when negative.
	life int
	// dooms kill an actor before what they name.
	dooms map[string]*doom
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
	// follows reports whether what is done now follows from what is stored.
	follows bool
	// soon is when a TrafficRouting wants to be woken, in the last round.
	soon time.Duration
	// elsewhere is who routes by what the Rollout names, and has no pass here.
	elsewhere []traffic.OtherRelease
	// scheduled reports whether a schedule is played.
	scheduled bool
	// measures are what the sources of metrics know.
	measures measuredWorld
	// acts counts actions since it was last cleared.
	acts int
	// marks are the labels of pods, by their name.
	marks map[string]planner.PodLabel
	// filed counts the writes made for histories alone.
	filed int
	// tell gets what happens, for people.
	tell teller
	// check gets what happens, for the invariants.
	check *invariants
}

// doom is a death before the next commit or effect, or before each.
type doom struct {
	what string
	each bool
	// died reports whether this one was tried before, and is spared now.
	died bool
}

func (d *doom) strikes(what string) bool {
	if d == nil || d.what != what {
		return false
	}
	strikes := !d.died
	d.died = !d.died || !d.each
	return strikes
}

const (
	committing = "commit"
	acting     = "effect"
)

type teller interface {
	planned(r *rollouts.Rollout, d planner.Decision)
	batchPlanned(p batchPlan)
	routingPlanned(r *rollouts.TrafficRouting, d routingPlan)
	sized(s sizes.Scale)
	acted(a planner.Effect)
	wrote(actor string, old, new object.Object)
	died(actor, what string)
	did(what string)
}

func newWorld(start time.Time, tell teller, check *invariants) *world {
	w := &world{now: start, seen: map[kind]int{}, lag: map[kind]int{}, life: -1, dooms: map[string]*doom{}, marks: map[string]planner.PodLabel{}, tell: tell, check: check}
	check.w = w
	w.store = newStore(func() time.Time { return w.now })
	w.store.wrote = w.wrote
	return w
}

// fork is a world that goes its own way from here.
func (w *world) fork(tell teller, check *invariants) *world {
	f := newWorld(w.now, tell, check)
	now := f.store.now
	f.store = w.store.fork()
	f.store.now, f.store.wrote = now, f.wrote
	f.marks = maps.Clone(w.marks)
	f.scheduled = w.scheduled
	f.measures.shared, f.measures.answers = w.measures.shared, w.measures.answers
	return f
}

func (w *world) wrote(old, new object.Object) {
	w.unmark(old, new)
	w.tell.wrote(w.actor, old, new)
	w.check.wrote(w.actor, old, new)
}

// view is what the caches show of a kind. They may be late, but never go back.
func (w *world) view(k kind) snapshot {
	w.seen[k] = max(w.seen[k], w.store.newest()-w.lag[k])
	return w.store.at(w.seen[k])
}

// spend is a write on the way to the server; the process may die instead.
func (w *world) spend(what string) error {
	if w.dead {
		return errCrash
	}
	if w.life == 0 || w.dooms[w.actor].strikes(what) {
		w.tell.died(w.actor, what)
		w.life, w.died, w.dead = -1, true, true
		return errCrash
	}
	if w.life > 0 {
		w.life--
	}
	return nil
}

// as runs a pass in somebody's name.
func (w *world) as(actor string, pass func() error) {
	before := w.actor
	w.actor, w.dead = actor, false
	err := pass()
	w.actor = before
	if err == nil && w.life >= 0 {
		err = errCrash // it got everything done before it died
		w.life = -1
	}
	if err != nil && !errors.Is(err, errMoved) && !errors.Is(err, errCrash) {
		w.check.violate("erred", "%s: %v", actor, err)
	}
}
