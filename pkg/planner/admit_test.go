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

func named(name string, phase rollouts.Phase, changes ...func(*rollouts.Rollout)) *rollouts.Rollout {
	r := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Name: name}}
	r.Status.Phase = phase
	for _, change := range changes {
		change(r)
	}
	return r
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	deleted := func(r *rollouts.Rollout) { r.DeletionTimestamp = new(metav1.NewTime(start)) }
	disabled := func(r *rollouts.Rollout) { r.Spec.Disabled = true }
	tests := map[string]struct {
		in   planner.Admission
		want planner.Verdict
	}{
		"nobody names it":           {planner.Admission{Changed: true}, planner.Verdict{}},
		"a new template":            {changed(named("a", rollouts.PhaseHealthy)), planner.Verdict{Hold: true, By: "a"}},
		"in a release":              {changed(named("a", rollouts.PhaseProgressing)), planner.Verdict{Hold: true, By: "a"}},
		"nothing new":               {planner.Admission{Rollouts: []*rollouts.Rollout{named("a", rollouts.PhaseHealthy)}}, planner.Verdict{Records: true, By: "a"}},
		"not to be held":            {unholdable(changed(named("a", rollouts.PhaseHealthy))), planner.Verdict{Refuse: "OnDelete, or disable the Rollout a", By: "a"}},
		"not to be held by anybody": {unholdable(changed(named("a", rollouts.PhaseDisabled))), planner.Verdict{}},
		"held, and not to be kept":  {held(unholdable(changed(named("a", rollouts.PhaseHealthy)))), planner.Verdict{Refuse: "OnDelete", By: "a"}},
		"not adopted yet":           {changed(named("a", rollouts.PhaseInitial)), planner.Verdict{}},
		"no phase yet":              {changed(named("a", "")), planner.Verdict{}},
		"disabled":                  {changed(named("a", rollouts.PhaseDisabled)), planner.Verdict{}},
		"disabling":                 {changed(named("a", rollouts.PhaseDisabling)), planner.Verdict{}},
		"terminating":               {changed(named("a", rollouts.PhaseTerminating)), planner.Verdict{}},
		"about to be disabled":      {changed(named("a", rollouts.PhaseHealthy, disabled)), planner.Verdict{}},
		"about to be deleted":       {changed(named("a", rollouts.PhaseHealthy, deleted)), planner.Verdict{}},
		"the second one is live":    {changed(named("a", rollouts.PhaseDisabled), named("b", rollouts.PhaseHealthy)), planner.Verdict{Hold: true, By: "b"}},
		"held":                      {planner.Admission{Held: true}, planner.Verdict{Keep: true}},
		"held, and a new template":  {held(changed(named("a", rollouts.PhaseProgressing))), planner.Verdict{Keep: true, By: "a"}},
		"held by one that is going": {held(changed(named("a", rollouts.PhaseTerminating, deleted))), planner.Verdict{Keep: true}},
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

func changed(rs ...*rollouts.Rollout) planner.Admission {
	return planner.Admission{Changed: true, Rollouts: rs}
}

func unholdable(a planner.Admission) planner.Admission {
	a.Unholdable = "OnDelete"
	return a
}

func held(a planner.Admission) planner.Admission {
	a.Held = true
	return a
}
