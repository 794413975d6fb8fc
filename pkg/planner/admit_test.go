// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

func newRollout(name string, phase rollouts.Phase, changes ...func(*rollouts.Rollout)) *rollouts.Rollout {
	r := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Name: name}}
	r.Status.Phase = phase
	for _, change := range changes {
		change(r)
	}
	return r
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	deleted := func(r *rollouts.Rollout) { r.DeletionTimestamp = new(metav1.NewTime(clockStart)) }
	disabled := func(r *rollouts.Rollout) { r.Spec.Disabled = true }
	tests := map[string]struct {
		in   planner.Admission
		want planner.AdmissionVerdict
	}{
		"no Rollout references it":               {planner.Admission{Changed: true}, planner.AdmissionVerdict{}},
		"a new template":                         {newTemplateAdmission(newRollout("a", rollouts.PhaseHealthy)), planner.AdmissionVerdict{Hold: true, RolloutName: "a"}},
		"in a release":                           {newTemplateAdmission(newRollout("a", rollouts.PhaseProgressing)), planner.AdmissionVerdict{Hold: true, RolloutName: "a"}},
		"no new template":                        {planner.Admission{Rollouts: []*rollouts.Rollout{newRollout("a", rollouts.PhaseHealthy)}}, planner.AdmissionVerdict{KeepRecords: true, RolloutName: "a"}},
		"cannot be held":                         {withUnholdable(newTemplateAdmission(newRollout("a", rollouts.PhaseHealthy))), planner.AdmissionVerdict{Refusal: "OnDelete, or disable the Rollout a", RolloutName: "a"}},
		"cannot be held, disabled":               {withUnholdable(newTemplateAdmission(newRollout("a", rollouts.PhaseDisabled))), planner.AdmissionVerdict{}},
		"held, and can no longer be held":        {withHeld(withUnholdable(newTemplateAdmission(newRollout("a", rollouts.PhaseHealthy)))), planner.AdmissionVerdict{Refusal: "OnDelete", RolloutName: "a"}},
		"not adopted yet":                        {newTemplateAdmission(newRollout("a", rollouts.PhaseInitial)), planner.AdmissionVerdict{}},
		"no phase yet":                           {newTemplateAdmission(newRollout("a", "")), planner.AdmissionVerdict{}},
		"disabled":                               {newTemplateAdmission(newRollout("a", rollouts.PhaseDisabled)), planner.AdmissionVerdict{}},
		"disabling":                              {newTemplateAdmission(newRollout("a", rollouts.PhaseDisabling)), planner.AdmissionVerdict{}},
		"terminating":                            {newTemplateAdmission(newRollout("a", rollouts.PhaseTerminating)), planner.AdmissionVerdict{}},
		"about to be disabled":                   {newTemplateAdmission(newRollout("a", rollouts.PhaseHealthy, disabled)), planner.AdmissionVerdict{}},
		"about to be deleted":                    {newTemplateAdmission(newRollout("a", rollouts.PhaseHealthy, deleted)), planner.AdmissionVerdict{}},
		"the second Rollout is active":           {newTemplateAdmission(newRollout("a", rollouts.PhaseDisabled), newRollout("b", rollouts.PhaseHealthy)), planner.AdmissionVerdict{Hold: true, RolloutName: "b"}},
		"held":                                   {planner.Admission{Held: true}, planner.AdmissionVerdict{KeepHold: true}},
		"held, and a new template":               {withHeld(newTemplateAdmission(newRollout("a", rollouts.PhaseProgressing))), planner.AdmissionVerdict{KeepHold: true, RolloutName: "a"}},
		"held, and the Rollout is being deleted": {withHeld(newTemplateAdmission(newRollout("a", rollouts.PhaseTerminating, deleted))), planner.AdmissionVerdict{KeepHold: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, planner.Admit(test.in)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func newTemplateAdmission(rs ...*rollouts.Rollout) planner.Admission {
	return planner.Admission{Changed: true, Rollouts: rs}
}

func withUnholdable(a planner.Admission) planner.Admission {
	a.UnholdableReason = "OnDelete"
	return a
}

func withHeld(a planner.Admission) planner.Admission {
	a.Held = true
	return a
}
