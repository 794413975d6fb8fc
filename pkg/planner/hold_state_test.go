// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestStableRevisionOfDeletedRollout supersedes a release that sends all requests to the new
// version while some old pods remain. The BatchRelease then scales up the new version, which is the
// stable version of the next release. A deletion of the Rollout does not change this, because these
// pods serve all requests.
func TestStableRevisionOfDeletedRollout(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		drive *rollouts.Drive
		want  string
	}{
		"abort":     {&rollouts.Drive{Abort: true}, "v2"},
		"release":   {&rollouts.Drive{}, ""},
		"no target": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "rollout"}}
			r.Spec.Strategy.Canary = &rollouts.Release{}
			r.Status.Phase = rollouts.PhaseTerminating
			r.Status.SetActive(rollouts.StylePartition, &rollouts.Progress{StableRevision: "v1", UpdateRevision: "v2", State: rollouts.StepCompleted})
			b := &rollouts.BatchRelease{ObjectMeta: metav1.ObjectMeta{Name: "web", OwnerReferences: []metav1.OwnerReference{
				{Kind: "Rollout", Name: "web", UID: r.UID, Controller: new(true)},
			}}}
			b.Spec.Plan.StableRevision = "v2"
			b.Status = rollouts.BatchReleaseStatus{Phase: rollouts.PhaseProgressing, Drive: tc.drive}
			if got := planner.HoldStateOf(r, b).Stable; got != tc.want {
				t.Errorf("the stable revision is %q, want %q", got, tc.want)
			}
		})
	}
}
