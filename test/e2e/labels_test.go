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

// Pods of a release with a name say which batch brought them, already when the
// step waits; a pod that is replaced and a release that is renamed get theirs,
// and nothing else moves.
func TestPodLabels(t *testing.T) {
	t.Parallel()
	a := start(t, plain())
	a.called("one")
	a.stays("a name alone releases nothing", a.runs(versions{"v1": 6}))
	a.release("v2")
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
