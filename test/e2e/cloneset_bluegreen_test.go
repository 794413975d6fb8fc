// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// startBlueGreenCloneSet starts an application in a CloneSet of five pods. Its blue-green release
// creates all pods first, then moves half of the traffic, then all of it.
func startBlueGreenCloneSet(t *testing.T, steps ...v1beta1.Step) *cloneSetApp {
	t.Helper()
	if steps == nil {
		steps = []v1beta1.Step{withTraffic(manualStep("100%"), "0%"), withTraffic(manualStep("100%"), "50%"), withTraffic(manualStep("100%"), "100%")}
	}
	s := startCloneSetApp(t, true, map[string]any{"maxUnavailable": int64(0), "maxSurge": int64(1)}, func(r *v1beta1.Rollout) {
		release := r.Spec.Strategy.Canary.Release
		release.Steps = steps
		r.Spec.Strategy = v1beta1.Strategy{BlueGreen: &v1beta1.BlueGreenStrategy{Release: release}}
	})
	s.guard.atLeast(5)
	return s.withRolloutID("one")
}

// checkBlueGreenStep waits until a step is paused, and checks that new pods of v2 run next to five
// of v1 and that Services and status distinguish them.
func (s *cloneSetApp) checkBlueGreenStep(step int32, updated int64, share, weight string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("step %d waits", step), s.waitsAtBlueGreenStep(step))
	s.checkNow(s.hasCounts(5+updated, updated))
	set := s.checkPartition(int64(0), "v2")
	s.checkSurge(share)
	r, err := s.getRollout(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	g := r.Status.BlueGreen
	if int64(g.UpdatedReplicas) != updated || int64(g.UpdatedReadyReplicas) != updated {
		s.t.Errorf("step %d: the Rollout counts %d, %d ready; want %d", step, g.UpdatedReplicas, g.UpdatedReadyReplicas, updated)
	}
	s.checkRevisions(g, hashOf(set, "updateRevision"))
	s.checkNow(s.hasCanaryWeight(weight))
	s.checkNow(s.serviceSelects(name, versions{"v1": 5}))
	s.checkNow(s.serviceSelects(name+"-canary", versions{"v2": int32(updated)})) //nolint:gosec // a few
}

// checkRevisions checks the revisions in the status.
func (s *cloneSetApp) checkRevisions(g *v1beta1.BlueGreenStatus, hash string) {
	s.t.Helper()
	if stable := hashOf(s.original, "currentRevision"); g.StableRevision != stable || g.UpdatedRevision != hash || g.PodTemplateHash != hash {
		s.t.Errorf("stable %s, new %s of %s; want %s, %s", g.StableRevision, g.UpdatedRevision, g.PodTemplateHash, stable, hash)
	}
}

// checkSurge checks that the CloneSet is configured to create this share of new pods.
func (s *cloneSetApp) checkSurge(share string) {
	s.t.Helper()
	set := s.getCloneSet()
	for field, want := range map[string]any{"paused": nil, "maxSurge": share, "maxUnavailable": int64(0)} {
		if got := nestedField(set, "spec", "updateStrategy", field); got != want && (field != "paused" || got != false) {
			s.t.Errorf("%s is %v, want %v", field, got, want)
		}
	}
	if got := nestedField(set, "spec", "minReadySeconds"); got != int64(2147483646) {
		s.t.Errorf("pods have to be ready for %v s", got)
	}
}

// hasCounts returns a check of the number of pods and of updated pods in the CloneSet's status.
func (s *cloneSetApp) hasCounts(all, updated int64) func(context.Context) error {
	return func(ctx context.Context) error {
		set := s.getCloneSet()
		if nestedField(set, "status", "observedGeneration") != set.GetGeneration() || nestedField(set, "status", "replicas") != all || nestedField(set, "status", "readyReplicas") != all ||
			nestedField(set, "status", "updatedReplicas") != updated || nestedField(set, "status", "updatedReadyReplicas") != updated {
			return fmt.Errorf("want %d new of %d: %v", updated, all, set.Object["status"])
		}
		return ctx.Err()
	}
}

// Case 42: all pods, half of the traffic, all of the traffic; then the old pods are deleted. The
// autoscaler is disabled meanwhile.
func blueGreenCloneSet(t *testing.T) {
	t.Parallel()
	s := startBlueGreenCloneSet(t)
	s.createAutoscaler()
	s.setVersion("v2")
	s.checkBlueGreenStep(1, 5, "100%", "")
	s.checkNow(s.autoscalerTargets(name + "-DisableByRollout"))
	s.checkNow(s.podsHaveBatchLabels("one", map[string]int{"1": 5}))
	s.promote(1)
	s.checkBlueGreenStep(2, 5, "100%", "50")
	s.deletePod("v2")
	s.checkBlueGreenStep(2, 5, "100%", "50")
	s.promote(2)
	s.checkBlueGreenStep(3, 5, "100%", "100")
	s.promote(3)
	s.awaitRestored("v2")
	s.checkNow(s.autoscalerTargets(name))
}

// deletePod deletes a pod, and waits until OpenKruise has created another one.
func (s *cloneSetApp) deletePod(version string) {
	s.t.Helper()
	pods, err := s.pods(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	there := func(p corev1.Pod) bool { return versionOf(&p.Spec) == version }
	lost := pods[slices.IndexFunc(pods, there)]
	if err := testEnv.client.Delete(s.t.Context(), &lost); err != nil {
		s.t.Fatal(err)
	}
	s.eventually("another pod exists", func(ctx context.Context) error {
		now, err := s.pods(ctx)
		if again := func(p corev1.Pod) bool { return p.UID == lost.UID }; err == nil && (len(now) != len(pods) || slices.ContainsFunc(now, again)) {
			err = fmt.Errorf("%d pods are there, of %d", len(now), len(pods))
		}
		return err
	})
	s.eventually("the new pod is ready", s.runsPods(versions{"v1": 5, "v2": 5}))
	s.eventually("the Rollout counts the new pod", s.countsReadyPods(5))
	// Weir listed stable pods in podsToDelete until the new pod existed, and removes the list now.
	s.eventually("Kruise has seen the last change", s.hasCounts(10, 5))
}

// countsReadyPods returns a check that the Rollout counts this many ready updated pods.
func (s *cloneSetApp) countsReadyPods(n int32) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := s.getRollout(ctx)
		if err == nil && r.Status.BlueGreen.UpdatedReadyReplicas != n {
			err = fmt.Errorf("the Rollout counts %d ready pods", r.Status.BlueGreen.UpdatedReadyReplicas)
		}
		return err
	}
}

// createAutoscaler creates an autoscaler for the CloneSet.
func (s *cloneSetApp) createAutoscaler() {
	s.t.Helper()
	h := s.newScaler()
	h.Spec.ScaleTargetRef.APIVersion, h.Spec.ScaleTargetRef.Kind = "apps.kruise.io/v1alpha1", "CloneSet"
	s.create(h)
}

// Case 43: jump back to earlier steps, then set the earlier version again.
func blueGreenCloneSetRollback(t *testing.T) {
	t.Parallel()
	s := startBlueGreenCloneSet(t)
	s.setVersion("v2")
	s.checkBlueGreenStep(1, 5, "100%", "")
	s.promote(1)
	s.checkBlueGreenStep(2, 5, "100%", "50")
	s.promote(2)
	s.checkBlueGreenStep(3, 5, "100%", "100")
	s.post(testEnv.admin, "jump", `{"step":2}`, http.StatusCreated)
	s.checkBlueGreenStep(2, 5, "100%", "50")
	s.post(testEnv.admin, "jump", `{"step":1}`, http.StatusCreated)
	s.checkBlueGreenStep(1, 5, "100%", "0")
	s.checkNow(s.podsHaveBatchLabels("one", map[string]int{"1": 5}))
	s.setVersion("v1")
	s.awaitRestored("v1")
	s.checkNow(s.hasCounts(5, 5))
	s.checkNow(s.podsHaveBatchLabels("one", map[string]int{}))
}

// Case 44: a third version is refused, and no pod is deleted for it. The second version may be set
// again, and the first one ends the release. No pod of the first version was marked for
// replacement.
func blueGreenCloneSetThirdVersion(t *testing.T) {
	t.Parallel()
	s := startBlueGreenCloneSet(t)
	s.setVersion("v2")
	s.checkBlueGreenStep(1, 5, "100%", "")
	s.promote(1)
	s.checkBlueGreenStep(2, 5, "100%", "50")
	hash, was := hashOf(s.getCloneSet(), "updateRevision"), s.podUIDs()
	s.guard.atMost("v3", 0)
	s.setVersion("v3")
	s.eventually("v3 is refused", s.messageContains("please rollback first"))
	s.eventually("Kruise has seen it", s.hasCounts(10, 0))
	s.consistently("nothing moves", s.hasCounts(10, 0))
	s.checkPartition("100%", "v3")
	s.checkSurge("100%")
	r, err := s.getRollout(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.checkRevisions(r.Status.BlueGreen, hash)
	s.setVersion("v2")
	s.eventually("five pods are new again", s.hasCounts(10, 5))
	s.eventually("the partition is given up", func(context.Context) error {
		if p := nestedField(s.getCloneSet(), "spec", "updateStrategy", "partition"); p != int64(0) {
			return fmt.Errorf("the partition is %v", p)
		}
		return nil
	})
	s.eventually("Kruise has seen that", s.hasCounts(10, 5))
	s.checkBlueGreenStep(2, 5, "100%", "50")
	s.checkEqual("the pods", was, s.podUIDs())
	s.checkNow(s.hasNoPodsToReplace)
	s.setVersion("v1")
	s.awaitRestored("v1")
}

// hasNoPodsToReplace returns an error if a pod is marked for replacement.
func (s *cloneSetApp) hasNoPodsToReplace(ctx context.Context) error {
	pods, err := s.pods(ctx)
	for i := range pods {
		if pods[i].Labels["apps.kruise.io/specified-delete"] != "" {
			err = errors.Join(err, fmt.Errorf("%s is to be replaced", pods[i].Name))
		}
	}
	return err
}

// Cases 45 and 46: the Rollout is deleted or disabled when all new pods exist. All settings are
// restored, and only the old pods are deleted.
func blueGreenCloneSetDeletedOrDisabled(leave func(*cloneSetApp)) func(*testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		s := startBlueGreenCloneSet(t)
		s.createAutoscaler()
		s.setVersion("v2")
		s.checkBlueGreenStep(1, 5, "100%", "")
		s.promote(1)
		s.checkBlueGreenStep(2, 5, "100%", "50")
		leave(s)
		if got := nestedField(s.getCloneSet(), "status", "updatedReplicas"); got != int64(5) {
			t.Errorf("%v are new", got)
		}
		s.checkRestoredAt("v2")
		s.checkNow(s.autoscalerTargets(name))
	}
}

// blueGreenCloneSetAborted aborts a release: the traffic moves back, then the new pods are deleted,
// and the template stays held. Then it retries and rolls back.
func blueGreenCloneSetAborted(t *testing.T) {
	t.Parallel()
	s := startBlueGreenCloneSet(t, withTraffic(manualStep("50%"), "0%"), withTraffic(manualStep("100%"), "50%"))
	s.createAutoscaler()
	s.setVersion("v2")
	s.checkBlueGreenStep(1, 3, "50%", "")
	s.promote(1)
	s.checkBlueGreenStep(2, 5, "100%", "50")
	s.abort()
	s.checkPartition("100%", "v2")
	s.checkNow(s.runsPods(versions{"v1": 5}))
	s.checkNow(s.serviceSelects(name, versions{"v1": 5}))
	s.checkNow(s.hasCanaryWeight(""))
	s.eventually("the autoscaler is enabled again", s.autoscalerTargets(name))
	s.post(testEnv.admin, "retry", "", http.StatusCreated)
	s.checkBlueGreenStep(1, 3, "50%", "")
	s.checkNow(s.autoscalerTargets(name + "-DisableByRollout"))
	s.post(testEnv.admin, "rollback", "", http.StatusCreated)
	s.awaitRestored("v1")
	s.eventually("the autoscaler is enabled again", s.autoscalerTargets(name))
}

// blueGreenCloneSetScaled scales during a release. Added pods run the new version. Surplus pods are
// deleted only at the end, because no ready pod may be deleted before. Size 0 deletes all pods, and
// after that pods of v1 are created first.
func blueGreenCloneSetScaled(t *testing.T) {
	t.Parallel()
	s := startBlueGreenCloneSet(t, withTraffic(manualStep("50%"), "0%"), withTraffic(manualStep("100%"), "100%"))
	s.setVersion("v2")
	s.checkBlueGreenStep(1, 3, "50%", "")
	s.patchCloneSet(`{"spec":{"replicas":7}}`)
	s.eventually("new pods come", s.hasCounts(11, 6))
	s.eventually("the step waits", s.waitsAtBlueGreenStep(1))
	s.patchCloneSet(`{"spec":{"replicas":5}}`)
	s.eventually("the step waits", s.waitsAtBlueGreenStep(1))
	s.consistently("no pod is deleted", func(ctx context.Context) error {
		pods, err := s.pods(ctx)
		if err == nil && len(pods) != 11 {
			err = fmt.Errorf("there are %d", len(pods))
		}
		return err
	})
	s.guard.atLeast(0)
	s.patchCloneSet(`{"spec":{"replicas":0}}`)
	s.eventually("no pod is left", s.runsPods(versions{}))
	s.guard.atMost("v2", 3)
	s.patchCloneSet(`{"spec":{"replicas":5}}`)
	s.eventually("pods of both versions come", s.runsPods(versions{"v1": 5, "v2": 3}))
	s.eventually("the Rollout counts them", s.countsReadyPods(3))
	s.checkBlueGreenStep(1, 3, "50%", "")
	s.guard.atLeast(5)
	s.guard.atMost("v2", 5)
	s.promoteAll()
	s.awaitRestored("v2")
}
