// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
)

// What was stored before there was a limit can become smaller and lose its
// finalizers; it cannot grow.
func TestSizeStoredBefore(t *testing.T) {
	t.Parallel()
	annotate := func(bytes int) func(*rollouts.Rollout) {
		return func(r *rollouts.Rollout) { r.Annotations = map[string]string{"a": strings.Repeat("a", bytes)} }
	}
	const large, larger = 600 << 10, 700 << 10
	for name, tt := range map[string]struct {
		change func(*rollouts.Rollout)
		want   []string
	}{
		"as it is": {change: func(*rollouts.Rollout) {}},
		"smaller":  {change: annotate(large - 1)},
		"small":    {change: annotate(10)},
		"larger":   {change: annotate(larger), want: []string{"metadata.annotations: Too long"}},
		"smaller, by somebody new": {change: func(r *rollouts.Rollout) {
			annotate(large - 1)(r)
			r.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "me"}}
		}},
		"as it is, by somebody new": {change: func(r *rollouts.Rollout) {
			r.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "me"}}
		}, want: []string{"metadata.annotations: Too long"}},
		"many appliers": {change: func(r *rollouts.Rollout) {
			for range 10_000 {
				r.ManagedFields = append(r.ManagedFields, metav1.ManagedFieldsEntry{Manager: strings.Repeat("m", 100)})
			}
		}, want: []string{"metadata.managedFields: Too long"}},
		"many decisions": {change: func(r *rollouts.Rollout) { r.Status.Decisions = make([]rollouts.Decision, 300) }},
		"no finalizer, and who took it away": {change: func(r *rollouts.Rollout) {
			annotate(large + 100)(r)
			r.Finalizers = nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := valid()
			old.Finalizers = []string{"rollouts.kruise.io/rollout"}
			annotate(large)(old)
			r := old.DeepCopy()
			tt.change(r)
			if diff := cmp.Diff(tt.want, render(validation.ValidateSize(validation.WeighRollout(r), validation.WeighRollout(old)))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// The same of conditions of others: those that stay, stay accepted.
func TestConditionsStoredBefore(t *testing.T) {
	t.Parallel()
	old := valid()
	for i := range 40 {
		old.Status.Conditions = append(old.Status.Conditions, rollouts.Condition{
			Type: rollouts.ConditionType(fmt.Sprintf("Gate%d", i)), Status: "True", Message: strings.Repeat("a", 2000),
		})
	}
	for name, tt := range map[string]struct {
		change func(*rollouts.RolloutStatus)
		want   []string
	}{
		"as they are":      {change: func(*rollouts.RolloutStatus) {}},
		"one smaller":      {change: func(s *rollouts.RolloutStatus) { s.Conditions[3].Message = "a" }},
		"one says another": {change: func(s *rollouts.RolloutStatus) { s.Conditions[3].Message = strings.Repeat("b", 2000) }},
		"one larger":       {change: func(s *rollouts.RolloutStatus) { s.Conditions[3].Message += "a" }, want: []string{"status.conditions[Gate3]: Too long"}},
		"one less":         {change: func(s *rollouts.RolloutStatus) { s.Conditions = s.Conditions[1:] }},
		"one more":         {change: func(s *rollouts.RolloutStatus) { s.Conditions = append(s.Conditions, rollouts.Condition{Type: "Gate"}) }, want: []string{"status.conditions: Too many"}},
		"one more, of ours": {change: func(s *rollouts.RolloutStatus) {
			s.Conditions = append(s.Conditions, rollouts.Condition{Type: rollouts.ConditionProgressing})
		}},
		"some of ours, twice": {change: func(s *rollouts.RolloutStatus) {
			s.Conditions = append(s.Conditions, rollouts.Condition{Type: rollouts.ConditionProgressing}, rollouts.Condition{Type: rollouts.ConditionProgressing})
		}, want: []string{"status.conditions: Too many"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := old.DeepCopy()
			tt.change(&r.Status)
			if diff := cmp.Diff(tt.want, render(validation.ValidateRolloutStatusUpdate(r, old, beta))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
