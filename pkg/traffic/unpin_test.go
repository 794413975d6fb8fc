// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// TestUnpinOurs checks that a revision is removed from the selector of a Service only if the
// owner's release has put it there.
func TestUnpinOurs(t *testing.T) {
	foreign := func(o *Objects) { o.Service.Spec.Selector["app"] = "other" }
	for name, tc := range map[string]struct {
		edit  func(*Objects)
		unpin bool
	}{
		"of the workload":                  {func(*Objects) {}, true},
		"of another":                       {foreign, false},
		"of another, with the same":        {func(o *Objects) { foreign(o); o.StableRevision = "one" }, false},
		"given to another":                 {func(o *Objects) { foreign(o); o.StableRevision, o.AcquiredByOwner = "one", true }, true},
		"given, and pinned by its owner":   {func(o *Objects) { foreign(o); o.StableRevision, o.AcquiredByOwner = "two", true }, false},
		"of a workload that has gone":      {func(o *Objects) { o.TemplateLabels, o.StableRevision = nil, "one" }, true},
		"of one that never was":            {func(o *Objects) { o.TemplateLabels = nil }, false},
		"taken by another":                 {func(o *Objects) { o.OtherReleases = []OtherRelease{{Release: "rollout/other", AcquiredFirst: true}} }, false},
		"wanted by another, which waits":   {func(o *Objects) { o.OtherReleases = []OtherRelease{{Release: "rollout/other"}} }, true},
		"of the workload, pinned to other": {func(o *Objects) { o.Service.Spec.Selector[o.RevisionKey] = "zero" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			objs := ingressObjects(t)
			tc.edit(&objs)
			want := ""
			if tc.unpin {
				want = objs.Service.Spec.Selector[objs.RevisionKey]
			}
			if seen := Observe(objs, ingressRef("nginx"), rollouts.Step{}).Pinned; seen != want {
				t.Errorf("pinned to %q, want %q", seen, want)
			}
			if changes := UnpinStableService(objs); len(changes) > 0 != tc.unpin {
				t.Errorf("%d changes, want some: %t", len(changes), tc.unpin)
			}
		})
	}
}
