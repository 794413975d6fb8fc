// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestForgedStatus forges the status of a BatchRelease: another current batch, or a claim that all
// pods are back already. The forged fields decide neither the number of new pods nor their labels.
func TestForgedStatus(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(*rollouts.BatchReleaseStatus){
		"nothing":                         func(*rollouts.BatchReleaseStatus) {},
		"the last batch":                  func(s *rollouts.BatchReleaseStatus) { s.CurrentBatch = 2 },
		"a batch beyond the plan":         func(s *rollouts.BatchReleaseStatus) { s.CurrentBatch = 7 },
		"a negative batch":                func(s *rollouts.BatchReleaseStatus) { s.CurrentBatch = -3 },
		"all pods counted as rolled back": func(s *rollouts.BatchReleaseStatus) { s.NoNeedUpdateReplicas = new(int32(10)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &rollouts.BatchRelease{}
			b.UID, b.Generation = "batch", 1
			b.Spec.Plan = rollouts.ReleasePlan{
				BatchPartition: new(int32), RolloutID: "v2", RollingStyle: rollouts.StylePartition, Revision: "v2", StableRevision: "v1",
				Batches: []rollouts.Batch{{CanaryReplicas: intstr.FromString("20%")}, {CanaryReplicas: intstr.FromString("50%")}, {CanaryReplicas: intstr.FromString("100%")}},
			}
			b.Status = rollouts.BatchReleaseStatus{
				Phase: rollouts.PhaseProgressing, BatchState: rollouts.BatchUpgrading, ObservedGeneration: 1, ObservedRolloutID: "v2",
				ObservedReleasePlanHash: planner.BatchPlanHash(b.Spec.Plan), ObservedWorkloadReplicas: 10, StableRevision: "v1", UpdateRevision: "v2",
			}
			forge(&b.Status)
			w := &planner.Workload{
				Settled: true, Paused: true, Replicas: 10,
				HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true},
				RevisionFacts: planner.RevisionFacts{StableRevision: "v1", UpdateRevision: "v2", PodTemplateHash: "v2", LiveRevision: "v2"},
				PodFacts:      planner.PodFacts{UpdatedReplicas: 2, UpdatedReadyReplicas: 2, StableReplicas: 8, StableReadyReplicas: 8},
			}
			o := planner.BatchInput{Now: time.Unix(1_800_000_000, 0), Release: b, OwnedByRollout: true, RolloutExists: true, Labels: planner.LabelAlways, Workload: w}
			for i := range 2 {
				name := fmt.Sprintf("web-%d", i)
				o.Pods = append(o.Pods, planner.UpdatedPod{Name: name, UID: types.UID(name)})
			}
			plan := planner.DecideBatch(o)
			if d := plan.Status.Drive; d == nil || d.Partition != intstr.FromString("20%") {
				t.Fatalf("it is told %+v, want 20%%", d)
			}
			w.Target = &planner.Target{Partition: plan.Status.Drive.Partition, Owner: "batch", Revision: planner.Revision{Name: "v2"}}
			w.TargetApplied = true
			b.Status.Drive = plan.Status.Drive
			for _, a := range planner.DecideBatch(o).Effects {
				if marks, ok := a.(planner.LabelPods); ok {
					for _, m := range marks.Labels {
						if m.Batch != 1 {
							t.Errorf("pod %s is labelled as of batch %d, want 1", m.Pod, m.Batch)
						}
					}
				}
			}
		})
	}
}
