// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"regexp"
	"testing"
)

// TestDigestsAreWhole has digests that decide something: part of a digest can be forged.
func TestDigestsAreWhole(t *testing.T) {
	t.Parallel()
	whole := regexp.MustCompile(`(^| )[0-9a-f]{64} ?$`)
	if mark := (&checked{}).mark(); !whole.MatchString(mark) {
		t.Errorf("the evidence of a check begins with %q", mark)
	}
	if target := targetOf(RouteTo{}); !whole.MatchString(target) {
		t.Errorf("a target is known by %q", target)
	}
}
