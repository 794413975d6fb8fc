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
	stories := map[string]func(*testing.T){
		"to the end":   cloneSetToTheEnd,
		"in place":     cloneSetInPlace,
		"third":        cloneSetThirdVersion,
		"back":         cloneSetRollback,
		"aborted":      cloneSetAborted,
		"complete":     cloneSetAbortedWhenComplete,
		"batches":      cloneSetRollbackInBatches,
		"named":        cloneSetRollbackWithRolloutID,
		"name alone":   cloneSetOnlyRolloutID,
		"renamed":      cloneSetRolloutIDChanged,
		"scaled":       cloneSetScaled,
		"nothing":      cloneSetScaledToZero,
		"deleted":      cloneSetRolloutDeleted,
		"disabled":     cloneSetRolloutDisabled,
		"from outside": cloneSetPausedByUser,
		"forgotten":    cloneSetOrphanedHold,

		"green to the end": blueGreenCloneSet,
		"green back":       blueGreenCloneSetRollback,
		"green third":      blueGreenCloneSetThirdVersion,
		"green aborted":    blueGreenCloneSetAborted,
		"green scaled":     blueGreenCloneSetScaled,
		"green deleted":    blueGreenCloneSetDeletedOrDisabled((*cloneSetApp).deleteRollout),
		"green disabled":   blueGreenCloneSetDeletedOrDisabled((*cloneSetApp).disableRollout),

		"ordered to the end": advancedStatefulSet,
		"ordered in place":   advancedStatefulSetInPlace,
		"ordered paused":     advancedStatefulSetPaused,
		"ordered back":       advancedStatefulSetRollback,
		"ordered deleted":    advancedStatefulSetRolloutDeleted,
		"ordered, any group": statefulSetLikeOfOtherGroup,

		"on nodes to the end":  advancedDaemonSet,
		"on nodes in place":    advancedDaemonSetInPlace,
		"on nodes third":       advancedDaemonSetThirdVersion,
		"on nodes back":        advancedDaemonSetRollback,
		"on nodes aborted":     advancedDaemonSetAborted,
		"on other nodes":       advancedDaemonSetNodesChange,
		"on nodes deleted":     advancedDaemonSetRolloutDeleted,
		"on nodes left out":    advancedDaemonSetWithSelector,
		"on nodes by an owner": advancedDaemonSetOnDelete,
	}
	for _, name := range selectCases(stories, "to the end", "aborted", "scaled", "named", "name alone", "forgotten", "green third", "green aborted", "ordered in place", "on nodes aborted") {
		t.Run(name, stories[name])
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

// Case 49: a third version begins at step 1, with no more pods than that step allows.
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
