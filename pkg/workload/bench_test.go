// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// BenchmarkObserve reads a Deployment in the middle of a release: what every
// event of it costs, before anything is decided.
func BenchmarkObserve(b *testing.B) {
	d, owned := read(b, "driven")
	for b.Loop() {
		deployment{}.Observe(d, owned, HoldFromRecords(d))
	}
}

// BenchmarkScaling reads what the size controller goes by.
func BenchmarkScaling(b *testing.B) {
	d, owned := read(b, "driven")
	for b.Loop() {
		deployment{}.ScalingFacts(d, owned, HoldFromRecords(d))
	}
}

// BenchmarkFacts is what one pass over a Rollout or a BatchRelease observes of its Deployment.
func BenchmarkFacts(b *testing.B) {
	row, ok := Find("apps/v1", "Deployment", rollouts.StylePartition)
	if !ok {
		b.Fatal("no row")
	}
	d, owned := read(b, "driven")
	k := planner.HoldState{
		Holder: "web", Batch: "batch", Style: rollouts.StylePartition,
		Target: &planner.Target{Partition: intstr.FromString("25%"), Owner: "batch"},
	}
	for b.Loop() {
		row.Facts(d, owned, row.HoldOf(d, owned, k), nil)
	}
}
