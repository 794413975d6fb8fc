// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// TestUnpinOurs takes a revision off the selector of a Service only where it is that
// of the owner's release.
func TestUnpinOurs(t *testing.T) {
	foreign := func(o *Objects) { o.Service.Spec.Selector["app"] = "other" }
	for name, tc := range map[string]struct {
		edit  func(*Objects)
		unpin bool
	}{
		"of the workload":                  {func(*Objects) {}, true},
		"of another":                       {foreign, false},
		"of another, with the same":        {func(o *Objects) { foreign(o); o.StableRevision = "one" }, false},
		"given to another":                 {func(o *Objects) { foreign(o); o.StableRevision, o.Held = "one", true }, true},
		"given, and pinned by its owner":   {func(o *Objects) { foreign(o); o.StableRevision, o.Held = "two", true }, false},
		"of a workload that has gone":      {func(o *Objects) { o.Template, o.StableRevision = nil, "one" }, true},
		"of one that never was":            {func(o *Objects) { o.Template = nil }, false},
		"taken by another":                 {func(o *Objects) { o.Others = []Other{{Who: "rollout/other", First: true}} }, false},
		"wanted by another, which waits":   {func(o *Objects) { o.Others = []Other{{Who: "rollout/other"}} }, true},
		"of the workload, pinned to other": {func(o *Objects) { o.Service.Spec.Selector[o.RevisionKey] = "zero" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			objs := shop(t)
			tc.edit(&objs)
			want := ""
			if tc.unpin {
				want = objs.Service.Spec.Selector[objs.RevisionKey]
			}
			if seen := Observe(objs, ref("nginx"), rollouts.Step{}).Pinned; seen != want {
				t.Errorf("pinned to %q, want %q", seen, want)
			}
			if changes := Unpin(objs); len(changes) > 0 != tc.unpin {
				t.Errorf("%d changes, want some: %t", len(changes), tc.unpin)
			}
		})
	}
}
