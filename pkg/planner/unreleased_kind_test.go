// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// TestUnsupportedKind checks that a Rollout of an unsupported kind, which --any-workload-kind
// admits, can be disabled and deleted. Weir has not changed its workload.
func TestUnsupportedKind(t *testing.T) {
	t.Parallel()
	for name, ending := range map[string]string{"deleted": "delete rollout/web", "disabled": "disable web"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			s.run([]string{"deployment web replicas=2 image=v1", "rollout web", "  step 100%", "settle"})
			s.w.editRollout("web", func(spec *rollouts.RolloutSpec) { spec.WorkloadRef.Kind = "Robot" })
			s.run([]string{ending, "settle"})
			switch r := find[*rollouts.Rollout](s.w.store.objects, kindRollout, "web"); {
			case name == "deleted" && r != nil:
				t.Errorf("it is still there: %+v", r.Status)
			case name == "disabled" && r.Status.Phase != rollouts.PhaseDisabled:
				t.Errorf("it is %s: %s", r.Status.Phase, r.Status.Message)
			}
		})
	}
}
