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

// agents is an application in an Advanced DaemonSet, on nodes of its own.
type agents struct {
	*cloned
	on *daemons
}

func startAgents(t *testing.T, nodes int32, routed bool, strategy map[string]any, steps ...v1beta1.Step) *agents {
	t.Helper()
	a := space(t)
	s := &agents{&cloned{app: a, kind: kruise.DaemonSetKind}, &daemons{app: a}}
	s.plan = plan{unavailable: 1, routed: routed, grace: 1, steps: steps, change: func(r *v1beta1.Rollout) {
		r.Spec.WorkloadRef.APIVersion, r.Spec.WorkloadRef.Kind = "apps.kruise.io/v1alpha1", "DaemonSet"
	}}
	for range nodes {
		s.on.joins()
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
	s.until("its pods are ready", s.runsPods(versions{"v1": nodes}))
	s.was = s.set()
	s.create(s.newRollout())
	return s
}

// serve waits until the application is in service.
func (s *agents) serve() *agents {
	s.t.Helper()
	s.on.serve()
	return s
}

// lives wants the live template to be that of a version.
func (s *agents) lives(version string) func(context.Context) error {
	return func(context.Context) error {
		containers, _ := of(s.set(), "spec", "template", "spec", "containers").([]any)
		if is := containers[0].(map[string]any)["image"]; is != image(version) {
			return fmt.Errorf("the template is of %v", is)
		}
		return nil
	}
}

// step waits at a step and wants so many new pods, all of them ready.
func (s *agents) step(step, updated int32, version string) {
	s.t.Helper()
	s.until(fmt.Sprintf("step %d waits", step), s.waitsAt(step))
	s.inspects(step)
	s.sees(s.lives(version))
	set := s.set()
	if partition, paused := s.strategy(set, "partition"), s.strategy(set, "paused"); partition != int64(s.on.nodes-updated) || paused != false {
		s.t.Errorf("step %d: partition %v of %d nodes, paused %v; want %d new", step, partition, s.on.nodes, paused, updated)
	}
	r, err := s.stored(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	c := r.Status.Canary
	if of(set, "status", "updatedNumberScheduled") != int64(updated) || c.CanaryReplicas != updated || c.CanaryReadyReplicas != updated {
		s.t.Errorf("step %d: %v; the Rollout counts %d, %d ready; want %d", step, of(set, "status"), c.CanaryReplicas, c.CanaryReadyReplicas, updated)
	}
	if is := of(set, "status", "daemonSetHash"); c.CanaryRevision != is || c.PodTemplateHash != is {
		s.t.Errorf("new %s of %s; Kruise says %v", c.CanaryRevision, c.PodTemplateHash, is)
	}
	s.sees(s.on.revisions(c.StableRevision, "v1"))
	s.sees(s.on.revisions(c.PodTemplateHash, version))
}

func (s *agents) strategy(set *unstructured.Unstructured, field string) any {
	return of(set, "spec", "updateStrategy", "rollingUpdate", field)
}

// gives wants everything back as the owner wrote it, but for the version; that
// nothing is paused is said.
func (s *agents) gives(version string) {
	s.t.Helper()
	s.until("the Rollout is Healthy", s.healthy)
	s.isAs(version)
}

func (s *agents) isAs(version string) {
	s.t.Helper()
	s.until("all pods run "+version, s.runsPods(versions{version: s.on.nodes}))
	set, was := s.set(), s.was.DeepCopy()
	was.Object["spec"].(map[string]any)["template"] = of(set, "spec", "template")
	if err := unstructured.SetNestedField(was.Object, false, "spec", "updateStrategy", "rollingUpdate", "paused"); err != nil {
		s.t.Fatal(err)
	}
	s.same("the spec", of(was, "spec"), of(set, "spec"))
	s.same("the annotations", was.GetAnnotations(), set.GetAnnotations())
	s.until("nothing is left beside it", s.alone)
}

// Case 26: a step with traffic, one without, one of every pod that waits, to the end.
func agentsToTheEnd(t *testing.T) {
	t.Parallel()
	s := startAgents(t, 4, true, nil, with(manual("1"), "20%"), manual("3"), manual("100")).serve()
	s.guard.atMost("v2", 1)
	s.ships("v2")
	s.step(1, 1, "v2")
	s.sees(s.weight("20"))
	s.sees(s.serves(name, versions{"v1": 3}))
	s.sees(s.serves(name+"-canary", versions{"v2": 1}))
	s.guard.atMost("v2", 3)
	s.promote(1)
	s.step(2, 3, "v2")
	s.sees(s.weight(""))
	s.sees(s.serves(name, versions{"v1": 1, "v2": 3}))
	s.guard.atMost("v2", 4)
	s.promote(2)
	s.step(3, 4, "v2")
	s.promote(3)
	s.gives("v2")
	s.sees(s.succeeded)
}

// Case 27: a third version begins at step 1, written by a client that sends the
// strategy of an earlier step along. Pods say which batch brought them.
func agentsThird(t *testing.T) {
	t.Parallel()
	s := startAgents(t, 3, false, nil, manual("1"), manual("2"), manual("100")).serve()
	s.called("one")
	s.ships("v2")
	s.step(1, 1, "v2")
	s.sees(s.labelled("one", map[string]int{"1": 1}))
	read, err := json.Marshal(of(s.set(), "spec", "updateStrategy"))
	if err != nil {
		t.Fatal(err)
	}
	s.promote(1)
	s.step(2, 2, "v2")
	s.guard.atMost("v3", 1)
	s.change(fmt.Sprintf(`{"spec":{"updateStrategy":%s,"template":%s}}`, read, templateWith("v3")))
	s.step(1, 1, "v3")
	s.guard.atMost("v3", 3)
	s.promoteAll()
	s.gives("v3")
}

// Pods are updated in place, there and back, and are the same pods in the end.
func agentsInPlace(t *testing.T) {
	t.Parallel()
	s := startAgents(t, 3, false, map[string]any{"rollingUpdate": map[string]any{"rollingUpdateType": "InPlaceIfPossible"}}, manual("1"), manual("2"), manual("100%")).serve()
	was := s.uids()
	s.ships("v2")
	s.step(1, 1, "v2")
	s.promote(1)
	s.step(2, 2, "v2")
	s.abort()
	s.until("Kruise has counted them", s.runsPods(versions{"v1": 3}))
	s.post(here.admin, "retry", "", http.StatusCreated)
	s.step(1, 1, "v2")
	s.promoteAll()
	s.gives("v2")
	s.same("the pods", was, s.uids())
}

// A version that never gets ready costs one pod, until its owner goes back.
func agentsBack(t *testing.T) {
	t.Parallel()
	s := startAgents(t, 3, true, nil, with(manual("2"), "20%"), manual("100%")).serve()
	s.ships("failed")
	s.until("step 1 waits for its pods", s.says("1 of 1 new pods"))
	s.sees(s.at(1, "StepUpgrade"))
	s.ships("v1")
	s.gives("v1")
}

// An abort brings every pod back. The stable template stays live, so that nodes
// which join get no aborted version; then it is tried again, and rolled back.
func agentsAborted(t *testing.T) {
	t.Parallel()
	s := startAgents(t, 3, true, nil, with(manual("1"), "20%"), with(manual("2"), "50%"), manual("100%")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	s.promote(1)
	s.step(2, 2, "v2")
	s.abort()
	s.sees(s.lives("v1"))
	s.until("Kruise has counted them", s.runsPods(versions{"v1": 3}))
	s.sees(s.weight(""))
	s.guard.atMost("v2", 0)
	s.on.joins()
	s.until("the new node has a pod", s.runsPods(versions{"v1": 4}))
	s.guard.atLeast(3)
	s.ships("v2")
	s.until("the stable template is live again", s.lives("v1"))
	s.until("Kruise has seen that", s.runsPods(versions{"v1": 4}))
	s.sees(s.isAborted)
	s.guard.atMost("v2", 1)
	s.post(here.admin, "retry", "", http.StatusCreated)
	s.step(1, 1, "v2")
	s.post(here.admin, "rollback", "", http.StatusCreated)
	s.gives("v1")
}

// A node that joins while a step waits gets the newest version, which counts; one
// that leaves takes its pod along.
func agentsOnOtherNodes(t *testing.T) {
	t.Parallel()
	s := startAgents(t, 3, false, nil, manual("1"), manual("2"), manual("100%")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	s.on.joins()
	s.until("the new node has a pod", s.runsPods(versions{"v1": 2, "v2": 2}))
	s.stays("the step waits", s.waitsAt(1))
	s.guard.atLeast(3)
	s.promote(1)
	s.step(2, 2, "v2")
	s.guard.atLeast(2)
	s.lose(s.namespace + "-3")
	s.on.nodes = 3
	s.until("the step has its share again", s.runsPods(versions{"v1": 1, "v2": 2}))
	s.until("step 2 waits", s.waitsAt(2))
	s.promote(2)
	s.gives("v2")
}

// Case 28: deleting the Rollout goes on natively; after an abort nothing does.
func agentsDeleted(t *testing.T) {
	t.Parallel()
	s := startAgents(t, 3, false, nil, manual("1"), manual("100")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	s.leaves()
	s.isAs("v2")
	s.create(s.newRollout())
	s.until("the Rollout is Healthy", s.healthy)
	s.ships("v3")
	s.until("step 1 waits", s.waitsAt(1))
	s.abort()
	s.guard.atMost("v3", 0)
	s.leaves()
	s.on.joins()
	s.until("the new node has a pod", s.runsPods(versions{"v2": 4}))
}

// Where some nodes are left out for good nothing is held, and the Rollout says so.
func agentsChoosy(t *testing.T) {
	t.Parallel()
	s := startAgents(t, 2, false, map[string]any{"rollingUpdate": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"no": "node"}}}}, manual("1"))
	s.until("the Rollout says what it needs", s.says("rollingUpdate.selector"))
	s.change(`{"spec":{"updateStrategy":{"rollingUpdate":{"selector":null}}}}`)
	s.until("the Rollout is Healthy", s.healthy)
}

// An owner who deletes pods by hand may leave that to a Rollout, and gets his
// strategy back.
func agentsByHand(t *testing.T) {
	t.Parallel()
	s := startAgents(t, 3, false, map[string]any{"type": "OnDelete"}, manual("1"), manual("100%")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	s.promote(1)
	s.gives("v2")
}
