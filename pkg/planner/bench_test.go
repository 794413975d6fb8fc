// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// BenchmarkRollout measures one pass over a Rollout whose step waits. Every event of the workload
// causes such a pass.
func BenchmarkRollout(b *testing.B) {
	twenty, all := intstr.FromString("20%"), intstr.FromString("100%")
	r := &rollouts.Rollout{Spec: rollouts.RolloutSpec{
		WorkloadRef: &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
		Strategy:    rollouts.Strategy{Canary: &rollouts.Release{Steps: []rollouts.Step{{Replicas: &twenty}, {Replicas: &all}}}},
	}}
	w := &planner.Workload{
		Settled: true, Labelled: true, Paused: true, Replicas: 10,
		HoldFacts:     planner.HoldFacts{Held: true, HasManagedFields: true},
		RevisionFacts: planner.RevisionFacts{StableRevision: "one", UpdateRevision: "two", PodTemplateHash: "two"},
	}
	r.Status.Phase = rollouts.PhaseHealthy
	observed := planner.Input{Now: time.Unix(1000, 0), Rollout: r, Workload: w, Indexed: true, Listed: true}
	r.Status = planner.Decide(observed).Status
	r.Status.Canary.State = rollouts.StepPaused
	for b.Loop() {
		planner.Decide(observed)
	}
}

// BenchmarkSizeSets measures one pass over the ReplicaSets of a held Deployment.
func BenchmarkSizeSets(b *testing.B) {
	facts := sizes.Scaling{
		Replicas: 100, Surge: 25, Unavailable: 25, Target: 20,
		Update: &sizes.Set{Name: "two", Replicas: 10, Ready: 8, Available: 8},
		Stable: &sizes.Set{Name: "one", Replicas: 95, Ready: 95, Available: 95},
	}
	for b.Loop() {
		sizes.Decide(facts)
	}
}
