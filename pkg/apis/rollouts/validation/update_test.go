// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
)

func TestValidateRolloutUpdate(t *testing.T) {
	t.Parallel()
	moveWorkload := func(r *rollouts.Rollout) { r.Spec.WorkloadRef.Name = "api" }
	moveRouting := func(r *rollouts.Rollout) { routing(r).Service = "api" }
	extraWorkload := func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.ExtraWorkload = true }
	dropStep := func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.Steps = r.Spec.Strategy.Canary.Steps[1:] }
	tests := map[string]struct {
		phase   rollouts.Phase
		old     func(*rollouts.Rollout)
		change  func(*rollouts.Rollout)
		options validation.Options
		want    []string
	}{
		"another workload":                       {phase: rollouts.PhaseHealthy, change: moveWorkload},
		"another workload, in flight":            {phase: rollouts.PhaseProgressing, change: moveWorkload, want: []string{"spec.workloadRef: Forbidden"}},
		"another workload, while being disabled": {phase: rollouts.PhaseTerminating, change: moveWorkload, want: []string{"spec.workloadRef: Forbidden"}},
		"another routing":                        {phase: rollouts.PhaseHealthy, change: moveRouting},
		"another routing, in flight":             {phase: rollouts.PhaseProgressing, change: moveRouting, want: []string{"spec.strategy.canary.trafficRoutings: Forbidden"}},
		"another style":                          {phase: rollouts.PhaseHealthy, change: extraWorkload},
		"another style, in flight":               {phase: rollouts.PhaseProgressing, change: extraWorkload, want: []string{"spec.strategy.canary: Forbidden"}},
		"another key, in flight":                 {phase: rollouts.PhaseProgressing, change: blueGreen, want: []string{"spec.strategy.blueGreen: Forbidden"}},
		"fewer steps":                            {phase: rollouts.PhaseHealthy, change: dropStep},
		"fewer steps, in flight":                 {phase: rollouts.PhaseProgressing, change: dropStep, options: beta, want: []string{"spec.strategy.canary.steps: Forbidden"}},
		"fewer steps, older request":             {phase: rollouts.PhaseProgressing, change: dropStep, options: alpha},
		"other steps, in flight": {phase: rollouts.PhaseProgressing, change: func(r *rollouts.Rollout) {
			r.Spec.Strategy.Paused, r.Spec.Disabled = true, true
			r.Spec.Strategy.Canary.FailureThreshold = number(1)
			r.Spec.Strategy.Canary.DisableCanaryService = true
			*step(r) = rollouts.Step{Replicas: number(1), Pause: rollouts.Pause{Duration: new(int32(5))}}
		}},
		"no strategy, in flight": {
			phase: rollouts.PhaseProgressing, change: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary = nil },
			want: []string{"spec.strategy: Required value"},
		},
		"a strategy again, in flight": {
			phase: rollouts.PhaseProgressing, old: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary = nil },
			change: func(r *rollouts.Rollout) { r.Spec.Strategy = valid().Spec.Strategy },
		},
		"an invalid change": {change: func(r *rollouts.Rollout) { step(r).Replicas = nil }, want: []string{"spec.strategy.canary.steps[0].replicas: Required value"}},
		"metadata only, of a Rollout with an invalid spec": {
			phase: rollouts.PhaseProgressing,
			old: func(r *rollouts.Rollout) {
				step(r).Replicas = nil
				r.Finalizers = []string{rollouts.FinalizerRollout}
			},
			change: func(r *rollouts.Rollout) { r.Finalizers = nil },
		},
		"metadata that cannot change": {
			old:    func(r *rollouts.Rollout) { r.UID = "a" },
			change: func(r *rollouts.Rollout) { r.UID = "b" },
			want:   []string{"metadata.uid: Invalid value"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := valid()
			old.Status.Phase = test.phase
			if test.old != nil {
				test.old(old)
			}
			r := old.DeepCopy()
			test.change(r)
			if diff := cmp.Diff(test.want, render(validation.ValidateRolloutUpdate(r, old, test.options))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestUpdateUsesStoredPhase checks that the stored phase decides: a client cannot end a release by
// writing another phase together with the change.
func TestUpdateUsesStoredPhase(t *testing.T) {
	t.Parallel()
	old := valid()
	old.Status.Phase = rollouts.PhaseProgressing
	r := old.DeepCopy()
	r.Status.Phase = rollouts.PhaseHealthy
	r.Spec.WorkloadRef.Name = "api"
	if diff := cmp.Diff([]string{"spec.workloadRef: Forbidden"}, render(validation.ValidateRolloutUpdate(r, old, beta))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestValidateRolloutStatusUpdate(t *testing.T) {
	t.Parallel()
	const path = "status.canaryStatus."
	tests := map[string]struct {
		old, status rollouts.RolloutStatus
		want        []string
	}{
		"nothing":          {},
		"a step":           {status: rollouts.RolloutStatus{Canary: &rollouts.Progress{State: rollouts.StepPaused, CurrentStepIndex: 1, NextStepIndex: 2}}},
		"the last step":    {status: rollouts.RolloutStatus{Canary: &rollouts.Progress{NextStepIndex: -1}}},
		"beyond the last":  {status: rollouts.RolloutStatus{Canary: &rollouts.Progress{NextStepIndex: 3}}, want: []string{path + "nextStepIndex: Invalid value"}},
		"before the first": {status: rollouts.RolloutStatus{Canary: &rollouts.Progress{NextStepIndex: -2}}, want: []string{path + "nextStepIndex: Invalid value"}},
		"a step of a plan since shortened": {
			old:    rollouts.RolloutStatus{Canary: &rollouts.Progress{NextStepIndex: 5}},
			status: rollouts.RolloutStatus{Canary: &rollouts.Progress{NextStepIndex: 5}},
		},
		"an unknown stage": {status: rollouts.RolloutStatus{Canary: &rollouts.Progress{State: "Ready"}}, want: []string{path + "currentStepState: Unsupported value"}},
		"both": {
			status: rollouts.RolloutStatus{Canary: &rollouts.Progress{}, BlueGreen: &rollouts.Progress{}},
			want:   []string{"status: Invalid value"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := valid()
			r := old.DeepCopy()
			old.Status, r.Status = test.old, test.status
			if diff := cmp.Diff(test.want, render(validation.ValidateRolloutStatusUpdate(r, old, beta))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestRolloutWarnings(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		steps   []rollouts.Step
		options validation.Options
		want    []string
	}{
		"no warnings": {steps: []rollouts.Step{
			{Replicas: percent("40%"), Traffic: new("20%")}, {Replicas: percent("50%"), Traffic: new("20%")}, {Replicas: percent("100%"), Traffic: new("100%")},
		}},
		"over the limit": {
			steps: []rollouts.Step{{Replicas: percent("60%"), Traffic: new("20%")}},
			want: []string{
				"spec.strategy.canary.steps[0].replicas: 60%: this step also routes traffic, and upgrading more than 50% of a partitioned workload leaves few pods for the rest of it: use 50% or less, or 100%",
			},
		},
		"over the limit, an error already": {
			steps: []rollouts.Step{{Replicas: percent("60%"), Traffic: new("20%")}}, options: enforce,
		},
		"traffic falls": {
			steps: []rollouts.Step{{Replicas: number(1), Traffic: new("40%")}, {Replicas: number(2)}, {Replicas: number(3), Traffic: new("20%")}},
			want: []string{
				"spec.strategy.canary.steps[2].traffic: 20%: the new revision had 40% before this step, so traffic goes back to the stable one",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := valid()
			r.Spec.Strategy.Canary.Steps = test.steps
			r.Spec.Strategy.Canary.TrafficRoutings = []rollouts.TrafficRoutingRef{{Service: "web"}}
			if diff := cmp.Diff(test.want, validation.RolloutWarnings(r, test.options)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestWarningsOfNoRoute checks that a step which routes requests needs a route. A weight of v1alpha1 is also a number of pods.
func TestWarningsOfNoRoute(t *testing.T) {
	t.Parallel()
	const end = ": no requests are routed, because the plan has neither trafficRoutings nor a TrafficRouting; name the Service and its route in spec.strategy.canary.trafficRoutings"
	share := rollouts.Step{Replicas: percent("20%"), Traffic: new("20%")}
	match := rollouts.Step{Replicas: percent("20%"), Matches: []rollouts.RouteMatch{{}}}
	alpha := validation.Options{Version: "v1alpha1"}
	for name, test := range map[string]struct {
		steps   []rollouts.Step
		edit    func(*rollouts.Release)
		options validation.Options
		want    []string
	}{
		"a share":           {steps: []rollouts.Step{{Replicas: number(1)}, share, share}, want: []string{"spec.strategy.canary.steps[1].traffic" + end}},
		"a match":           {steps: []rollouts.Step{match, share}, want: []string{"spec.strategy.canary.steps[0].matches" + end}},
		"no requests":       {steps: []rollouts.Step{{Replicas: number(1)}}},
		"a Service":         {steps: []rollouts.Step{share}, edit: func(r *rollouts.Release) { r.TrafficRoutings = []rollouts.TrafficRoutingRef{{Service: "web"}} }},
		"a TrafficRouting":  {steps: []rollouts.Step{share}, edit: func(r *rollouts.Release) { r.TrafficRoutingRef = new("web") }},
		"a weight":          {steps: []rollouts.Step{share}, options: alpha},
		"a match, v1alpha1": {steps: []rollouts.Step{share, match}, options: alpha, want: []string{"spec.strategy.canary.steps[1].matches" + end}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := valid()
			r.Spec.Strategy.Canary.Steps = test.steps
			r.Spec.Strategy.Canary.TrafficRoutings = nil
			if test.edit != nil {
				test.edit(r.Spec.Strategy.Canary)
			}
			if diff := cmp.Diff(test.want, validation.RolloutWarnings(r, test.options)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestWarningsOfNoStrategy(t *testing.T) {
	t.Parallel()
	if got := validation.RolloutWarnings(&rollouts.Rollout{}, beta); len(got) > 0 {
		t.Error(got)
	}
}
