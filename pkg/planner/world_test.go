// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/batch"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
	"github.com/weir-rollouts/weir/pkg/traffic"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// errCrash ends a pass as the death of its process would.
var errCrash = errors.New("crash")

// world is a cluster with one workload, its Rollout, and everybody who acts on
// them. Adapters, providers, admission and planner run for real; a pass here
// carries out what it decided the way the controllers do. Whoever drives the
// world decides who acts next, how old a view is and when somebody dies.
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
	// actor is who writes at the moment.
	actor string
	// idle is the moment at which the native controller had nothing to do.
	idle int
	// rule is what decided the last pass over the Rollout, and died whether
	// somebody died since it was last cleared.
	rule string
	died bool
	// soon is when a TrafficRouting wants to be woken, in the last round.
	soon time.Duration
	// elsewhere is who routes by what the Rollout names, and has no pass here.
	elsewhere []traffic.Other
	// acts counts actions since it was last cleared.
	acts int
	// marks are the labels of pods, by their name.
	marks map[string]planner.Mark
	// filed counts the writes made for histories alone.
	filed int
	// tell gets what happens, for people.
	tell teller
	// check gets what happens, for the invariants.
	check *checks
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
	planned(r *rollouts.Rollout, p planner.Plan)
	batchPlanned(b *rollouts.BatchRelease, p batch.Plan)
	routingPlanned(r *rollouts.TrafficRouting, p planner.RoutingPlan)
	sized(s sizes.Scale)
	acted(a planner.Action)
	wrote(actor string, old, new object.Object)
	died(actor, what string)
	did(what string)
}

func newWorld(start time.Time, tell teller, check *checks) *world {
	w := &world{now: start, seen: map[kind]int{}, lag: map[kind]int{}, life: -1, dooms: map[string]*doom{}, marks: map[string]planner.Mark{}, tell: tell, check: check}
	check.w = w
	w.store = newStore(func() time.Time { return w.now })
	w.store.wrote = w.wrote
	return w
}

// fork is a world that goes its own way from here.
func (w *world) fork(tell teller, check *checks) *world {
	f := newWorld(w.now, tell, check)
	now := f.store.now
	f.store = w.store.fork()
	f.store.now, f.store.wrote = now, f.wrote
	f.marks = maps.Clone(w.marks)
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
	if w.life == 0 || w.dooms[w.actor].strikes(what) {
		w.tell.died(w.actor, what)
		w.life, w.died = -1, true
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
	w.actor = actor
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

// observation is the view of one pass.
type observation struct {
	rollout  *rollouts.Rollout
	batch    *rollouts.BatchRelease
	workload object.Object
	seen     workload.Seen
	owned    []object.Object
	row      workload.Row
	net      traffic.Objects
	facts    planner.Observed
	index    *corev1.ConfigMap
	key      string
}

func (w *world) observeWorkload(ref *rollouts.ObjectRef, style rollouts.Style, known planner.Known) (row workload.Row, seen workload.Seen, owned []object.Object) {
	row, ok := workload.Find(ref.APIVersion, ref.Kind, style)
	if !ok {
		panic("no row for " + ref.Kind)
	}
	k := kindOf(ref.Kind)
	o := find[object.Object](w.view(k), k, ref.Name)
	if o == nil {
		return row, seen, nil
	}
	owners := []metav1.Object{o}
	if row.Extra {
		for _, e := range row.Extras(o, all(w.view(k), k), known) {
			owners, owned = append(owners, e), append(owned, e)
		}
	}
	for _, gvk := range row.Owns {
		k := ownedKinds[gvk.Kind]
		for _, own := range all(w.view(k), k) {
			if ownedBy(own, owners) {
				owned = append(owned, own)
			}
		}
	}
	seen = row.See(o, owned, known)
	seen.Rival, _ = row.Rival(seen.Object, owned, func(name string) (object.Object, error) {
		return find[object.Object](w.view(k), k, name), nil
	})
	return row, seen, owned
}

// ownedKinds are what workloads own.
var ownedKinds = map[string]kind{"ReplicaSet": kindSet, "ControllerRevision": kindRevision, "Pod": kindPod}

func ownedBy(o metav1.Object, owners []metav1.Object) bool {
	return slices.ContainsFunc(owners, func(owner metav1.Object) bool { return metav1.IsControlledBy(o, owner) })
}

func (w *world) observe(name string) *observation {
	ro := find[*rollouts.Rollout](w.view(kindRollout), kindRollout, name)
	if ro == nil {
		return nil
	}
	o := &observation{rollout: ro, facts: planner.Observed{Now: w.now, Rollout: ro}}
	switch b := find[*rollouts.BatchRelease](w.view(kindBatch), kindBatch, name); {
	case planner.Owns(ro, b):
		o.batch, o.facts.Batch = b, planner.BatchFacts(b)
	case b != nil:
		o.facts.Occupied = planner.Occupied(b)
	}
	if planner.Unbound(ro) {
		w.lag[kindOf(ro.Spec.WorkloadRef.Kind)] = 0
	}
	o.row, o.seen, o.owned = w.observeWorkload(ro.Spec.WorkloadRef, rollouts.StyleFor(&ro.Spec.Strategy, ro.Spec.WorkloadRef), planner.KnownOf(ro, o.batch))
	if o.workload = o.seen.Object; o.workload != nil {
		facts := o.row.Facts(o.seen, o.owned)
		o.facts.Workload = &facts
	}
	w.observeIndex(o)
	w.observeTraffic(o)
	o.facts.Routing = w.routingOf(ro)
	o.facts.Histories = w.histories(ro)
	return o
}

func (w *world) observeIndex(o *observation) {
	ref := o.rollout.Spec.WorkloadRef
	o.index = find[*corev1.ConfigMap](w.view(kindIndex), kindIndex, rollouts.IndexName)
	o.key = workload.IndexKey(o.row.GVK.GroupKind(), ref.Name)
	entries := workload.Entries(o.index, o.rollout.Name)
	o.facts.Listed, o.facts.Indexed = len(entries) > 0, slices.Equal(entries, []string{o.key})
}

// rolloutPass is one pass of the Rollout controller; it returns when that
// wants to be woken.
func (w *world) rolloutPass(name string) (wake time.Duration) {
	w.as("rollout", func() error {
		o := w.observe(name)
		if o == nil {
			return nil
		}
		plan := w.check.rollout(o.facts)
		wake, w.rule = plan.Wake, plan.Rule
		filings := planner.Filings(plan.Status, o.facts.Histories)
		if len(plan.Actions)+len(filings) > 0 || !equality.Semantic.DeepEqual(o.rollout.Status, plan.Status) {
			next := clone(o.rollout)
			next.Status = plan.Status
			if err := w.commit(next); err != nil {
				return err
			}
			if onlyRecord(o.rollout.Status, plan.Status) {
				w.filed++
			}
			w.tell.planned(o.rollout, plan)
			o.rollout = find[*rollouts.Rollout](w.store.objects, kindRollout, name)
		}
		if err := w.file(o, filings); err != nil {
			return err
		}
		for _, a := range plan.Actions {
			if err := w.act(o, a); err != nil {
				return err
			}
		}
		return nil
	})
	return wake
}

// commit stores a status at the version that it was planned from.
func (w *world) commit(next object.Object) error {
	if err := w.spend(committing); err != nil {
		return err
	}
	if err := w.store.updateStatus(next); err != nil {
		return err
	}
	w.check.commit(w.actor, next)
	return nil
}

func (w *world) act(o *observation, action planner.Action) error {
	w.acts++
	w.tell.acted(action)
	switch a := action.(type) {
	case planner.RunBatch:
		return w.runBatch(o, a.Plan)
	case planner.ReleaseBatch:
		return w.write(object.Change{Base: o.batch})
	case planner.Link:
		return w.link(a.Name, planner.ProgressingFinalizer(o.rollout.Name), true)
	case planner.Unlink:
		return w.link(a.Name, planner.ProgressingFinalizer(o.rollout.Name), false)
	case planner.DropFinalizer:
		next := clone(o.rollout)
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == rollouts.FinalizerRollout })
		return w.write(object.Change{Base: o.rollout, Want: next})
	case planner.Index:
		return w.write(workload.Enter(o.index, o.rollout.Namespace, map[string]string{o.rollout.Name: o.key})...)
	case planner.Unindex:
		return w.write(workload.Enter(o.index, o.rollout.Namespace, map[string]string{o.rollout.Name: ""})...)
	}
	if changes, ok := onWorkload(o, action); ok {
		return w.write(o.seen.Changes(changes)...)
	}
	changes, err := route(o, action)
	if err != nil {
		return err
	}
	return w.write(changes...)
}

func onWorkload(o *observation, action planner.Action) ([]object.Change, bool) {
	switch a := action.(type) {
	case planner.Label:
		return o.row.Label(o.workload), true
	case planner.Unlabel:
		return o.row.Unlabel(o.workload), true
	case planner.Hold:
		return o.row.Take(o.workload, o.rollout.Name, a.Again), true
	case planner.ApplyPendingEdit:
		return o.row.ApplyPendingEdit(o.workload), true
	case planner.PutRight:
		return nil, true
	case planner.RestoreWorkload:
		return o.row.Restore(o.workload, o.owned, a), true
	case planner.AskAgain:
		return workload.AskAgain(o.workload, a), true
	case planner.SetStable:
		return o.row.SetStable(o.workload, o.owned), true
	default:
		return nil, false
	}
}

func (w *world) runBatch(o *observation, plan rollouts.ReleasePlan) error {
	change := object.Change{}
	b := &rollouts.BatchRelease{ObjectMeta: metav1.ObjectMeta{
		Name: o.rollout.Name, Finalizers: []string{rollouts.FinalizerBatchRelease},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o.rollout, wire("Rollout"))},
	}}
	if o.batch != nil {
		change.Base, b = o.batch, clone(o.batch)
	}
	b.Spec.WorkloadRef, b.Spec.Plan = o.rollout.Spec.WorkloadRef.DeepCopy(), plan
	change.Want = b
	return w.write(change)
}

func wire(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: rollouts.GroupName, Version: "v1beta1", Kind: kind}
}

// write performs changes in order and stops at the first that fails.
func (w *world) write(changes ...object.Change) error {
	for _, c := range changes {
		if err := w.spend(acting); err != nil {
			return err
		}
		w.check.effect(w.actor)
		w.check.useful(w.actor, c)
		var err error
		switch {
		case c.Base == nil:
			err = w.store.create(c.Want)
		case c.Want != nil:
			err = w.store.update(w.store.despiteStatus(c.Base, typed(c.Want)))
		case keyOf(c.Base).kind == kindBatch:
			err = w.store.remove(c.Base)
		default:
			err = w.store.removeAt(c.Base)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
