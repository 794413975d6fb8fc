// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// deleteReplicaSetOf deletes the ReplicaSet of a version, and with it the pods.
func (a *app) deleteReplicaSetOf(version string) {
	a.t.Helper()
	a.guard.atLeast(0)
	sets, err := a.replicaSets(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	for i := range sets {
		if versionOf(&sets[i].Spec.Template.Spec) == version && *sets[i].Spec.Replicas > 0 {
			if err := testEnv.client.Delete(a.t.Context(), &sets[i], client.PropagationPolicy("Background")); err != nil {
				a.t.Fatal(err)
			}
		}
	}
}

// hasReadyPods returns a check that this many pods of a version are ready, regardless of other
// versions.
func (a *app) hasReadyPods(version string, n int32) func(context.Context) error {
	return func(ctx context.Context) error {
		sets, err := a.replicaSets(ctx)
		if err != nil {
			return err
		}
		got := int32(0)
		for i := range sets {
			if versionOf(&sets[i].Spec.Template.Spec) == version {
				got += sets[i].Status.ReadyReplicas
			}
		}
		if got != n {
			return fmt.Errorf("%d pods of %s, want %d", got, version, n)
		}
		return nil
	}
}

// serviceIsUnpinned returns an error unless the Service selects pods of every version.
func (a *app) serviceIsUnpinned(ctx context.Context) error {
	s := &corev1.Service{}
	err := testEnv.client.Get(ctx, a.key(name), s)
	if hash := s.Spec.Selector["pod-template-hash"]; err == nil && hash != "" {
		err = fmt.Errorf("the Service selects %s", hash)
	}
	return err
}

// awaitStalledVerb waits until an abort or a rollback reports that the stable version was deleted,
// and names a RolloutHistory with its template.
func (a *app) awaitStalledVerb(verb string) {
	a.t.Helper()
	a.post(testEnv.admin, verb, "", http.StatusCreated)
	a.eventually(verb+" stalls", func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(r.Status.Conditions, func(c v1beta1.Condition) bool { return c.Type == "Stalled" && c.Reason == "StableGone" })
		if i < 0 {
			return fmt.Errorf("the release is not stalled: %s", describe(r))
		}
		told := r.Status.Conditions[i].Message
		var histories v1alpha1.RolloutHistoryList
		if err := testEnv.client.List(ctx, &histories, client.InNamespace(a.namespace)); err != nil {
			return err
		}
		for i := range histories.Items {
			if h := &histories.Items[i]; h.Spec.Stable != nil && strings.Contains(told, h.Name) {
				return nil
			}
		}
		return fmt.Errorf("%q names no history", told)
	})
}

// TestStableDeleted deletes the ReplicaSet of the stable version during a release. The native
// controller scales up the new ReplicaSet, which then gets all traffic. An abort and a rollback
// stall. Setting the earlier template manually cancels the release.
func TestStableDeleted(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.deleteReplicaSetOf("v1")
	a.eventually("the native controller gives all pods to v2", a.runs(versions{"v2": 6}))
	a.eventually("the Service selects them", a.serviceSelects(name, versions{"v2": 6}))
	a.checkNow(a.waitsAtStep(1))
	a.guard.atLeast(5)
	a.awaitStalledVerb("abort")
	a.awaitStalledVerb("rollback")
	a.checkNow(a.runs(versions{"v2": 6}))
	a.release("v1")
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v1": 6})
	a.checkRestored(workloadTypeLabel)
}

// TestStableDeletedAfterAbort deletes it after an abort. The native controller scales up the new
// version, because no other ReplicaSet exists. Setting another template supersedes it.
func TestStableDeletedAfterAbort(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.abort()
	a.checkAborted("v1")
	a.deleteReplicaSetOf("v1")
	a.eventually("the native controller gives all pods to v2", a.runs(versions{"v2": 6}))
	a.eventually("the Service selects them", a.serviceSelects(name, versions{"v2": 6}))
	a.guard.atLeast(5)
	a.awaitStalledVerb("rollback")
	a.release("v3")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.promoteAll()
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v3": 6})
	a.checkRestored(workloadTypeLabel)
}

// TestStableDeletedOtherStyles deletes it in the other styles, in which the native controller
// scales the ReplicaSets. In the canary style, the held Deployment scales up the newest version of
// its history, which is not the released one. In the blue-green style it scales up the new version.
func TestStableDeletedOtherStyles(t *testing.T) {
	t.Parallel()
	for style, tc := range map[string]struct {
		plan plan
		// gets is the version that the native controller scales up.
		gets string
	}{"canary": {defaultPlanWithExtraDeployment(), "v1"}, "blue-green": {blueGreenPlan(), "v3"}} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			a := start(t, tc.plan)
			a.release("v2")
			a.eventually("step 1 waits", a.messageContains("manually confirm"))
			a.promoteAll()
			a.eventually("the Rollout is Healthy", a.isHealthy)
			a.awaitPods(versions{"v2": 6})
			a.release("v3")
			a.eventually("step 1 waits", a.messageContains("manually confirm"))
			a.deleteReplicaSetOf("v2")
			a.eventually("stable has no pods", a.hasReadyPods("v2", 0))
			a.eventually("the native controller gives them to "+tc.gets, a.hasReadyPods(tc.gets, 6))
			a.eventually("the Service selects all pods", a.serviceIsUnpinned)
			a.guard.atLeast(5)
			a.awaitStalledVerb("abort")
			a.release("v2")
			a.eventually("the Rollout is Healthy", a.isHealthy)
			a.awaitPods(versions{"v2": 6})
			a.checkRestored(workloadTypeLabel)
		})
	}
}
