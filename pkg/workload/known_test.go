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
func TestSeeLongMark(t *testing.T) {
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
			s := row.See(d, owned, k)
			if got := slices.Contains(s.TamperedKeys, rollouts.AnnotationInProgress); got != tampered || !held(s.Object) {
				t.Errorf("a mark of %d bytes, holder %q: tampered %t, want %t; held %t", len(mark), k.Holder, got, tampered, held(s.Object))
			}
			if got := len(s.Object.GetAnnotations()[rollouts.AnnotationInProgress]); got > maxMark {
				t.Errorf("a mark of %d bytes is seen as one of %d", len(mark), got)
			}
		}
	}
}
