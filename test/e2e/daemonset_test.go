// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDaemonSet runs scenarios of DaemonSets.
func TestDaemonSet(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*testing.T){
		"to the end":                     daemonSetToTheEnd,
		"third version":                  daemonSetThirdVersion,
		"never ready":                    daemonSetNeverReady,
		"aborted":                        daemonSetAborted,
		"aborted when complete":          daemonSetAbortedWhenComplete,
		"aborted before the first batch": daemonSetAbortedBeforeFirstBatch,
		"nodes join and leave":           daemonSetNodesChange,
		"deleted":                        daemonSetRolloutDeleted,
		"deleted after an abort":         daemonSetDeletedAfterAbort,
		"disabled":                       daemonSetRolloutDisabled,
		"batch labels and jump":          daemonSetBatchLabels,
		"OnDelete":                       daemonSetOnDelete,
		"surge":                          daemonSetSurge,
		"without nodes":                  daemonSetWithoutNodes,
	}
	for _, name := range selectCases(cases, "to the end", "aborted", "nodes join and leave") {
		t.Run(name, cases[name])
	}
}

// Cases 73 and 75: a step with traffic, one without, until the end; then the earlier version, which
// is a release like any other.
func daemonSetToTheEnd(t *testing.T) {
	t.Parallel()
	s := startDaemonSetApp(t, 4, true, nil, withTraffic(manualStep("1"), "20%"), manualStep("3"), manualStep("100%")).createRollout()
	s.guard.atMost("v2", 1)
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.checkNow(s.hasCanaryWeight("20"))
	s.checkNow(s.serviceSelects(name, versions{"v1": 3}))
	s.checkNow(s.serviceSelects(name+"-canary", versions{"v2": 1}))
	s.guard.atMost("v2", 3)
	s.promote(1)
	s.checkStep(2, 3, "v2")
	s.checkNow(s.hasCanaryWeight(""))
	s.checkNow(s.serviceSelects(name, versions{"v1": 1, "v2": 3}))
	s.guard.atMost("v2", 4)
	s.promote(2)
	s.awaitRestored("v2")
	s.setVersion("v1")
	s.eventually("step 1 waits", s.waitsAtStep(1))
	s.checkNow(s.runsPods(versions{"v1": 1, "v2": 3}))
	s.promoteAll()
	s.awaitRestored("v1")
	s.checkNow(s.releaseSucceeded)
}

// Case 74: a third version begins at step 1, and first replaces pods of the second.
func daemonSetThirdVersion(t *testing.T) {
	t.Parallel()
	s := startDaemonSetApp(t, 3, false, nil, manualStep("1"), manualStep("2"), manualStep("100%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.promote(1)
	s.checkStep(2, 2, "v2")
	s.guard.atMost("v3", 1)
	s.setVersion("v3")
	s.checkStep(1, 1, "v3")
	s.checkNow(s.runsPods(versions{"v1": 1, "v2": 1, "v3": 1}))
	s.guard.atMost("v3", 3)
	s.promoteAll()
	s.awaitRestored("v3")
}

// daemonSetNeverReady releases a version that never becomes ready. One pod is affected, until the
// owner sets the earlier version.
func daemonSetNeverReady(t *testing.T) {
	t.Parallel()
	s := startDaemonSetApp(t, 3, true, nil, withTraffic(manualStep("2"), "20%"), manualStep("100%")).createRollout()
	s.setVersion("failed")
	s.eventually("step 1 waits for its pods", s.messageContains("1 of 1 new pods"))
	s.checkNow(s.isAtStage(1, "StepUpgrade"))
	s.setVersion("v1")
	s.awaitRestored("v1")
}

// daemonSetAborted checks that an abort returns every pod to the stable version. The stable
// template stays live, so that nodes which join do not get the aborted version. Then it retries and
// rolls back.
func daemonSetAborted(t *testing.T) {
	t.Parallel()
	s := startDaemonSetApp(t, 3, true, nil, withTraffic(manualStep("1"), "20%"), withTraffic(manualStep("2"), "50%"), manualStep("100%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.promote(1)
	s.checkStep(2, 2, "v2")
	s.abort()
	s.checkStrategy(onDelete, "v1")
	s.checkNow(s.runsPods(versions{"v1": 3}))
	s.checkNow(s.serviceSelects(name, versions{"v1": 3}))
	s.checkNow(s.hasCanaryWeight(""))
	s.guard.atMost("v2", 0)
	s.joinNode()
	s.eventually("the new node has a pod", s.runsPods(versions{"v1": 4}))
	s.guard.atLeast(3)
	s.setVersion("v2")
	s.eventually("the stable template is live again", s.templateIs("v1"))
	s.eventually("the native controller has observed the change", s.runsPods(versions{"v1": 4}))
	s.consistently("nothing is released", s.runsPods(versions{"v1": 4}))
	s.checkNow(s.isAborted)
	s.guard.atMost("v2", 1)
	s.post(testEnv.admin, "retry", "", http.StatusCreated)
	s.checkStep(1, 1, "v2")
	s.post(testEnv.admin, "rollback", "", http.StatusCreated)
	s.awaitRestored("v1")
}

// daemonSetAbortedWhenComplete aborts when every pod runs the new version. With the owner's history
// limit, the native controller would delete the stable revision. Then another version is released.
func daemonSetAbortedWhenComplete(t *testing.T) {
	t.Parallel()
	s := startDaemonSetApp(t, 3, false, nil, manualStep("1"), manualStep("3")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.promote(1)
	s.checkStep(2, 3, "v2")
	s.abort()
	s.checkStrategy(onDelete, "v1")
	s.checkNow(s.runsPods(versions{"v1": 3}))
	s.setVersion("v3")
	s.checkStep(1, 1, "v3")
	s.promoteAll()
	s.awaitRestored("v3")
}

// daemonSetAbortedBeforeFirstBatch aborts while the release waits for a missing Service, before the
// first batch. Nodes that join do not get the aborted version.
func daemonSetAbortedBeforeFirstBatch(t *testing.T) {
	t.Parallel()
	s := startDaemonSetApp(t, 3, true, nil, withTraffic(manualStep("1"), "20%"), manualStep("100%")).createRollout()
	if err := testEnv.client.Delete(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}); err != nil {
		t.Fatal(err)
	}
	s.setVersion("v2")
	s.eventually("the release waits for the Service", s.hasProgressingReason("Initializing"))
	s.abort()
	s.checkStrategy(onDelete, "v1")
	s.guard.atMost("v2", 0)
	s.joinNode()
	s.eventually("the new node has a pod", s.runsPods(versions{"v1": 4}))
	s.create(s.newService())
	s.guard.atMost("v2", 1)
	s.post(testEnv.admin, "retry", "", http.StatusCreated)
	s.checkStep(1, 1, "v2")
	s.post(testEnv.admin, "rollback", "", http.StatusCreated)
	s.awaitRestored("v1")
}

// daemonSetNodesChange adds and removes nodes while a step is paused. The pod of a new node runs
// the newest version and counts as updated.
func daemonSetNodesChange(t *testing.T) {
	t.Parallel()
	s := startDaemonSetApp(t, 3, false, nil, manualStep("1"), manualStep("2"), manualStep("100%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.joinNode()
	s.eventually("the new node has a pod", s.runsPods(versions{"v1": 2, "v2": 2}))
	s.consistently("the step waits", s.waitsAtStep(1))
	s.guard.atLeast(3)
	s.promote(1)
	s.checkStep(2, 2, "v2")
	s.guard.atLeast(2)
	s.loseNode(s.namespace + "-3")
	s.nodes = 3
	s.eventually("the step has its share again", s.runsPods(versions{"v1": 1, "v2": 2}))
	s.eventually("step 2 waits", s.waitsAtStep(2))
	s.promote(2)
	s.awaitRestored("v2")
}
