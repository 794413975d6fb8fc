// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
)

// Case 66: steps without traffic, until the end. Pods are labelled with their batch.
func statefulSetBatchLabels(t *testing.T) {
	t.Parallel()
	s := startStatefulSetApp(t, false, nil, manualStep("20%"), manualStep("40%"), manualStep("60%"), manualStep("80%"), manualStep("100%")).createRollout()
	s.patchStatefulSet(fmt.Sprintf(`{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":"one"}},
		"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, name, image("v2")))
	s.original.Labels["rollouts.kruise.io/rollout-id"] = "one"
	s.checkStep(1, 1, "v2")
	s.checkNow(s.podsHaveBatchLabels("one", map[string]int{"1": 1}))
	s.promote(1)
	s.checkStep(2, 2, "v2")
	s.checkNow(s.podsHaveBatchLabels("one", map[string]int{"1": 1, "2": 1}))
	s.promoteAll()
	s.awaitRestored("v2")
	s.checkNow(s.podsHaveBatchLabels("one", map[string]int{"1": 1, "2": 1, "3": 1, "4": 1, "5": 1}))
}

// statefulSetJumps jumps forward, which skips steps, and back, which replaces no pod.
func statefulSetJumps(t *testing.T) {
	t.Parallel()
	s := startStatefulSetApp(t, false, nil, manualStep("20%"), manualStep("40%"), manualStep("60%"), manualStep("100%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.post(testEnv.admin, "jump", `{"step":3}`, http.StatusCreated)
	s.checkStep(3, 3, "v2")
	s.post(testEnv.admin, "jump", `{"step":1}`, http.StatusCreated)
	s.eventually("step 1 waits", s.waitsAtStep(1))
	s.checkNow(s.runsPods(versions{"v1": 2, "v2": 3}))
	s.promote(1)
	s.eventually("step 2 waits", s.waitsAtStep(2))
	s.checkNow(s.runsPods(versions{"v1": 2, "v2": 3}))
	s.promoteAll()
	s.awaitRestored("v2")
}

// statefulSetScaled changes the size during a release. Added pods run the new version, which can be
// one pod more than the share if the native controller acts before the partition changes. Scaling
// down deletes new pods first, which the step creates again.
func statefulSetScaled(t *testing.T) {
	t.Parallel()
	s := startStatefulSetApp(t, false, nil, manualStep("40%"), manualStep("100%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 2, "v2")
	s.guard.atMost("v2", 5)
	s.setReplicas(8)
	share, faster := s.runsPods(versions{"v1": 4, "v2": 4}), s.runsPods(versions{"v1": 3, "v2": 5})
	s.eventually("new pods are of the new version", func(ctx context.Context) error {
		err := share(ctx)
		if err != nil && faster(ctx) == nil {
			return nil
		}
		return err
	})
	s.checkNow(s.waitsAtStep(1))
	s.setReplicas(5)
	s.eventually("the share of the step is new", s.runsPods(versions{"v1": 3, "v2": 2}))
	s.checkNow(s.waitsAtStep(1))
	s.promoteAll()
	s.awaitRestored("v2")
}

// statefulSetRolloutDisabled disables the Rollout: the release continues natively. After it is
// enabled, the next release has steps.
func statefulSetRolloutDisabled(t *testing.T) {
	t.Parallel()
	s := startStatefulSetApp(t, false, nil, manualStep("20%"), manualStep("100%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.patchRollout(`{"spec":{"disabled":true}}`)
	s.eventually("all pods run v2", s.runsPods(versions{"v2": 5}))
	s.checkPartition(0, "v2")
	s.patchRollout(`{"spec":{"disabled":false}}`)
	s.eventually("the Rollout is Healthy", s.isHealthy)
	s.guard.atMost("v3", 1)
	s.setVersion("v3")
	s.eventually("step 1 waits", s.waitsAtStep(1))
	s.checkNow(s.runsPods(versions{"v2": 4, "v3": 1}))
}

// statefulSetOrphanedHold checks that a hold without a Rollout is removed.
func statefulSetOrphanedHold(t *testing.T) {
	t.Parallel()
	s := startStatefulSetApp(t, false, nil, manualStep("20%"), manualStep("100%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	for _, body := range []string{`{"spec":{"disabled":true}}`, `{"metadata":{"finalizers":null}}`} {
		s.patchRollout(body)
	}
	s.eventually("all pods run v2", s.runsPods(versions{"v2": 5}))
	s.eventually("the Rollout is Disabled", s.isDisabled)
	s.patchStatefulSet(`{"metadata":{"annotations":{"rollouts.kruise.io/in-progressing":"{\"rolloutName\":\"none\"}"}},"spec":{"updateStrategy":{"rollingUpdate":{"partition":32767}}}}`)
	s.eventually("an event reports it", s.hasEvent("WorkloadGivenBack", 1))
	s.eventually("the StatefulSet is not held", func(context.Context) error {
		set := s.getStatefulSet()
		if *set.Spec.UpdateStrategy.RollingUpdate.Partition != 0 || len(set.Annotations) > 0 {
			return errors.New("the StatefulSet is held")
		}
		return nil
	})
}
