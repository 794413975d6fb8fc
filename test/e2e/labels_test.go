// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podsHaveBatchLabels returns a check that this many pods have the label of each batch of a
// release.
func (a *app) podsHaveBatchLabels(id string, want map[string]int) func(context.Context) error {
	return func(ctx context.Context) error {
		var pods corev1.PodList
		if err := testEnv.client.List(ctx, &pods, client.InNamespace(a.namespace), client.MatchingLabels{"rollouts.kruise.io/rollout-id": id}); err != nil {
			return err
		}
		got := map[string]int{}
		for i := range pods.Items {
			if p := &pods.Items[i]; p.DeletionTimestamp == nil {
				got[p.Labels["rollouts.kruise.io/rollout-batch-id"]]++
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("pods of release %s by batch (-want +got):\n%s", id, diff)
		}
		return nil
	}
}

// setRolloutID changes the rollout-id of the release, and nothing else.
func (a *app) setRolloutID(id string) {
	a.t.Helper()
	if err := a.patchDeployment(fmt.Sprintf(`{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":%q}}}`, id)); err != nil {
		a.t.Fatal(err)
	}
}

// releaseWithRolloutID changes the version and the rollout-id.
func (a *app) releaseWithRolloutID(id, version string) {
	a.t.Helper()
	if err := a.patchDeployment(fmt.Sprintf(`{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":%q}},
		"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, id, name, image(version))); err != nil {
		a.t.Fatal(err)
	}
}

// TestPodLabels checks that pods of a release with a rollout-id are labelled with their batch
// before the step pauses. Replaced pods, and pods of a release whose rollout-id changes, get the
// labels again, and no pod is replaced for that.
func TestPodLabels(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	a.releaseWithRolloutID("one", "v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.checkNow(a.podsHaveBatchLabels("one", map[string]int{"1": 2}))
	a.promote(1)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.checkNow(a.podsHaveBatchLabels("one", map[string]int{"1": 2, "2": 1}))
	a.setRolloutID("two")
	a.eventually("the pods are counted under the other name", a.podsHaveBatchLabels("two", map[string]int{"1": 2, "2": 1}))
	a.consistently("the step waits", a.waitsAtStep(2))
	a.checkNow(a.podsHaveBatchLabels("one", map[string]int{}))
	a.deletePodOf("two")
	a.eventually("another pod takes its place", a.podsHaveBatchLabels("two", map[string]int{"1": 2, "2": 1}))
	a.promote(2)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v2": 6})
	a.checkNow(a.podsHaveBatchLabels("two", map[string]int{"1": 2, "2": 1, "3": 3}))
}

// TestRolloutIDAlone changes only the rollout-id, which is a release: it goes through the steps
// with their traffic, and no pod is replaced. A client that also writes the in-progress annotation
// changes nothing.
func TestRolloutIDAlone(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	sets, err := a.replicaSets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.patchDeployment(`{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":"one"},"annotations":{"rollouts.kruise.io/in-progressing":"true"}}}`); err != nil {
		t.Fatal(err)
	}
	a.eventually("step 1 waits", a.waitsAtStep(1))
	d, err := a.getDeployment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.checkEqual("the mark", `{"rolloutName":"web"}`, d.Annotations["rollouts.kruise.io/in-progressing"])
	a.checkNow(a.podsHaveBatchLabels("one", map[string]int{"1": 2}))
	a.setRolloutID("two")
	a.eventually("the pods are counted under the other name", a.podsHaveBatchLabels("two", map[string]int{"1": 2}))
	a.consistently("the step waits", a.waitsAtStep(1))
	a.promoteAll()
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v1": 6})
	after, err := a.replicaSets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.checkEqual("the number of ReplicaSets", len(sets), len(after))
}

// deletePodOf deletes one pod of a release.
func (a *app) deletePodOf(id string) {
	a.t.Helper()
	var pods corev1.PodList
	if err := testEnv.client.List(a.t.Context(), &pods, client.InNamespace(a.namespace), client.MatchingLabels{"rollouts.kruise.io/rollout-id": id}); err != nil {
		a.t.Fatal(err)
	}
	if len(pods.Items) == 0 {
		a.t.Fatalf("no pod of release %s", id)
	}
	if err := testEnv.client.Delete(a.t.Context(), &pods.Items[0]); err != nil {
		a.t.Fatal(err)
	}
}
