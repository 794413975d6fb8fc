// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"regexp"
	"testing"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// TestDigestsAreNotTruncated checks that digests that decide something are not truncated: a truncated
// digest can be forged.
func TestDigestsAreNotTruncated(t *testing.T) {
	t.Parallel()
	whole := regexp.MustCompile(`(^| )[0-9a-f]{64} ?$`)
	c := judgeCheckInStep(facts{}, MeasuredCheck{Planned: rollouts.Check{Use: &rollouts.CheckRef{}}}, 1, time.Time{})
	if both := regexp.MustCompile(`^sha256:[0-9a-f]{64}\+[0-9a-f]{64}\+can-fail $`); !both.MatchString(c.mark()) {
		t.Errorf("the evidence of a check begins with %q", c.mark())
	}
	if target := trafficTargetID(RouteTraffic{}); !whole.MatchString(target) {
		t.Errorf("a target is known by %q", target)
	}
}
