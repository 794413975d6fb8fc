// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"math"
	"testing"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// TestPlannedRouteIsBounded checks that a status with any step number causes no read beyond the routes
// of the plan.
func TestPlannedRouteIsBounded(t *testing.T) {
	t.Parallel()
	f := newFacts(approvedStep(time.Unix(0, 0)))
	f.plan.Steps[0].Traffic = new("20%")
	f.status.Active().CurrentStepIndex = math.MaxInt32
	if got := plannedRoute(f, Route{}); !got.Equals(RouteOf(rollouts.Step{Traffic: new("20%")})) {
		t.Errorf("the route is %v", got)
	}
}
