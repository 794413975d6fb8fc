// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// A mark that is longer than any that Weir or OpenKruise writes is replaced: it would take the
// room that a workload has for the records of its release.
func TestLongMarkIsReplaced(t *testing.T) {
	row, ok := Find("apps/v1", "Deployment", rollouts.StylePartition)
	if !ok {
		t.Fatal("no row")
	}
	for _, k := range []planner.Known{{Holder: "web"}, {Releasing: true}} {
		for mark, tampered := range map[string]bool{
			`{"rolloutName":"web"}`: false,
			"true":                  false,
			`{"rolloutName":"` + strings.Repeat("x", 190<<10) + `"}`: true,
		} {
			d, owned := read(t, "held")
			d.Annotations[rollouts.AnnotationInProgress] = mark
			hold := row.HoldOf(d, owned, k)
			if got := slices.Contains(row.TamperedKeys(d, hold), rollouts.AnnotationInProgress); got != tampered || !hold.Held {
				t.Errorf("a mark of %d bytes, holder %q: tampered %t, want %t; held %t", len(mark), k.Holder, got, tampered, hold.Held)
			}
			for _, c := range row.Repair(d, hold, nil) {
				if got := len(c.Want.GetAnnotations()[rollouts.AnnotationInProgress]); got > maxMark {
					t.Errorf("a mark of %d bytes is replaced by one of %d", len(mark), got)
				}
			}
		}
	}
}
