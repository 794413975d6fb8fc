// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestCompareNetworkHolds checks that exactly one of two Rollouts comes first after one of them has
// acquired the network, in both directions of the comparison.
func TestCompareNetworkHolds(t *testing.T) {
	t.Parallel()
	at := func(uid types.UID, phase rollouts.Phase, since int) *rollouts.Rollout {
		r := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{UID: uid}}
		if r.Status.Phase = phase; since >= 0 {
			r.Status.Network = &rollouts.NetworkHold{Since: metav1.Unix(int64(since), 0)}
		}
		return r
	}
	const under, rest = rollouts.PhaseProgressing, rollouts.PhaseHealthy
	for name, tc := range map[string]struct {
		other, mine   *rollouts.Rollout
		routes, first bool
	}{
		"no release":             {at("b", rest, -1), at("a", under, -1), false, false},
		"not acquired":           {at("b", under, -1), at("a", under, -1), true, false},
		"acquired":               {at("b", under, 5), at("a", under, -1), true, true},
		"acquired, then aborted": {at("b", under, 5), at("a", rest, -1), true, true},
		"both, other first":      {at("b", under, 5), at("a", under, 6), true, true},
		"both, this one first":   {at("b", under, 6), at("a", under, 5), true, false},
		"same time, this one":    {at("b", under, 5), at("a", under, 5), true, false},
		"same time, other":       {at("a", under, 5), at("b", under, 5), true, true},
	} {
		if routes, first := planner.CompareNetworkHolds(tc.other, tc.mine); routes != tc.routes || first != tc.first {
			t.Errorf("%s: routes %t, first %t; want %t, %t", name, routes, first, tc.routes, tc.first)
		}
	}
}
