// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// BenchmarkObserve measures what every event of a Deployment costs during a release, before any
// decision.
func BenchmarkObserve(b *testing.B) {
	d, owned := readState(b, "driven")
	for b.Loop() {
		deployment{}.Observe(d, owned, HoldFromRecords(d))
	}
}

// BenchmarkScaling measures how the size controller reads its facts.
func BenchmarkScaling(b *testing.B) {
	d, owned := readState(b, "driven")
	for b.Loop() {
		deployment{}.ScalingFacts(d, owned, HoldFromRecords(d))
	}
}

// BenchmarkFacts measures what one reconcile of a Rollout or BatchRelease observes of its
// Deployment.
func BenchmarkFacts(b *testing.B) {
	row, ok := Find("apps/v1", "Deployment", rollouts.StylePartition)
	if !ok {
		b.Fatal("no row")
	}
	d, owned := readState(b, "driven")
	k := planner.HoldState{
		Holder: "web", Batch: "batch", Style: rollouts.StylePartition,
		Target: &planner.Target{Partition: intstr.FromString("25%"), Owner: "batch"},
	}
	for b.Loop() {
		row.Facts(d, owned, row.HoldOf(d, owned, k), nil)
	}
}
