// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import "testing"

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
		deployment{}.Scaling(d, owned, HoldFromRecords(d))
	}
}
