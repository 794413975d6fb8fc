// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/routing"
)

// TrafficRoutings in the world: their owners and their controller.

// createTrafficRouting creates a TrafficRouting.
func (w *world) createTrafficRouting(name string, ref []rollouts.TrafficRoutingRef, share int32) {
	r := &rollouts.TrafficRouting{ObjectMeta: metav1.ObjectMeta{Name: name}}
	r.Spec.ObjectRef = ref
	r.Spec.Strategy.Weight = &share
	w.observer.did("creates the trafficrouting")
	w.runAs("user", func() error { return w.store.create(r) })
}

// editTrafficRouting edits the weight of a TrafficRouting.
func (w *world) editTrafficRouting(name string, share int32) bool {
	r := find[*rollouts.TrafficRouting](w.store.objects, kindRouting, name)
	if r == nil || r.DeletionTimestamp != nil {
		return false
	}
	next := clone(r)
	next.Spec.Strategy.Weight = &share
	w.observer.did(fmt.Sprintf("wants %d%%", share))
	w.runAs("user", func() error { return w.store.update(next) })
	return true
}

// decideRouting plans a TrafficRouting, and checks that the plan is deterministic.
func (c *invariants) decideRouting(o routing.Observed) {
	c.notePlanned("routing", o.Routing)
	d := deterministic(c, "trafficrouting", o, func(o routing.Observed) routing.Observed {
		o.Routing = o.Routing.DeepCopy()
		return o
	}, routing.Decide)
	if at := d.Status.LastUpdateTime; at != nil && at.Nanosecond() != 0 {
		c.violate("persist first", "trafficrouting stores %s, of which the wire keeps the seconds", at)
	}
}

// checkRoutingRests checks the invariant "together": a TrafficRouting is at rest when the only
// Rollout that used it is at rest. The exception is a Rollout whose next release is about to begin.
func (c *invariants) checkRoutingRests(r *rollouts.Rollout) {
	_, release := r.Spec.Strategy.Active()
	t := find[*rollouts.TrafficRouting](c.w.store.objects, kindRouting, release.TrafficRouting())
	leaves := c.excusesLostStable && r.Status.Phase == rollouts.PhaseDisabling // the release is aborted as far as possible
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

func (t *transcript) routingPlanned(r *rollouts.TrafficRouting, p routingPlan) {
	if was, is := r.Status, p.Status; was.Phase != is.Phase || was.Message != is.Message {
		t.printLine("routing", "%s -> %s, %q", r.Name, is.Phase, is.Message)
	}
	t.printEvents(p.Events)
}

func (silentObserver) routingPlanned(*rollouts.TrafficRouting, routingPlan) {}

func (t *transcript) showRoutings() {
	for _, r := range listOf[*rollouts.TrafficRouting](t.w.store.objects) {
		var users []string
		for _, f := range r.Finalizers {
			if user, ok := strings.CutPrefix(f, rollouts.FinalizerProgressing+"/"); ok {
				users = append(users, user)
			}
		}
		t.printUnder("routing", "%s %s, routed %t, used by %s", r.Name, r.Status.Phase, r.Status.Routed, users)
	}
}

func (s *story) routeBy(c command) {
	ref := routingBy(kindOf(c.get("by", "ingress")), c.get("service", c.words[1]), s.duration(c.get("grace", "3s")))
	s.w.createTrafficRouting(c.words[1], ref, s.number(c.get("weight", "20")))
}

func (s *story) reroute(c command) {
	if !s.w.editTrafficRouting(c.words[1], s.number(c.get("weight", "50"))) {
		s.t.printUnder("edit", "not found")
	}
}

// recreateTrafficRouting creates a deleted TrafficRouting again.
func (e *releaseEnd) recreateTrafficRouting() {
	r := e.rollout()
	if r == nil {
		return
	}
	_, release := r.Spec.Strategy.Active()
	name := release.TrafficRouting()
	if t := find[*rollouts.TrafficRouting](e.store.objects, kindRouting, name); t != nil && t.DeletionTimestamp != nil {
		e.settle() // until it is deleted
	}
	if name != "" && e.store.objects[key{kindRouting, name}] == nil {
		e.createTrafficRouting(name, ingressOf(app0, 0), 20)
	}
}
