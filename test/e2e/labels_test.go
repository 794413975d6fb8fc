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

// labelled wants so many pods of each batch of a release.
func (a *app) labelled(id string, want map[string]int) func(context.Context) error {
	return func(ctx context.Context) error {
		var pods corev1.PodList
		if err := here.client.List(ctx, &pods, client.InNamespace(a.namespace), client.MatchingLabels{"rollouts.kruise.io/rollout-id": id}); err != nil {
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

// called gives the release a name, and nothing else.
func (a *app) called(id string) {
	a.t.Helper()
	if err := a.patch(fmt.Sprintf(`{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":%q}}}`, id)); err != nil {
		a.t.Fatal(err)
	}
}

// releaseAs changes the version and names its release.
func (a *app) releaseAs(id, version string) {
	a.t.Helper()
	if err := a.patch(fmt.Sprintf(`{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":%q}},
		"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, id, name, image(version))); err != nil {
		a.t.Fatal(err)
	}
}

// Pods of a release with a name say which batch brought them, already when the
// step waits; a pod that is replaced and a release that is renamed get theirs,
// and nothing else moves.
func TestPodLabels(t *testing.T) {
	t.Parallel()
	a := start(t, plain())
	a.releaseAs("one", "v2")
	a.until("step 1 waits", a.waitsAt(1))
	a.sees(a.labelled("one", map[string]int{"1": 2}))
	a.promote(1)
	a.until("step 2 waits", a.waitsAt(2))
	a.sees(a.labelled("one", map[string]int{"1": 2, "2": 1}))
	a.called("two")
	a.until("the pods are counted under the other name", a.labelled("two", map[string]int{"1": 2, "2": 1}))
	a.stays("the step waits", a.waitsAt(2))
	a.sees(a.labelled("one", map[string]int{}))
	a.deletePodOf("two")
	a.until("another pod takes its place", a.labelled("two", map[string]int{"1": 2, "2": 1}))
	a.promote(2)
	a.until("the Rollout is Healthy", a.healthy)
	a.settled(versions{"v2": 6})
	a.sees(a.labelled("two", map[string]int{"1": 2, "2": 1, "3": 3}))
}

// A name alone is a release: it goes through the steps, with their traffic, and no pod
// is replaced. Where a client writes the mark of a release beside it, only the name
// counts.
func TestNameAlone(t *testing.T) {
	t.Parallel()
	a := start(t, usual())
	sets, err := a.sets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.patch(`{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":"one"},"annotations":{"rollouts.kruise.io/in-progressing":"true"}}}`); err != nil {
		t.Fatal(err)
	}
	a.until("step 1 waits", a.waitsAt(1))
	d, err := a.deployment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.same("the mark", `{"rolloutName":"web"}`, d.Annotations["rollouts.kruise.io/in-progressing"])
	a.sees(a.labelled("one", map[string]int{"1": 2}))
	a.called("two")
	a.until("the pods are counted under the other name", a.labelled("two", map[string]int{"1": 2}))
	a.stays("the step waits", a.waitsAt(1))
	a.promoteAll()
	a.until("the Rollout is Healthy", a.healthy)
	a.settled(versions{"v1": 6})
	after, err := a.sets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.same("the number of ReplicaSets", len(sets), len(after))
}

// deletePodOf deletes one pod of a release.
func (a *app) deletePodOf(id string) {
	a.t.Helper()
	var pods corev1.PodList
	if err := here.client.List(a.t.Context(), &pods, client.InNamespace(a.namespace), client.MatchingLabels{"rollouts.kruise.io/rollout-id": id}); err != nil {
		a.t.Fatal(err)
	}
	if len(pods.Items) == 0 {
		a.t.Fatalf("no pod of release %s", id)
	}
	if err := here.client.Delete(a.t.Context(), &pods.Items[0]); err != nil {
		a.t.Fatal(err)
	}
}
