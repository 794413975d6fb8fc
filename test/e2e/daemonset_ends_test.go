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

// Case 76: deleting the Rollout during a release replaces no pod, as clients of OpenKruise expect
// for DaemonSets. The owner continues the release by setting the strategy.
func daemonSetRolloutDeleted(t *testing.T) {
	t.Parallel()
	s := startDaemonSetApp(t, 3, false, nil, manualStep("1"), manualStep("100%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.rollout}}
	if err := testEnv.client.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	s.eventually("the Rollout is gone", s.isGone(&v1beta1.Rollout{}, s.rollout))
	s.consistently("no pod is replaced", s.runsPods(versions{"v1": 2, "v2": 1}))
	set := s.checkStrategy(onDelete, "v2")
	delete(set.Annotations, appsv1.DeprecatedTemplateGeneration)
	s.checkEqual("the annotations", map[string]string{}, set.Annotations)
	s.patchDaemonSet(`{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}`)
	s.eventually("all pods run v2", s.runsPods(versions{"v2": 3}))
}

// daemonSetDeletedAfterAbort deletes the Rollout after an abort. No node gets the aborted version.
// The owner's strategy is restored, because every pod runs the template that stays.
func daemonSetDeletedAfterAbort(t *testing.T) {
	t.Parallel()
	s := startDaemonSetApp(t, 3, false, nil, manualStep("1"), manualStep("100%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.abort()
	s.guard.atMost("v2", 0)
	r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.rollout}}
	if err := testEnv.client.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	s.eventually("the Rollout is gone", s.isGone(&v1beta1.Rollout{}, s.rollout))
	s.joinNode()
	s.eventually("the new node has a pod", s.runsPods(versions{"v1": 4}))
	s.checkStrategy(rollingUpdate, "v1")
}

// daemonSetRolloutDisabled disables the Rollout during a release. The pods stay as they are, and
// the enabled Rollout waits until the owner completes the release.
func daemonSetRolloutDisabled(t *testing.T) {
	t.Parallel()
	s := startDaemonSetApp(t, 3, false, nil, manualStep("1"), manualStep("100%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.patchRollout(`{"spec":{"disabled":true}}`)
	s.eventually("the Rollout is disabled", s.isDisabled)
	s.consistently("no pod is replaced", s.runsPods(versions{"v1": 2, "v2": 1}))
	s.patchRollout(`{"spec":{"disabled":false}}`)
	s.eventually("the Rollout reports what it waits for", s.messageContains("not fully released"))
	s.patchDaemonSet(`{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}`)
	s.awaitRestored("v2")
}

// daemonSetBatchLabels checks that pods are labelled with their batch, and that a jump skips a
// step.
func daemonSetBatchLabels(t *testing.T) {
	t.Parallel()
	s := startDaemonSetApp(t, 4, false, nil, manualStep("1"), manualStep("2"), manualStep("3"), manualStep("100%")).createRollout()
	s.patchDaemonSet(fmt.Sprintf(`{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":"one"}},
		"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, name, image("v2")))
	s.checkStep(1, 1, "v2")
	s.checkNow(s.podsHaveBatchLabels("one", map[string]int{"1": 1}))
	s.post(testEnv.admin, "jump", `{"step":3}`, http.StatusCreated)
	s.checkStep(3, 3, "v2")
	s.checkNow(s.podsHaveBatchLabels("one", map[string]int{"1": 1, "2": 1, "3": 1}))
	s.promote(3)
	s.eventually("all pods run v2", s.runsPods(versions{"v2": 4}))
	s.eventually("the Rollout is Healthy", s.isHealthy)
	s.checkNow(s.podsHaveBatchLabels("one", map[string]int{"1": 1, "2": 1, "3": 1, "4": 1}))
}

// daemonSetOnDelete has the strategy OnDelete. A Rollout releases it step by step, and restores the
// strategy at the end.
func daemonSetOnDelete(t *testing.T) {
	t.Parallel()
	s := startDaemonSetApp(t, 3, false, func(set *appsv1.DaemonSet) {
		set.Spec.UpdateStrategy.Type = onDelete
	}, manualStep("1"), manualStep("100%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.promote(1)
	s.awaitRestored("v2")
}

// daemonSetSurge has maxSurge, so that no node is ever without a pod. This is not possible in
// steps, so nothing is held, and the Rollout reports the reason.
func daemonSetSurge(t *testing.T) {
	t.Parallel()
	s := startDaemonSetApp(t, 3, false, func(set *appsv1.DaemonSet) {
		set.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: rollingUpdate, RollingUpdate: &appsv1.RollingUpdateDaemonSet{
			MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(0)),
		}}
	}, manualStep("1"), manualStep("100%"))
	s.eventually("the Rollout reports what must be changed", s.messageContains("maxSurge"))
	s.setVersion("v2")
	s.eventually("the version is released natively", s.runsPods(versions{"v2": 3}))
	s.patchDaemonSet(`{"spec":{"updateStrategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}}}`)
	s.createRollout()
	s.setVersion("v3")
	s.eventually("step 1 waits", s.waitsAtStep(1))
	s.checkNow(s.runsPods(versions{"v2": 2, "v3": 1}))
}

// daemonSetWithoutNodes matches no node, so there is nothing to hold.
func daemonSetWithoutNodes(t *testing.T) {
	t.Parallel()
	s := startDaemonSetApp(t, 0, false, nil, manualStep("1"), manualStep("100%"))
	s.eventually("the Rollout is Healthy", s.isHealthy)
	s.setVersion("v2")
	s.eventually("the held DaemonSet is restored", func(context.Context) error {
		if set := s.getDaemonSet(); set.Spec.UpdateStrategy.Type != rollingUpdate || set.Annotations["rollouts.kruise.io/in-progressing"] != "" {
			return fmt.Errorf("the update strategy is %s, annotations %v", set.Spec.UpdateStrategy.Type, set.Annotations)
		}
		return nil
	})
	s.checkStrategy(rollingUpdate, "v2")
	s.joinNode()
	s.eventually("a node has a pod", s.runsPods(versions{"v2": 1}))
	s.checkNow(s.isHealthy)
	s.setVersion("v3")
	s.eventually("step 1 waits", s.waitsAtStep(1))
}
