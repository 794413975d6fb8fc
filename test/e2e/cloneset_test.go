// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"net/http"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
	"github.com/weir-rollouts/weir/test/kruise"
)

// TestKruise runs scenarios of CloneSets, Advanced StatefulSets and Advanced DaemonSets. It begins
// before the cluster serves these kinds. Package test/kruise simulates the controllers of
// OpenKruise.
func TestKruise(t *testing.T) {
	t.Parallel()
	cloneSetNotInstalled(t)
	cases := map[string]func(*testing.T){
		"to the end":               cloneSetToTheEnd,
		"in place":                 cloneSetInPlace,
		"third version":            cloneSetThirdVersion,
		"rollback":                 cloneSetRollback,
		"aborted":                  cloneSetAborted,
		"aborted when complete":    cloneSetAbortedWhenComplete,
		"rollback in batches":      cloneSetRollbackInBatches,
		"rollback with rollout-id": cloneSetRollbackWithRolloutID,
		"rollout-id alone":         cloneSetOnlyRolloutID,
		"rollout-id changed":       cloneSetRolloutIDChanged,
		"scaled":                   cloneSetScaled,
		"scaled to zero":           cloneSetScaledToZero,
		"deleted":                  cloneSetRolloutDeleted,
		"disabled":                 cloneSetRolloutDisabled,
		"paused by a user":         cloneSetPausedByUser,
		"orphaned hold":            cloneSetOrphanedHold,

		"blue-green to the end":    blueGreenCloneSet,
		"blue-green rollback":      blueGreenCloneSetRollback,
		"blue-green third version": blueGreenCloneSetThirdVersion,
		"blue-green aborted":       blueGreenCloneSetAborted,
		"blue-green scaled":        blueGreenCloneSetScaled,
		"blue-green deleted":       blueGreenCloneSetDeletedOrDisabled((*cloneSetApp).deleteRollout),
		"blue-green disabled":      blueGreenCloneSetDeletedOrDisabled((*cloneSetApp).disableRollout),

		"Advanced StatefulSet to the end": advancedStatefulSet,
		"Advanced StatefulSet in place":   advancedStatefulSetInPlace,
		"Advanced StatefulSet paused":     advancedStatefulSetPaused,
		"Advanced StatefulSet rollback":   advancedStatefulSetRollback,
		"Advanced StatefulSet deleted":    advancedStatefulSetRolloutDeleted,
		"StatefulSet of another group":    statefulSetLikeOfOtherGroup,

		"Advanced DaemonSet to the end":    advancedDaemonSet,
		"Advanced DaemonSet in place":      advancedDaemonSetInPlace,
		"Advanced DaemonSet third version": advancedDaemonSetThirdVersion,
		"Advanced DaemonSet rollback":      advancedDaemonSetRollback,
		"Advanced DaemonSet aborted":       advancedDaemonSetAborted,
		"Advanced DaemonSet nodes change":  advancedDaemonSetNodesChange,
		"Advanced DaemonSet deleted":       advancedDaemonSetRolloutDeleted,
		"Advanced DaemonSet with selector": advancedDaemonSetWithSelector,
		"Advanced DaemonSet with OnDelete": advancedDaemonSetOnDelete,
	}
	for _, name := range selectCases(cases, "to the end", "aborted", "scaled", "rollback with rollout-id", "rollout-id alone", "orphaned hold", "blue-green third version", "blue-green aborted", "Advanced StatefulSet in place", "Advanced DaemonSet aborted") {
		t.Run(name, cases[name])
	}
}

// cloneSetNotInstalled creates a Rollout for a kind that is not served. A warning and the status
// report this, the Rollout can be deleted, and it starts to work without a restart once the kind is
// served. Weir keeps watching kinds after that.
func cloneSetNotInstalled(t *testing.T) {
	s := &cloneSetApp{app: newNamespace(t)}
	s.plan = plan{replicas: 5, unavailable: 1, steps: []v1beta1.Step{manualStep("20%"), manualStep("100%")}, customizeRollout: ofCloneSet}
	s.create(s.newRollout())
	if served := func(ctx context.Context) error { return testEnv.client.List(ctx, cloneSets()) }; served(t.Context()) != nil {
		missing := s.messageContains("the cluster does not serve CloneSet.apps.kruise.io", "install what brings it")
		s.eventually("the Rollout reports what is missing", missing)
		s.deleteRollout()
		s.create(s.newRollout())
		s.eventually("the Rollout reports what is missing", missing)
		installKruise(t)
		s.eventually("CloneSets are served", served)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(stop)
	if err := kruise.Start(ctx, testEnv.cluster.Config()); err != nil {
		t.Fatal(err)
	}
	s.eventually("the Rollout waits for its workload", s.messageContains("Workload Not Found"))
	s.createCloneSet(nil)
	s.eventually("the Rollout is Healthy", s.isHealthy)
}

func installKruise(t *testing.T) {
	t.Helper()
	definitions, err := cluster.Decode(bytes.NewReader(kruise.Definitions))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range definitions {
		if err := testEnv.client.Create(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
}

// Case 47: a step with traffic, one without, until the end; then the CloneSet is scaled up.
// Labelled pods keep the revision label of OpenKruise.
func cloneSetToTheEnd(t *testing.T) {
	t.Parallel()
	s := startCloneSetApp(t, true, nil, nil, withTraffic(manualStep("20%"), "20%"), manualStep("60%")).withRolloutID("one")
	s.setVersion("v2")
	s.checkStep(1, 1, "80%", "v2")
	s.checkNow(s.hasCanaryWeight("20"))
	s.checkNow(s.serviceSelects(name, versions{"v1": 4}))
	s.checkNow(s.serviceSelects(name+"-canary", versions{"v2": 1}))
	s.checkNow(s.podsHaveBatchLabels("one", map[string]int{"1": 1}))
	s.promote(1)
	s.checkStep(2, 3, "40%", "v2")
	s.checkNow(s.hasCanaryWeight(""))
	s.checkNow(s.serviceSelects(name, versions{"v1": 2, "v2": 3}))
	s.checkNow(s.podsHaveBatchLabels("one", map[string]int{"1": 1, "2": 2}))
	s.checkNow(s.hasFullRevisionLabels)
	s.promote(2)
	s.awaitRestored("v2")
	s.patchCloneSet(`{"spec":{"replicas":6}}`)
	s.eventually("the CloneSet is scaled up", s.runsPods(versions{"v2": 6}))
	s.checkNow(s.isHealthy)
}

// Case 51: pods are updated in place and keep their UIDs.
func cloneSetInPlace(t *testing.T) {
	t.Parallel()
	s := startCloneSetApp(t, false, map[string]any{"type": "InPlaceOnly", "maxUnavailable": int64(1)}, nil, manualStep("20%"), manualStep("60%"), manualStep("100%")).withRolloutID("one")
	was := s.podUIDs()
	s.setVersion("v2")
	s.checkStep(1, 1, "80%", "v2")
	s.checkNow(s.podsHaveBatchLabels("one", map[string]int{"1": 1}))
	s.promote(1)
	s.checkStep(2, 3, "40%", "v2")
	s.abort()
	s.checkNow(s.runsPods(versions{"v1": 5}))
	s.checkPartition("100%", "v2")
	s.post(testEnv.admin, "retry", "", http.StatusCreated)
	s.checkStep(1, 1, "80%", "v2")
	s.promoteAll()
	s.awaitRestored("v2")
	s.checkEqual("the pods", was, s.podUIDs())
}

// Case 49: a third version begins at step 1, with at most the pods of that step.
func cloneSetThirdVersion(t *testing.T) {
	t.Parallel()
	s := startCloneSetApp(t, true, nil, nil, withTraffic(manualStep("20%"), "20%"), manualStep("40%"), manualStep("100%"))
	s.setVersion("v2")
	s.checkStep(1, 1, "80%", "v2")
	s.promote(1)
	s.checkStep(2, 2, "60%", "v2")
	s.guard.atMost("v3", 1)
	s.setVersion("v3")
	s.checkStep(1, 1, "80%", "v3")
	s.checkNow(s.hasCanaryWeight("20"))
	s.guard.atMost("v3", 6)
	s.promoteAll()
	s.awaitRestored("v3")
}
