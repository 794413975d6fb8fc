// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// ExampleDecide shows a Rollout at rest whose workload has a new template and is held. The Rollout
// starts a release.
func ExampleDecide() {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	r := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	r.Spec.WorkloadRef = &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	r.Spec.Strategy.Canary = &rollouts.Release{Steps: []rollouts.Step{{Replicas: new(intstr.FromString("20%"))}, {Replicas: new(intstr.FromString("100%"))}}}
	r.Status.Phase = rollouts.PhaseHealthy
	d := planner.Decide(planner.Input{
		Now: now, Rollout: r, Indexed: true, Listed: true,
		Workload: &planner.Workload{
			Labelled: true, Settled: true, Replicas: 10,
			HoldFacts:     planner.HoldFacts{Held: true, OwnerStrategyActive: true},
			RevisionFacts: planner.RevisionFacts{StableRevision: "v1", UpdateRevision: "v2"},
			PodFacts:      planner.PodFacts{StableReplicas: 10, StableReadyReplicas: 10},
		},
	})
	fmt.Print(d)
	// Output:
	// state    InStep
	// passed   healthy, waiting to start, in progress, step 1 BeforeStepUpgrade, step 1 StepUpgrade
	// gate     jump: Pass
	// action   batch 0: 20%, for "step 1 StepUpgrade"
	// event    RolloutStarted: release of revision v2 has started
	// wake     in 10m0s
}
