// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestLongMarkIsReplaced checks that a mark that is longer than any mark of Weir or OpenKruise is
// replaced: it would take the space that the records of the release need.
func TestLongMarkIsReplaced(t *testing.T) {
	row, ok := Find("apps/v1", "Deployment", rollouts.StylePartition)
	if !ok {
		t.Fatal("no row")
	}
	for _, k := range []planner.HoldState{{Holder: "web"}, {Releasing: true}} {
		for mark, tampered := range map[string]bool{
			`{"rolloutName":"web"}`: false,
			"true":                  false,
			`{"rolloutName":"` + strings.Repeat("x", 190<<10) + `"}`: true,
		} {
			d, owned := readState(t, "held")
			d.Annotations[rollouts.AnnotationInProgress] = mark
			hold := row.HoldOf(d, owned, k)
			keys, _ := row.checkRecords(d, hold)
			if got := slices.Contains(keys, rollouts.AnnotationInProgress); got != tampered || !hold.Held {
				t.Errorf("a mark of %d bytes, holder %q: tampered %t, want %t; held %t", len(mark), k.Holder, got, tampered, hold.Held)
			}
			if got := len(hold.copyOf(d).GetAnnotations()[rollouts.AnnotationInProgress]); got > maxMark {
				t.Errorf("a mark of %d bytes is replaced by one of %d", len(mark), got)
			}
		}
	}
}

// TestHoldIgnoresForgedRecords checks that the state of a release is that of the store, whatever the
// annotations of the workload say, and that the first repair corrects them.
func TestHoldIgnoresForgedRecords(t *testing.T) {
	row, ok := Find("apps/v1", "Deployment", rollouts.StylePartition)
	if !ok {
		t.Fatal("no row")
	}
	quarter := &planner.Target{Partition: intstr.FromString("25%"), Owner: "batch"}
	forged := map[string]string{
		rollouts.AnnotationInProgress:         `{"rolloutName":"mallory"}`,
		rollouts.AnnotationControlInfo:        `{"uid":"mallory"}`,
		rollouts.AnnotationDeploymentStrategy: `{"rollingStyle":"Canary","partition":"100%"}`,
	}
	for name, tt := range map[string]struct {
		known     planner.HoldState
		held      bool
		target    *planner.Target
		stable    string
		remaining []string
	}{
		"no release":    {known: planner.HoldState{}},
		"held":          {known: planner.HoldState{Holder: "web", Stable: "one"}, held: true, stable: "one", remaining: []string{rollouts.AnnotationInProgress}},
		"with a target": {known: planner.HoldState{Holder: "web", Stable: "one", Style: rollouts.StylePartition, Batch: "batch", Target: quarter}, held: true, target: quarter, stable: "one", remaining: slices.Sorted(maps.Keys(forged))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, owned := readState(t, "native")
			d.Annotations = maps.Clone(forged)
			setLabel(d, rollouts.LabelStableRevision, "mallory")
			hold := row.HoldOf(d, owned, tt.known)
			if hold.Held != tt.held || hold.Stable != tt.stable {
				t.Errorf("held %t, stable %q; want %t and %q", hold.Held, hold.Stable, tt.held, tt.stable)
			}
			if diff := cmp.Diff(tt.target, hold.Target()); diff != "" {
				t.Errorf("target (-want +got):\n%s", diff)
			}
			changes := row.RepairRecords(d, hold, nil)
			if len(changes) != 1 {
				t.Fatalf("%d changes, want one that repairs the records", len(changes))
			}
			repaired := changes[0].Want
			if diff := cmp.Diff(tt.target, HoldFromRecords(repaired).Target()); diff != "" {
				t.Errorf("recorded target (-want +got):\n%s", diff)
			}
			if left, _ := row.checkRecords(repaired, row.HoldOf(repaired, owned, tt.known)); len(left) > 0 {
				t.Errorf("the repair leaves %v", left)
			}
			for key := range forged {
				value, kept := repaired.GetAnnotations()[key]
				if kept != slices.Contains(tt.remaining, key) || strings.Contains(value, "mallory") {
					t.Errorf("%s is %q", key, value)
				}
			}
		})
	}
}
