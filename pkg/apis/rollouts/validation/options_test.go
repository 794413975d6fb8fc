// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
)

func TestValidateDecisionOptions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		options rollouts.DecisionOptions
		want    []string
	}{
		"nothing": {},
		"everything": {options: rollouts.DecisionOptions{
			// Characters count, not bytes.
			Reason: strings.Repeat("ü", 1024), RequestID: strings.Repeat("ü", 63), Expect: &rollouts.Expectation{Step: new(int32(1))},
		}},
		"too long": {
			options: rollouts.DecisionOptions{
				Reason: strings.Repeat("a", 1025), RequestID: strings.Repeat("a", 64), Expect: &rollouts.Expectation{Step: new(int32(0))},
			},
			want: []string{"reason: Too long", "requestID: Too long", "expect.step: Invalid value"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, render(validation.ValidateDecisionOptions(&test.options))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestValidateBatchRelease(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*rollouts.BatchReleaseSpec)
		want   []string
	}{
		"valid":       {change: func(*rollouts.BatchReleaseSpec) {}},
		"no workload": {change: func(s *rollouts.BatchReleaseSpec) { s.WorkloadRef = nil }, want: []string{"workloadRef: Required value"}},
		"no name":     {change: func(s *rollouts.BatchReleaseSpec) { s.WorkloadRef.Name = "" }, want: []string{"workloadRef.name: Required value"}},
		"a batch above 100%": {
			change: func(s *rollouts.BatchReleaseSpec) { s.Plan.Batches[1].CanaryReplicas = *percent("101%") },
			want:   []string{"releasePlan.batches[1].canaryReplicas: Invalid value"},
		},
		"a negative batch": {
			change: func(s *rollouts.BatchReleaseSpec) { s.Plan.Batches[0].CanaryReplicas = *number(-1) },
			want:   []string{"releasePlan.batches[0].canaryReplicas: Invalid value"},
		},
		"a batch before the first": {
			change: func(s *rollouts.BatchReleaseSpec) { s.Plan.BatchPartition = new(int32(-1)) },
			want:   []string{"releasePlan.batchPartition: Invalid value"},
		},
		"an unknown style and policy": {
			change: func(s *rollouts.BatchReleaseSpec) { s.Plan.RollingStyle, s.Plan.FinalizingPolicy = "Red", "Never" },
			want:   []string{"releasePlan.rollingStyle: Unsupported value", "releasePlan.finalizingPolicy: Unsupported value"},
		},
		"an invalid threshold": {
			change: func(s *rollouts.BatchReleaseSpec) { s.Plan.FailureThreshold = percent("few") },
			want:   []string{"releasePlan.failureThreshold: Invalid value"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := &rollouts.BatchRelease{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ResourceVersion: "1"},
				Spec: rollouts.BatchReleaseSpec{
					WorkloadRef: &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
					Plan: rollouts.ReleasePlan{
						Batches:        []rollouts.Batch{{CanaryReplicas: *number(0)}, {CanaryReplicas: *percent("100%")}},
						BatchPartition: new(int32(0)), RollingStyle: rollouts.StylePartition, FinalizingPolicy: rollouts.WaitResume,
					},
				},
			}
			b := old.DeepCopy()
			test.change(&b.Spec)
			for action, errs := range map[string][]string{
				"create": render(validation.ValidateBatchRelease(b)),
				"update": render(validation.ValidateBatchReleaseUpdate(b, old)),
			} {
				for i := range errs {
					errs[i] = strings.TrimPrefix(errs[i], "spec.")
				}
				if diff := cmp.Diff(test.want, errs); diff != "" {
					t.Errorf("%s: (-want +got)\n%s", action, diff)
				}
			}
			if errs := validation.ValidateBatchReleaseUpdate(b, b); len(errs) > 0 {
				t.Errorf("a spec that stays was refused: %v", errs)
			}
		})
	}
}
