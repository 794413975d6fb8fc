// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
)

// TestValidationAgrees compares the table with the kinds that package validation accepts. That
// package may not import this one.
func TestValidationAgrees(t *testing.T) {
	t.Parallel()
	var all, blueGreen []string
	for _, r := range Table {
		kind := r.GVK.GroupKind().String()
		if !slices.Contains(all, kind) {
			all = append(all, kind)
		}
		if r.Style == rollouts.StyleBlueGreen {
			blueGreen = append(blueGreen, kind)
		}
	}
	for name, tc := range map[string]struct {
		kind     string
		strategy rollouts.Strategy
		want     []string
	}{
		"any style":  {"Widget", rollouts.Strategy{Canary: &rollouts.Release{}}, all},
		"blue-green": {"StatefulSet", rollouts.Strategy{BlueGreen: &rollouts.Release{}}, blueGreen},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ref := &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: tc.kind, Name: "web"}
			r := &rollouts.Rollout{Spec: rollouts.RolloutSpec{WorkloadRef: ref, Strategy: tc.strategy}}
			want := "needs one of " + strings.Join(tc.want, ", ")
			if tc.strategy.BlueGreen == nil {
				want = "use one of " + strings.Join(tc.want, ", ") + ","
			}
			if got := validation.ValidateRollout(r, validation.Options{}).ToAggregate().Error(); !strings.Contains(got, want) {
				t.Errorf("the table has %q, validation says %s", want, got)
			}
		})
	}
}

// TestDescribeKinds checks the sentence that names the kinds of the table.
func TestDescribeKinds(t *testing.T) {
	t.Parallel()
	const want = "a Deployment, a StatefulSet or a DaemonSet of apps/v1 is, a CloneSet or a DaemonSet of apps.kruise.io, or a StatefulSet of any group"
	if got := DescribeKinds(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestTypeLabel checks that a workload gets the label of its row.
func TestTypeLabel(t *testing.T) {
	t.Parallel()
	for _, r := range Table {
		obj := r.New()
		if r.Observe(obj, nil, HoldFromRecords(obj)).Labelled {
			t.Errorf("%s in the style %s is labelled, and has no label", r.GVK, r.Style)
		}
		for _, c := range r.AddTypeLabel(obj, HoldFromRecords(obj)) {
			if !r.Observe(c.Want, nil, HoldFromRecords(c.Want)).Labelled {
				t.Errorf("%s in the style %s is not labelled, and has %v", r.GVK, r.Style, c.Want.GetLabels())
			}
		}
	}
}
