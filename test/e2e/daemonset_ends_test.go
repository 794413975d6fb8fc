// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// Case 76: deleting the Rollout half-way replaces no pod, as clients of OpenKruise
// expect it of DaemonSets. Its owner goes on with one word.
func daemonsDeleted(t *testing.T) {
	t.Parallel()
	s := startDaemons(t, 3, false, nil, manual("1"), manual("100%")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.rollout}}
	if err := here.client.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	s.until("the Rollout is gone", s.gone(&v1beta1.Rollout{}, s.rollout))
	s.stays("no pod is replaced", s.runsPods(versions{"v1": 2, "v2": 1}))
	set := s.stands(byHand, "v2")
	delete(set.Annotations, appsv1.DeprecatedTemplateGeneration)
	s.same("the annotations", map[string]string{}, set.Annotations)
	s.change(`{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}`)
	s.until("all pods run v2", s.runsPods(versions{"v2": 3}))
}

// An aborted version comes up nowhere, also when the Rollout is deleted. The owner's
// strategy is back, since every pod runs the template that stays.
func daemonsDeletedAborted(t *testing.T) {
	t.Parallel()
	s := startDaemons(t, 3, false, nil, manual("1"), manual("100%")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	s.abort()
	s.guard.atMost("v2", 0)
	r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.rollout}}
	if err := here.client.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	s.until("the Rollout is gone", s.gone(&v1beta1.Rollout{}, s.rollout))
	s.joins()
	s.until("the new node has a pod", s.runsPods(versions{"v1": 4}))
	s.stands(rolls, "v1")
}

// A Rollout that is disabled half-way leaves the pods as they are, and waits for
// the owner when it is enabled again.
func daemonsDisabled(t *testing.T) {
	t.Parallel()
	s := startDaemons(t, 3, false, nil, manual("1"), manual("100%")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	s.edit(`{"spec":{"disabled":true}}`)
	s.until("the Rollout is disabled", s.disabled)
	s.stays("no pod is replaced", s.runsPods(versions{"v1": 2, "v2": 1}))
	s.edit(`{"spec":{"disabled":false}}`)
	s.until("it says what it waits for", s.says("not fully released"))
	s.change(`{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}`)
	s.gives("v2")
}

// Pods say which batch brought them; a jump passes over a step.
func daemonsLabelled(t *testing.T) {
	t.Parallel()
	s := startDaemons(t, 4, false, nil, manual("1"), manual("2"), manual("3"), manual("100%")).serve()
	s.change(fmt.Sprintf(`{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":"one"}},
		"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, name, image("v2")))
	s.step(1, 1, "v2")
	s.sees(s.labelled("one", map[string]int{"1": 1}))
	s.post(here.admin, "jump", `{"step":3}`, http.StatusCreated)
	s.step(3, 3, "v2")
	s.sees(s.labelled("one", map[string]int{"1": 1, "2": 1, "3": 1}))
	s.promote(3)
	s.until("all pods run v2", s.runsPods(versions{"v2": 4}))
	s.until("the Rollout is Healthy", s.healthy)
	s.sees(s.labelled("one", map[string]int{"1": 1, "2": 1, "3": 1, "4": 1}))
}

// An owner who deletes pods by hand may leave that to a Rollout, and gets his
// strategy back.
func daemonsOnDelete(t *testing.T) {
	t.Parallel()
	s := startDaemons(t, 3, false, func(set *appsv1.DaemonSet) {
		set.Spec.UpdateStrategy.Type = byHand
	}, manual("1"), manual("100%")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	s.promote(1)
	s.gives("v2")
}

// With a surge no node is ever without its pod. That is not to be had in steps, so
// nothing is held, and the Rollout says so.
func daemonsSurge(t *testing.T) {
	t.Parallel()
	s := startDaemons(t, 3, false, func(set *appsv1.DaemonSet) {
		set.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: rolls, RollingUpdate: &appsv1.RollingUpdateDaemonSet{
			MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(0)),
		}}
	}, manual("1"), manual("100%"))
	s.until("the Rollout says what it needs", s.says("maxSurge"))
	s.ships("v2")
	s.until("it is released natively", s.runsPods(versions{"v2": 3}))
	s.change(`{"spec":{"updateStrategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}}}`)
	s.serve()
	s.ships("v3")
	s.until("step 1 waits", s.waitsAt(1))
	s.sees(s.runsPods(versions{"v2": 2, "v3": 1}))
}

// Where no node is to have a pod there is nothing to hold.
func daemonsNowhere(t *testing.T) {
	t.Parallel()
	s := startDaemons(t, 0, false, nil, manual("1"), manual("100%"))
	s.until("the Rollout is Healthy", s.healthy)
	s.ships("v2")
	s.until("it was held, and is given back", func(context.Context) error {
		if set := s.set(); set.Spec.UpdateStrategy.Type != rolls || set.Annotations["rollouts.kruise.io/in-progressing"] != "" {
			return fmt.Errorf("it is %s, with %v", set.Spec.UpdateStrategy.Type, set.Annotations)
		}
		return nil
	})
	s.stands(rolls, "v2")
	s.joins()
	s.until("a node has a pod", s.runsPods(versions{"v2": 1}))
	s.sees(s.healthy)
	s.ships("v3")
	s.until("step 1 waits", s.waitsAt(1))
}
