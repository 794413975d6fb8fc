// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/kruise"
)

// advancedDaemonSetApp is an application in an Advanced DaemonSet, on nodes of its own.
type advancedDaemonSetApp struct {
	*cloneSetApp
	nodes *daemonSetApp
}

func startAdvancedDaemonSetApp(t *testing.T, nodes int32, routed bool, strategy map[string]any, steps ...v1beta1.Step) *advancedDaemonSetApp {
	t.Helper()
	a := newNamespace(t)
	s := &advancedDaemonSetApp{&cloneSetApp{app: a, kind: kruise.DaemonSetKind}, &daemonSetApp{app: a}}
	s.plan = plan{unavailable: 1, withTraffic: routed, grace: 1, steps: steps, customizeRollout: func(r *v1beta1.Rollout) {
		r.Spec.WorkloadRef.APIVersion, r.Spec.WorkloadRef.Kind = "apps.kruise.io/v1alpha1", "DaemonSet"
	}}
	for range nodes {
		s.nodes.joinNode()
	}
	if strategy == nil {
		strategy = map[string]any{}
	}
	set := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"revisionHistoryLimit": int64(0), "updateStrategy": strategy,
		"selector": map[string]any{"matchLabels": map[string]any{"app": name}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": name}},
			"spec": map[string]any{
				"terminationGracePeriodSeconds": int64(1),
				"nodeSelector":                  map[string]any{"pool": s.namespace},
				"tolerations":                   []any{map[string]any{"key": "pool", "operator": "Exists"}},
				"containers":                    []any{map[string]any{"name": name, "image": image("v1")}},
			},
		},
	}}}
	set.SetGroupVersionKind(s.kind)
	set.SetName(name)
	s.create(set)
	if routed {
		s.create(s.newService())
		s.create(s.newIngress())
	}
	s.eventually("all pods are ready", s.runsPods(versions{"v1": nodes}))
	s.original = s.getCloneSet()
	s.create(s.newRollout())
	return s
}

// createRollout creates the Rollout, and waits until it is Healthy.
func (s *advancedDaemonSetApp) createRollout() *advancedDaemonSetApp {
	s.t.Helper()
	s.nodes.createRollout()
	return s
}

// templateIs returns a check of the version of the live template.
func (s *advancedDaemonSetApp) templateIs(version string) func(context.Context) error {
	return func(context.Context) error {
		containers, _ := nestedField(s.getCloneSet(), "spec", "template", "spec", "containers").([]any)
		if is := containers[0].(map[string]any)["image"]; is != image(version) {
			return fmt.Errorf("the template is of %v", is)
		}
		return nil
	}
}

// checkStep waits until a step is paused, and checks that this many new pods are ready.
func (s *advancedDaemonSetApp) checkStep(step, updated int32, version string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("step %d waits", step), s.waitsAtStep(step))
	s.checkTreeAndPlan(step)
	s.checkNow(s.templateIs(version))
	set := s.getCloneSet()
	if partition, paused := s.strategy(set, "partition"), s.strategy(set, "paused"); partition != int64(s.nodes.nodes-updated) || paused != false {
		s.t.Errorf("step %d: partition %v of %d nodes, paused %v; want %d new", step, partition, s.nodes.nodes, paused, updated)
	}
	r, err := s.getRollout(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	c := r.Status.Canary
	if nestedField(set, "status", "updatedNumberScheduled") != int64(updated) || c.CanaryReplicas != updated || c.CanaryReadyReplicas != updated {
		s.t.Errorf("step %d: %v; the Rollout counts %d, %d ready; want %d", step, nestedField(set, "status"), c.CanaryReplicas, c.CanaryReadyReplicas, updated)
	}
	if is := nestedField(set, "status", "daemonSetHash"); c.CanaryRevision != is || c.PodTemplateHash != is {
		s.t.Errorf("new %s of %s; the status of OpenKruise is %v", c.CanaryRevision, c.PodTemplateHash, is)
	}
	s.checkNow(s.nodes.podsHaveRevision(c.StableRevision, "v1"))
	s.checkNow(s.nodes.podsHaveRevision(c.PodTemplateHash, version))
}

func (s *advancedDaemonSetApp) strategy(set *unstructured.Unstructured, field string) any {
	return nestedField(set, "spec", "updateStrategy", "rollingUpdate", field)
}

// awaitRestored waits until all fields are as the owner wrote them, except for the version and an
// explicit paused: false.
func (s *advancedDaemonSetApp) awaitRestored(version string) {
	s.t.Helper()
	s.eventually("the Rollout is Healthy", s.isHealthy)
	s.checkRestoredAt(version)
}

func (s *advancedDaemonSetApp) checkRestoredAt(version string) {
	s.t.Helper()
	s.eventually("all pods run "+version, s.runsPods(versions{version: s.nodes.nodes}))
	set, was := s.getCloneSet(), s.original.DeepCopy()
	was.Object["spec"].(map[string]any)["template"] = nestedField(set, "spec", "template")
	if err := unstructured.SetNestedField(was.Object, false, "spec", "updateStrategy", "rollingUpdate", "paused"); err != nil {
		s.t.Fatal(err)
	}
	s.checkEqual("the spec", nestedField(was, "spec"), nestedField(set, "spec"))
	s.checkEqual("the annotations", was.GetAnnotations(), set.GetAnnotations())
	s.eventually("no objects of the release are left", s.hasNoReleaseObjects)
}

// Case 26: a step with traffic, one without, and one with all pods that waits, until the end.
func advancedDaemonSet(t *testing.T) {
	t.Parallel()
	s := startAdvancedDaemonSetApp(t, 4, true, nil, withTraffic(manualStep("1"), "20%"), manualStep("3"), manualStep("100")).createRollout()
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
	s.checkStep(3, 4, "v2")
	s.promote(3)
	s.awaitRestored("v2")
	s.checkNow(s.releaseSucceeded)
}

// Case 27: a third version begins at step 1. The client that writes it also sends the strategy of
// an earlier step. Pods are labelled with their batch.
func advancedDaemonSetThirdVersion(t *testing.T) {
	t.Parallel()
	s := startAdvancedDaemonSetApp(t, 3, false, nil, manualStep("1"), manualStep("2"), manualStep("100")).createRollout()
	s.withRolloutID("one")
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.checkNow(s.podsHaveBatchLabels("one", map[string]int{"1": 1}))
	read, err := json.Marshal(nestedField(s.getCloneSet(), "spec", "updateStrategy"))
	if err != nil {
		t.Fatal(err)
	}
	s.promote(1)
	s.checkStep(2, 2, "v2")
	s.guard.atMost("v3", 1)
	s.patchCloneSet(fmt.Sprintf(`{"spec":{"updateStrategy":%s,"template":%s}}`, read, templateWith("v3")))
	s.checkStep(1, 1, "v3")
	s.guard.atMost("v3", 3)
	s.promoteAll()
	s.awaitRestored("v3")
}

// advancedDaemonSetInPlace updates pods in place and rolls back. All pods keep their UIDs.
func advancedDaemonSetInPlace(t *testing.T) {
	t.Parallel()
	s := startAdvancedDaemonSetApp(t, 3, false, map[string]any{"rollingUpdate": map[string]any{"rollingUpdateType": "InPlaceIfPossible"}}, manualStep("1"), manualStep("2"), manualStep("100%")).createRollout()
	was := s.podUIDs()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.promote(1)
	s.checkStep(2, 2, "v2")
	s.abort()
	s.eventually("Kruise has counted them", s.runsPods(versions{"v1": 3}))
	s.post(testEnv.admin, "retry", "", http.StatusCreated)
	s.checkStep(1, 1, "v2")
	s.promoteAll()
	s.awaitRestored("v2")
	s.checkEqual("the pods", was, s.podUIDs())
}

// advancedDaemonSetRollback releases a version that never becomes ready. One pod is affected, until
// the owner sets the earlier version.
func advancedDaemonSetRollback(t *testing.T) {
	t.Parallel()
	s := startAdvancedDaemonSetApp(t, 3, true, nil, withTraffic(manualStep("2"), "20%"), manualStep("100%")).createRollout()
	s.setVersion("failed")
	s.eventually("step 1 waits for its pods", s.messageContains("1 of 1 new pods"))
	s.checkNow(s.isAtStage(1, "StepUpgrade"))
	s.setVersion("v1")
	s.awaitRestored("v1")
}

// advancedDaemonSetAborted checks that an abort returns every pod to the stable version. The stable
// template stays live, so that nodes which join do not get the aborted version. Then it retries and
// rolls back.
func advancedDaemonSetAborted(t *testing.T) {
	t.Parallel()
	s := startAdvancedDaemonSetApp(t, 3, true, nil, withTraffic(manualStep("1"), "20%"), withTraffic(manualStep("2"), "50%"), manualStep("100%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.promote(1)
	s.checkStep(2, 2, "v2")
	s.abort()
	s.checkNow(s.templateIs("v1"))
	s.eventually("Kruise has counted them", s.runsPods(versions{"v1": 3}))
	s.checkNow(s.hasCanaryWeight(""))
	s.guard.atMost("v2", 0)
	s.nodes.joinNode()
	s.eventually("the new node has a pod", s.runsPods(versions{"v1": 4}))
	s.guard.atLeast(3)
	s.setVersion("v2")
	s.eventually("the stable template is live again", s.templateIs("v1"))
	s.eventually("Kruise has seen that", s.runsPods(versions{"v1": 4}))
	s.checkNow(s.isAborted)
	s.guard.atMost("v2", 1)
	s.post(testEnv.admin, "retry", "", http.StatusCreated)
	s.checkStep(1, 1, "v2")
	s.post(testEnv.admin, "rollback", "", http.StatusCreated)
	s.awaitRestored("v1")
}

// advancedDaemonSetNodesChange adds and removes nodes while a step is paused. The pod of a new node
// runs the newest version and counts as updated.
func advancedDaemonSetNodesChange(t *testing.T) {
	t.Parallel()
	s := startAdvancedDaemonSetApp(t, 3, false, nil, manualStep("1"), manualStep("2"), manualStep("100%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.nodes.joinNode()
	s.eventually("the new node has a pod", s.runsPods(versions{"v1": 2, "v2": 2}))
	s.consistently("the step waits", s.waitsAtStep(1))
	s.guard.atLeast(3)
	s.promote(1)
	s.checkStep(2, 2, "v2")
	s.guard.atLeast(2)
	s.loseNode(s.namespace + "-3")
	s.nodes.nodes = 3
	s.eventually("the step has its share again", s.runsPods(versions{"v1": 1, "v2": 2}))
	s.eventually("step 2 waits", s.waitsAtStep(2))
	s.promote(2)
	s.awaitRestored("v2")
}

// Case 28: deleting the Rollout continues the release natively, but not after an abort.
func advancedDaemonSetRolloutDeleted(t *testing.T) {
	t.Parallel()
	s := startAdvancedDaemonSetApp(t, 3, false, nil, manualStep("1"), manualStep("100")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.deleteRollout()
	s.checkRestoredAt("v2")
	s.create(s.newRollout())
	s.eventually("the Rollout is Healthy", s.isHealthy)
	s.setVersion("v3")
	s.eventually("step 1 waits", s.waitsAtStep(1))
	s.abort()
	s.guard.atMost("v3", 0)
	s.deleteRollout()
	s.nodes.joinNode()
	s.eventually("the new node has a pod", s.runsPods(versions{"v2": 4}))
}

// advancedDaemonSetWithSelector has an update strategy that excludes nodes. Nothing is held, and
// the Rollout reports the reason.
func advancedDaemonSetWithSelector(t *testing.T) {
	t.Parallel()
	s := startAdvancedDaemonSetApp(t, 2, false, map[string]any{"rollingUpdate": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"no": "node"}}}}, manualStep("1"))
	s.eventually("the Rollout reports what must be changed", s.messageContains("rollingUpdate.selector"))
	s.patchCloneSet(`{"spec":{"updateStrategy":{"rollingUpdate":{"selector":null}}}}`)
	s.eventually("the Rollout is Healthy", s.isHealthy)
}

// advancedDaemonSetOnDelete has the strategy OnDelete. A Rollout releases it step by step, and
// restores the strategy at the end.
func advancedDaemonSetOnDelete(t *testing.T) {
	t.Parallel()
	s := startAdvancedDaemonSetApp(t, 3, false, map[string]any{"type": "OnDelete"}, manualStep("1"), manualStep("100%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.promote(1)
	s.awaitRestored("v2")
}
