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

// TestSizeStoredBefore checks that an object that was stored before the limit existed can become
// smaller and lose its finalizers, but cannot grow.
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
		"smaller, by a new field manager": {change: func(r *rollouts.Rollout) {
			annotate(large - 1)(r)
			r.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "me"}}
		}},
		"unchanged, by a new field manager": {change: func(r *rollouts.Rollout) {
			r.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "me"}}
		}, want: []string{"metadata.annotations: Too long"}},
		"many field managers": {change: func(r *rollouts.Rollout) {
			for range 10_000 {
				r.ManagedFields = append(r.ManagedFields, metav1.ManagedFieldsEntry{Manager: strings.Repeat("m", 100)})
			}
		}, want: []string{"metadata.managedFields: Too long"}},
		"many decisions": {change: func(r *rollouts.Rollout) { r.Status.Decisions = make([]rollouts.Decision, 300) }},
		"no finalizer, and the field manager that removed it": {change: func(r *rollouts.Rollout) {
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

// TestConditionsStoredBefore checks the same for conditions of other writers: conditions that do
// not change stay accepted.
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
		"as they are":              {change: func(*rollouts.RolloutStatus) {}},
		"one smaller":              {change: func(s *rollouts.RolloutStatus) { s.Conditions[3].Message = "a" }},
		"one with another message": {change: func(s *rollouts.RolloutStatus) { s.Conditions[3].Message = strings.Repeat("b", 2000) }},
		"one larger":               {change: func(s *rollouts.RolloutStatus) { s.Conditions[3].Message += "a" }, want: []string{"status.conditions[Gate3]: Too long"}},
		"one less":                 {change: func(s *rollouts.RolloutStatus) { s.Conditions = s.Conditions[1:] }},
		"one more":                 {change: func(s *rollouts.RolloutStatus) { s.Conditions = append(s.Conditions, rollouts.Condition{Type: "Gate"}) }, want: []string{"status.conditions: Too many"}},
		"one more, of Weir": {change: func(s *rollouts.RolloutStatus) {
			s.Conditions = append(s.Conditions, rollouts.Condition{Type: rollouts.ConditionProgressing})
		}},
		"some of Weir's, twice": {change: func(s *rollouts.RolloutStatus) {
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

// keyed returns n keys without values.
func keyed(n int) map[string]string {
	keys := map[string]string{}
	for i := range n {
		keys[fmt.Sprint("a", i)] = ""
	}
	return keys
}

// TestKeysAreBounded checks the limit of the number of keys, because each key takes far more memory
// than storage. An object that was stored with more keys may keep them or have fewer.
func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	const annotations, labels = "metadata.annotations: Too many: %d: must have at most 512 items", "metadata.labels: Too many: %d: must have at most 512 items"
	for name, tt := range map[string]struct {
		// was is the stored number; -1 means a new object.
		was, is int
		refused bool
	}{
		"new, the most": {-1, 512, false}, "new, one more": {-1, 513, true},
		"grows to the most": {511, 512, false}, "grows beyond": {512, 513, true}, "grows above": {600, 601, true},
		"stays above": {600, 600, false}, "shrinks above": {600, 599, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for message, set := range map[string]func(r *rollouts.Rollout, keys map[string]string){
				annotations: func(r *rollouts.Rollout, keys map[string]string) { r.Annotations = keys },
				labels:      func(r *rollouts.Rollout, keys map[string]string) { r.Labels = keys },
			} {
				r, old := valid(), (*validation.Weighed)(nil)
				set(r, keyed(tt.is))
				if tt.was >= 0 {
					stored := valid()
					set(stored, keyed(tt.was))
					old = validation.WeighRollout(stored)
				}
				var want string
				if tt.refused {
					want = fmt.Sprintf(message, tt.is)
				}
				if errs := validation.ValidateSize(validation.WeighRollout(r), old); want == "" && len(errs) > 0 || want != "" && (len(errs) != 1 || errs[0].Error() != want) {
					t.Errorf("got %v, want %q", errs, want)
				}
			}
		})
	}
	// The server adds an annotation.
	r := valid()
	r.Annotations = keyed(512)
	r.Annotations[rollouts.AnnotationHash] = "1"
	if errs := validation.ValidateSize(validation.WeighRollout(r), nil); len(errs) > 0 {
		t.Errorf("with the annotation of the server: %v", errs)
	}
	r = valid()
	r.Spec.Strategy.Canary.PodTemplateMetadata = &rollouts.PodTemplateMetadata{Annotations: keyed(513), Labels: keyed(513)}
	want := []string{
		"spec.strategy.canary.patchPodTemplateMetadata.labels: Too many", "spec.strategy.canary.patchPodTemplateMetadata.annotations: Too many",
	}
	if diff := cmp.Diff(want, render(validation.ValidateRollout(r, validation.Options{}))); diff != "" {
		t.Errorf("metadata of pods (-want +got)\n%s", diff)
	}
}
