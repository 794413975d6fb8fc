// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/traffic"
)

// TrafficRoutings in the world: who owns them, and who runs passes over them.

// routeBy creates a TrafficRouting.
func (w *world) routeBy(name string, ref []rollouts.TrafficRoutingRef, share int32) {
	r := &rollouts.TrafficRouting{ObjectMeta: metav1.ObjectMeta{Name: name}}
	r.Spec.ObjectRef = ref
	r.Spec.Strategy.Weight = &share
	w.tell.did("creates the trafficrouting")
	w.as("user", func() error { return w.store.create(r) })
}

// reroute edits the strategy of a TrafficRouting.
func (w *world) reroute(name string, share int32) bool {
	r := find[*rollouts.TrafficRouting](w.store.objects, kindRouting, name)
	if r == nil || r.DeletionTimestamp != nil {
		return false
	}
	next := clone(r)
	next.Spec.Strategy.Weight = &share
	w.tell.did(fmt.Sprintf("wants %d%%", share))
	w.as("user", func() error { return w.store.update(next) })
	return true
}

// routingOf is what a Rollout sees of TrafficRoutings. That it has no mark on
// one is asked of the server.
func (w *world) routingOf(r *rollouts.Rollout) *planner.Routing {
	_, release := r.Spec.Strategy.Active()
	name := release.TrafficRouting()
	facts := routingFacts(w.view(kindRouting), name, r.Name)
	if facts == nil || facts.Linked {
		return facts
	}
	return routingFacts(w.store.objects, name, r.Name)
}

func routingFacts(s snapshot, name, user string) *planner.Routing {
	var strays []string
	for _, other := range each[*rollouts.TrafficRouting](s) {
		if other.Name != name && slices.Contains(other.Finalizers, planner.ProgressingFinalizer(user)) {
			strays = append(strays, other.Name)
		}
	}
	return planner.RoutingFacts(name, user, find[*rollouts.TrafficRouting](s, kindRouting, name), strays)
}

// link marks a TrafficRouting, or takes the mark off.
func (w *world) link(name, finalizer string, on bool) error {
	r := find[*rollouts.TrafficRouting](w.store.objects, kindRouting, name)
	if r == nil || on && r.DeletionTimestamp != nil || on == slices.Contains(r.Finalizers, finalizer) {
		return nil
	}
	next := clone(r)
	next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == finalizer })
	if on {
		next.Finalizers = append(next.Finalizers, finalizer)
	}
	return w.write(object.Change{Base: r, Want: next})
}

// routingPass is one pass of the TrafficRouting controller; it returns when that
// wants to be woken.
func (w *world) routingPass(name string) (wake time.Duration) {
	w.as("routing", func() error {
		r := find[*rollouts.TrafficRouting](w.view(kindRouting), kindRouting, name)
		if r == nil {
			return nil
		}
		facts, net := w.observeRouting(r)
		plan := w.check.routing(facts)
		wake = plan.Wake
		if len(plan.Actions) > 0 || !equality.Semantic.DeepEqual(r.Status, plan.Status) {
			next := clone(r)
			next.Status = plan.Status
			if err := w.commit(next); err != nil {
				return err
			}
			w.tell.routingPlanned(r, plan)
		}
		for _, a := range plan.Actions {
			w.acts++
			w.tell.acted(a)
			if err := w.routingAct(name, net, a); err != nil {
				return err
			}
		}
		return nil
	})
	return wake
}

func (w *world) observeRouting(r *rollouts.TrafficRouting) (planner.RoutingObserved, traffic.Objects) {
	ref := r.Spec.ObjectRef[0]
	services := w.view(kindService)
	o := &observation{net: traffic.Objects{
		Owner: *metav1.NewControllerRef(r, wire("TrafficRouting")), Shared: true,
		Stable:        types.NamespacedName{Name: ref.Service},
		Service:       find[*corev1.Service](services, kindService, ref.Service),
		CanaryService: find[*corev1.Service](services, kindService, ref.Service+rollouts.CanarySuffix),
		Routers:       traffic.Routers(ref, "spec.objectRef[0]"),
	}}
	if !planner.Routes(r) {
		o.net.Originals = []string{}
	}
	for i := range o.net.Routers {
		w.observeRouter(o, &o.net.Routers[i])
	}
	seen := traffic.Observe(o.net, ref, planner.RoutingStep(r))
	return planner.RoutingObserved{Now: w.now, Routing: r, Route: &seen, Gone: w.goneUsers(r)}, o.net
}

// goneUsers are Rollouts that neither the cache nor the server knows.
func (w *world) goneUsers(r *rollouts.TrafficRouting) []string {
	var gone []string
	for _, f := range r.Finalizers {
		name, ok := strings.CutPrefix(f, rollouts.FinalizerProgressing+"/")
		k := key{kindRollout, name}
		if ok && w.view(kindRollout)[k] == nil && w.store.objects[k] == nil {
			gone = append(gone, name)
		}
	}
	return gone
}

func (w *world) routingAct(name string, net traffic.Objects, action planner.Action) error {
	switch a := action.(type) {
	case planner.RemoveStaleReference:
		return w.link(name, planner.ProgressingFinalizer(a.Rollout), false)
	case planner.Guard:
		return w.link(name, rollouts.FinalizerTrafficRouting, true)
	case planner.DropFinalizer:
		return w.link(name, rollouts.FinalizerTrafficRouting, false)
	}
	changes, err := route(&observation{net: net}, action)
	if err != nil {
		return err
	}
	return w.write(changes...)
}

// routing is deterministic, as planning a Rollout is.
func (c *checks) routing(o planner.RoutingObserved) planner.RoutingPlan {
	c.begin("routing", o.Routing)
	before := o
	before.Routing = o.Routing.DeepCopy()
	p, q := planner.TrafficRouting(o), planner.TrafficRouting(before)
	if !equal.DeepEqual(p, q) || !equal.DeepEqual(o, before) {
		c.violate("deterministic", "plans of one trafficrouting:\n%+v\n%+v", p, q)
	}
	if at := p.Status.LastUpdateTime; at != nil && at.Nanosecond() != 0 {
		c.violate("persist first", "trafficrouting stores %s, of which the wire keeps the seconds", at)
	}
	return p
}

// together: a TrafficRouting is at rest no later than the only Rollout that used it,
// but for one whose next release is to begin: that one waits.
func (c *checks) together(r *rollouts.Rollout) {
	_, release := r.Spec.Strategy.Active()
	t := find[*rollouts.TrafficRouting](c.w.store.objects, kindRouting, release.TrafficRouting())
	leaves := c.lost && r.Status.Phase == rollouts.PhaseDisabling // aborted as far as it can be
	over := r.Status.Phase == rollouts.PhaseHealthy || r.Status.Activity() == rollouts.ActivityAborted && !leaves
	w := c.workload()
	begins := w != nil && w.GetAnnotations()[rollouts.AnnotationInProgress] != "" && r.Status.Phase == rollouts.PhaseHealthy
	if t == nil || !over || begins || r.DeletionTimestamp != nil {
		return
	}
	others := slices.ContainsFunc(t.Finalizers, func(f string) bool {
		return strings.HasPrefix(f, rollouts.FinalizerProgressing) && f != planner.ProgressingFinalizer(r.Name)
	})
	if busy := t.Status.Phase == rollouts.PhaseProgressing || t.Status.Phase == rollouts.PhaseFinalizing; busy && !others {
		c.violate("together", "the rollout is %s, and trafficrouting %s still %s", headOf(r.Status), t.Name, t.Status.Phase)
	}
}

func (t *transcript) routingPlanned(r *rollouts.TrafficRouting, p planner.RoutingPlan) {
	if was, is := r.Status, p.Status; was.Phase != is.Phase || was.Message != is.Message {
		t.line("routing", "%s -> %s, %q", r.Name, is.Phase, is.Message)
	}
	for _, e := range p.Events {
		if e.Warning {
			t.under("warning", "%s: %s", e.Reason, e.Message)
		} else {
			t.under("event", "%s", e.Reason)
		}
	}
}

func (nobody) routingPlanned(*rollouts.TrafficRouting, planner.RoutingPlan) {}

func (t *transcript) showRoutings() {
	for _, r := range each[*rollouts.TrafficRouting](t.w.store.objects) {
		var users []string
		for _, f := range r.Finalizers {
			if user, ok := strings.CutPrefix(f, rollouts.FinalizerProgressing+"/"); ok {
				users = append(users, user)
			}
		}
		t.under("routing", "%s %s, routed %t, used by %s", r.Name, r.Status.Phase, r.Status.Routed, users)
	}
}

func (s *story) routeBy(c command) {
	ref := routingBy(kindOf(c.get("by", "ingress")), c.get("service", c.words[1]), s.duration(c.get("grace", "3s")))
	s.w.routeBy(c.words[1], ref, s.number(c.get("weight", "20")))
}

func (s *story) reroute(c command) {
	if !s.w.reroute(c.words[1], s.number(c.get("weight", "50"))) {
		s.t.under("edit", "not found")
	}
}

// serveRouting makes the TrafficRouting anew that was deleted.
func (e *end) serveRouting() {
	r := e.rollout()
	if r == nil {
		return
	}
	_, release := r.Spec.Strategy.Active()
	name := release.TrafficRouting()
	if t := find[*rollouts.TrafficRouting](e.store.objects, kindRouting, name); t != nil && t.DeletionTimestamp != nil {
		e.settle() // until it is gone
	}
	if name != "" && e.store.objects[key{kindRouting, name}] == nil {
		e.routeBy(name, routing(app0, 0), 20)
	}
}
