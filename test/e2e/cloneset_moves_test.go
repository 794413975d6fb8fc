// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// Case 48: a version that never becomes ready, and its rollback.
func cloneSetRollback(t *testing.T) {
	t.Parallel()
	s := startCloneSetApp(t, true, nil, nil, withTraffic(manualStep("20%"), "20%"), manualStep("60%"))
	s.setVersion("failed")
	s.eventually("step 1 waits for its pod", s.messageContains("1 of 1 new pods"))
	s.checkNow(s.isAtStage(1, "StepUpgrade"))
	s.setVersion("v1")
	s.awaitRestored("v1")
}

// cloneSetAborted checks that an abort returns every pod to the stable version and keeps the
// template held. Then it retries and rolls back. There is at most one additional pod, and never one
// pod less.
func cloneSetAborted(t *testing.T) {
	t.Parallel()
	owners := map[string]any{"maxUnavailable": int64(0), "maxSurge": int64(1), "partition": "10%"}
	s := startCloneSetApp(t, true, owners, nil, withTraffic(manualStep("20%"), "20%"), withTraffic(manualStep("60%"), "50%"), manualStep("100%"))
	s.guard.atLeast(5)
	s.setVersion("v2")
	s.checkStep(1, 1, "80%", "v2")
	s.promote(1)
	s.checkStep(2, 3, "40%", "v2")
	s.abort()
	s.checkPartition("100%", "v2")
	s.checkNow(s.runsPods(versions{"v1": 5}))
	s.checkNow(s.serviceSelects(name, versions{"v1": 5}))
	s.checkNow(s.hasCanaryWeight(""))
	s.post(testEnv.admin, "retry", "", http.StatusCreated)
	s.checkStep(1, 1, "80%", "v2")
	s.post(testEnv.admin, "rollback", "", http.StatusCreated)
	s.awaitRestored("v1")
}

// cloneSetAbortedWhenComplete aborts when every pod runs the new version, so OpenKruise no longer
// has the stable revision in its status.
func cloneSetAbortedWhenComplete(t *testing.T) {
	t.Parallel()
	s := startCloneSetApp(t, false, nil, nil, manualStep("1"), manualStep("100%"), manualStep("100%"))
	s.setVersion("v2")
	s.checkStep(1, 1, "80%", "v2")
	s.promote(1)
	s.checkStep(2, 5, int64(0), "v2")
	s.abort()
	s.checkPartition("100%", "v2")
	s.checkNow(s.runsPods(versions{"v1": 5}))
	s.setVersion("v3")
	s.checkStep(1, 1, "80%", "v3")
	s.promoteAll()
	s.awaitRestored("v3")
}

// Case 50: without traffic, a rollback may be released in steps, too.
func cloneSetRollbackInBatches(t *testing.T) {
	t.Parallel()
	s := startCloneSetApp(t, false, nil, func(r *v1beta1.Rollout) {
		r.Annotations = map[string]string{"rollouts.kruise.io/rollback-in-batch": "true"}
	}, manualStep("20%"), manualStep("60%"), manualStep("100%"))
	s.setVersion("v2")
	s.eventually("step 1 waits", s.waitsAtStep(1))
	s.promote(1)
	s.checkStep(2, 3, "40%", "v2")
	s.setVersion("v1")
	s.eventually("step 1 waits on the way back", s.waitsAtStep(1))
	s.eventually("one more pod is rolled back", s.runsPods(versions{"v1": 3, "v2": 2}))
	s.promoteAll()
	s.awaitRestored("v1")
}

// fiveEqualSteps are five equal steps.
func fiveEqualSteps() []v1beta1.Step {
	return []v1beta1.Step{manualStep("20%"), manualStep("40%"), manualStep("60%"), manualStep("80%"), manualStep("100%")}
}

// Case 60: the rollback has a rollout-id of its own. Each of its steps labels one pod, although two
// pods never ran the new version.
func cloneSetRollbackWithRolloutID(t *testing.T) {
	t.Parallel()
	s := startCloneSetApp(t, false, nil, func(r *v1beta1.Rollout) {
		r.Annotations = map[string]string{"rollouts.kruise.io/rollback-in-batch": "true"}
	}, fiveEqualSteps()...).withRolloutID("1")
	s.setVersion("v2")
	for step := int32(1); step <= 2; step++ {
		s.eventually("a step waits", s.waitsAtStep(step))
		s.promote(step)
	}
	s.eventually("step 3 waits", s.waitsAtStep(3))
	s.checkNow(s.podsHaveBatchLabels("1", map[string]int{"1": 1, "2": 1, "3": 1}))
	s.withRolloutID("2").setVersion("v1")
	s.approveAndCheckLabels("2", 1)
	s.awaitRestored("v1")
}

// approveAndCheckLabels approves each step from the given one on, and checks that each of the five
// steps labels one more pod.
func (s *cloneSetApp) approveAndCheckLabels(id string, from int32) {
	s.t.Helper()
	want := map[string]int{}
	for step := int32(1); step <= 4; step++ {
		want[strconv.Itoa(int(step))] = 1
		if step < from {
			continue
		}
		s.eventually("a step waits", s.waitsAtStep(step))
		s.eventually("each step has a pod", s.podsHaveBatchLabels(id, want))
		s.promote(step)
	}
	want["5"] = 1
	s.eventually("the Rollout is Healthy", s.isHealthy)
	s.checkNow(s.podsHaveBatchLabels(id, want))
}

// setOnlyRolloutID changes the rollout-id and the in-progress annotation without a new template, as
// some clients do.
func (s *cloneSetApp) setOnlyRolloutID(id string) {
	s.t.Helper()
	s.patchCloneSet(fmt.Sprintf(`{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":%q},"annotations":{"rollouts.kruise.io/in-progressing":"true"}}}`, id))
}

// Case 61: a new rollout-id without a new template is a release that keeps its pods. Another
// rollout-id at step 3 counts the pods again.
func cloneSetOnlyRolloutID(t *testing.T) {
	t.Parallel()
	s := startCloneSetApp(t, false, nil, nil, fiveEqualSteps()...)
	was := s.podUIDs()
	s.setOnlyRolloutID("1")
	for step := int32(1); step <= 2; step++ {
		s.eventually("a step waits", s.waitsAtStep(step))
		s.promote(step)
	}
	s.eventually("step 3 waits", s.waitsAtStep(3))
	s.checkNow(s.podsHaveBatchLabels("1", map[string]int{"1": 1, "2": 1, "3": 1}))
	s.patchCloneSet(`{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":"2"}}}`)
	s.eventually("the pods are counted under the other name", s.podsHaveBatchLabels("2", map[string]int{"1": 1, "2": 1, "3": 1}))
	s.approveAndCheckLabels("2", 3)
	s.awaitRestored("v1")
	s.checkEqual("the pods", was, s.podUIDs())
}

// Case 62: the rollout-id changes at the first step.
func cloneSetRolloutIDChanged(t *testing.T) {
	t.Parallel()
	s := startCloneSetApp(t, false, nil, nil, fiveEqualSteps()...)
	was := s.podUIDs()
	s.setOnlyRolloutID("1")
	s.eventually("step 1 waits", s.waitsAtStep(1))
	s.patchCloneSet(`{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":"2"}}}`)
	s.approveAndCheckLabels("2", 1)
	s.awaitRestored("v1")
	s.checkEqual("the pods", was, s.podUIDs())
}

// Case 59: pods that are added during a step are distributed over both versions as the step
// requires.
func cloneSetScaled(t *testing.T) {
	t.Parallel()
	s := startCloneSetApp(t, false, nil, nil, manualStep("20%"), manualStep("40%"), manualStep("60%"), manualStep("100%")).withRolloutID("one")
	s.setVersion("v2")
	s.checkStep(1, 1, "80%", "v2")
	s.promote(1)
	s.checkStep(2, 2, "60%", "v2")
	s.guard.atMost("v2", 4)
	s.patchCloneSet(`{"spec":{"replicas":10}}`)
	s.eventually("pods of both versions come", s.runsPods(versions{"v1": 6, "v2": 4}))
	s.eventually("the pods are labelled", s.podsHaveBatchLabels("one", map[string]int{"1": 2, "2": 2}))
	s.checkNow(s.waitsAtStep(2))
	s.patchCloneSet(`{"spec":{"replicas":5}}`)
	s.guard.atMost("v2", 10)
	s.eventually("some pods are deleted", s.runsPods(versions{"v1": 3, "v2": 2}))
	s.promoteAll()
	s.awaitRestored("v2")
}

// cloneSetScaledToZero scales to 0. Without pods, OpenKruise treats the newest template as the
// current one. Pods must still be created with the stable version.
func cloneSetScaledToZero(t *testing.T) {
	t.Parallel()
	s := startCloneSetApp(t, false, nil, nil, manualStep("20%"), manualStep("60%"), manualStep("100%"))
	s.setVersion("v2")
	s.checkStep(1, 1, "80%", "v2")
	s.guard.atLeast(0)
	s.patchCloneSet(`{"spec":{"replicas":0}}`)
	s.eventually("no pod is left", s.runsPods(versions{}))
	s.eventually("the stable template is set", func(context.Context) error {
		containers, _ := nestedField(s.getCloneSet(), "spec", "template", "spec", "containers").([]any)
		if v := containers[0].(map[string]any)["image"]; v != image("v1") {
			return fmt.Errorf("the template is of %s", v)
		}
		return nil
	})
	s.guard.atMost("v2", 1)
	s.patchCloneSet(`{"spec":{"replicas":5}}`)
	s.eventually("one pod is new again", s.runsPods(versions{"v1": 4, "v2": 1}))
	s.guard.atMost("v2", 5)
	s.promoteAll()
	s.awaitRestored("v2")
}

// cloneSetRolloutDeleted deletes the Rollout. The release continues natively.
func cloneSetRolloutDeleted(t *testing.T) {
	t.Parallel()
	s := startCloneSetApp(t, true, nil, nil, withTraffic(manualStep("20%"), "20%"), manualStep("60%"))
	s.setVersion("v2")
	s.checkStep(1, 1, "80%", "v2")
	s.deleteRollout()
	s.checkRestoredAt("v2")
}

// deleteRollout deletes the Rollout, and waits until it is gone.
func (s *cloneSetApp) deleteRollout() {
	s.t.Helper()
	r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.rollout}}
	if err := testEnv.client.Delete(s.t.Context(), r); err != nil {
		s.t.Fatal(err)
	}
	s.eventually("the Rollout is gone", func(ctx context.Context) error {
		if _, err := s.getRollout(ctx); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Rollout is there: %w", err)
		}
		return nil
	})
}

// cloneSetRolloutDisabled disables the Rollout. The release continues natively.
func cloneSetRolloutDisabled(t *testing.T) {
	t.Parallel()
	s := startCloneSetApp(t, true, nil, nil, withTraffic(manualStep("20%"), "20%"), manualStep("60%"))
	s.setVersion("v2")
	s.checkStep(1, 1, "80%", "v2")
	s.disableRollout()
	s.checkRestoredAt("v2")
}

// disableRollout disables the Rollout, and waits until it is Disabled.
func (s *cloneSetApp) disableRollout() {
	s.t.Helper()
	s.patchRollout(`{"spec":{"disabled":true}}`)
	s.eventually("the Rollout is Disabled", s.isDisabled)
}

// cloneSetPausedByUser changes spec.updateStrategy.paused during a release. The change does not
// release the held CloneSet, and it is restored at the end.
func cloneSetPausedByUser(t *testing.T) {
	t.Parallel()
	s := startCloneSetApp(t, false, nil, nil, manualStep("20%"), manualStep("100%"))
	s.setVersion("v2")
	s.checkStep(1, 1, "80%", "v2")
	s.patchCloneSet(`{"metadata":{"annotations":null},"spec":{"updateStrategy":{"partition":1,"paused":true}}}`)
	set := s.checkPartition("80%", "v2")
	if nestedField(set, "spec", "updateStrategy", "paused") == true {
		t.Error("the CloneSet is paused")
	}
	s.eventually("Kruise has seen it", s.runsPods(versions{"v1": 4, "v2": 1}))
	s.consistently("one pod is new", s.runsPods(versions{"v1": 4, "v2": 1}))
	s.promoteAll()
	s.eventually("the Rollout is Healthy", s.isHealthy)
	s.checkPartition(int64(1), "v2")
	s.eventually("the CloneSet is paused as its owner has set", func(context.Context) error {
		if nestedField(s.getCloneSet(), "spec", "updateStrategy", "paused") != true {
			return errors.New("the CloneSet is not paused")
		}
		return nil
	})
}
