// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
)

// TestHistory checks that every release has a RolloutHistory with its version, its decisions and
// its outcome. Histories outlive their Rollout, and only a limited number is kept.
func TestHistory(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	alice := a.userWithClusterRole("historian-alice", "weir-promoter")
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.eventually("the release has a history", a.hasHistories("1 "))
	a.post(alice, "promote", `{"reason":"looks fine","expect":{"step":1}}`, http.StatusCreated)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.promoteAll()
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("the release is complete", a.hasHistories("1 completed succeeded"))
	a.checkHistory(1)

	a.release("v3")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.abort()
	a.eventually("the history contains the abort", a.hasHistories("1 completed succeeded", "2  aborted"))
	a.cancel("v2")
	a.eventually("the release is complete", a.hasHistories("1 completed succeeded", "2 completed aborted"))

	testEnv.admin.kubectl(a, "get", "rollouthistories", "-l", "rollouts.kruise.io/rollout-name="+name).mustSucceed(name + "-")
	testEnv.admin.kubectl(a, "get", "rollouthistories", "-o", `jsonpath={range .items[*]}{.status.outcome} {end}`).mustSucceed("succeeded", "aborted")

	a.release("v4")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	r, err := a.getRollout(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := testEnv.client.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	a.eventually("the last release has a history, and the oldest history is deleted", a.hasHistories("2 completed aborted", "3 completed deleted"))
}

// checkHistory checks all fields of the history of the first release.
func (a *app) checkHistory(number int) {
	a.t.Helper()
	all, err := a.histories(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	h := all[number-1]
	var decisions []string
	for _, d := range h.Status.Decisions {
		decisions = append(decisions, fmt.Sprintf("%s %d %s %s %s", d.Verb, d.Step, d.User, d.Outcome, d.Reason))
	}
	a.checkEqual("the decisions", []string{"promote 1 historian-alice applied looks fine", "promote 2 admin applied "}, decisions)
	var steps []int32
	for _, s := range h.Status.CanarySteps {
		steps = append(steps, s.CanaryStepIndex)
		if s.EnteredTime == nil || s.UpgradedTime == nil || s.LeftTime == nil || s.LeftTime.Before(s.EnteredTime) {
			a.t.Errorf("step %d has the times %+v", s.CanaryStepIndex, s.StepTimes)
		}
	}
	a.checkEqual("the steps", []int32{1, 2, 3}, steps)
	if h.Status.StartTime == nil || h.Status.EndTime == nil || h.Status.StableRevision == "" || h.Status.UpdateRevision == "" {
		a.t.Errorf("something is missing in %+v", h.Status)
	}
	if h.Spec.Rollout == nil || h.Spec.Workload == nil || h.Spec.Service == nil || h.Spec.TrafficRouting == nil || h.Spec.Stable == nil {
		a.t.Fatalf("something is missing in %+v", h.Spec)
	}
	var stable appsv1.ReplicaSetSpec
	if err := json.Unmarshal(h.Spec.Stable.Data.Raw, &stable); err != nil {
		a.t.Fatal(err)
	}
	a.checkEqual("the stable version", "v1", versionOf(&stable.Template.Spec))
	var plan v1alpha1.RolloutSpec
	if err := json.Unmarshal(h.Spec.Rollout.Data.Raw, &plan); err != nil {
		a.t.Fatal(err)
	}
	a.checkEqual("the number of steps", 3, len(plan.Strategy.Canary.Steps))
}

// histories returns the histories of the application, ordered by release.
func (a *app) histories(ctx context.Context) ([]v1alpha1.RolloutHistory, error) {
	var list v1alpha1.RolloutHistoryList
	if err := testEnv.client.List(ctx, &list, client.InNamespace(a.namespace)); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(x, y v1alpha1.RolloutHistory) int { return cmp.Compare(numberOf(&x), numberOf(&y)) })
	return list.Items, nil
}

func numberOf(h metav1.Object) string { return h.GetLabels()["rollouts.kruise.io/release-number"] }

// hasHistories returns a check that exactly these histories exist, each as "number phase outcome".
func (a *app) hasHistories(want ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		all, err := a.histories(ctx)
		var got []string
		for i := range all {
			h := &all[i]
			text := fmt.Sprintf("%s %s %s", numberOf(h), h.Status.Phase, h.Status.Outcome)
			if h.Status.Outcome == "" {
				text = numberOf(h) + " " + h.Status.Phase
			}
			got = append(got, text)
		}
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("histories are %q, want %q", got, want)
		}
		return err
	}
}
