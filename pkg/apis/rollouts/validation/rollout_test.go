// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
)

func number(n int32) *intstr.IntOrString   { return new(intstr.FromInt32(n)) }
func percent(s string) *intstr.IntOrString { return new(intstr.FromString(s)) }

var (
	beta    = validation.Options{Version: "v1beta1"}
	alpha   = validation.Options{Version: "v1alpha1"}
	enforce = validation.Options{EnforcePartitionPercentLimit: true}
)

// valid is a partitioned Deployment with two steps and an Ingress.
func valid() *rollouts.Rollout {
	return &rollouts.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ResourceVersion: "1"},
		Spec: rollouts.RolloutSpec{
			WorkloadRef: &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			Strategy: rollouts.Strategy{Canary: &rollouts.Release{
				Steps: []rollouts.Step{
					{Replicas: percent("20%"), Traffic: new("20%")},
					{Replicas: percent("100%")},
				},
				TrafficRoutings: []rollouts.TrafficRoutingRef{{
					Service: "web", GracePeriodSeconds: 3, Ingress: &rollouts.IngressRef{Name: "web"},
				}},
			}},
		},
	}
}

func blueGreen(r *rollouts.Rollout) {
	r.Spec.Strategy.BlueGreen, r.Spec.Strategy.Canary = r.Spec.Strategy.Canary, nil
}

func step(r *rollouts.Rollout) *rollouts.Step { return &r.Spec.Strategy.Canary.Steps[0] }

func routing(r *rollouts.Rollout) *rollouts.TrafficRoutingRef {
	return &r.Spec.Strategy.Canary.TrafficRoutings[0]
}

// render returns type and field of each error without the messages.
func render(errs field.ErrorList) []string {
	var lines []string
	for _, err := range errs {
		lines = append(lines, fmt.Sprintf("%s: %s", err.Field, err.Type))
	}
	return lines
}

func TestValidateRollout(t *testing.T) {
	t.Parallel()
	const canary = "spec.strategy.canary."
	tests := map[string]struct {
		change  func(*rollouts.Rollout)
		options validation.Options
		want    []string
	}{
		"valid":           {change: func(*rollouts.Rollout) {}},
		"valid, enforced": {change: func(*rollouts.Rollout) {}, options: enforce},
		"no name": {
			change: func(r *rollouts.Rollout) { r.Name = "" },
			want:   []string{"metadata.name: Required value"},
		},
		"an invalid name": {
			change: func(r *rollouts.Rollout) { r.Name = "Web_1" },
			want:   []string{"metadata.name: Invalid value"},
		},
		"no workload": {
			change: func(r *rollouts.Rollout) { r.Spec.WorkloadRef = nil },
			want:   []string{"spec.workloadRef: Required value"},
		},
		"no workload in an older request": {
			change: func(r *rollouts.Rollout) { r.Spec.WorkloadRef = nil }, options: alpha,
			want: []string{"spec.objectRef.workloadRef: Required value"},
		},
		"an empty workload": {
			change: func(r *rollouts.Rollout) { r.Spec.WorkloadRef = &rollouts.ObjectRef{} },
			want: []string{
				"spec.workloadRef.apiVersion: Required value", "spec.workloadRef.kind: Required value", "spec.workloadRef.name: Required value",
			},
		},
		"an invalid workload reference": {
			change: func(r *rollouts.Rollout) {
				r.Spec.WorkloadRef = &rollouts.ObjectRef{APIVersion: "a/b/c", Kind: "Deployment", Name: "Web"}
			},
			want: []string{"spec.workloadRef.apiVersion: Invalid value", "spec.workloadRef.name: Invalid value"},
		},
		"an unknown kind": {
			change: func(r *rollouts.Rollout) { r.Spec.WorkloadRef.Kind = "ReplicaSet" },
			want:   []string{"spec.workloadRef.kind: Invalid value"},
		},
		"an unknown kind, allowed": {
			change:  func(r *rollouts.Rollout) { r.Spec.WorkloadRef.Kind = "GameServerSet" },
			options: validation.Options{AnyWorkloadKind: true},
		},
		"a known kind of any version": {
			change: func(r *rollouts.Rollout) {
				r.Spec.WorkloadRef = &rollouts.ObjectRef{APIVersion: "apps.kruise.io/v9", Kind: "CloneSet", Name: "web"}
			},
		},
		"a StatefulSet of any group": {
			change: func(r *rollouts.Rollout) {
				r.Spec.WorkloadRef = &rollouts.ObjectRef{APIVersion: "apps.example.com/v1", Kind: "StatefulSet", Name: "web"}
			},
		},
		"blue-green": {change: blueGreen},
		"blue-green of an unsupported kind": {
			change: func(r *rollouts.Rollout) { blueGreen(r); r.Spec.WorkloadRef.Kind = "StatefulSet" },
			want:   []string{"spec.workloadRef.kind: Invalid value"},
		},
		"no strategy": {
			change: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary = nil },
			want:   []string{"spec.strategy: Required value"},
		},
		"two strategies": {
			change: func(r *rollouts.Rollout) { r.Spec.Strategy.BlueGreen = r.Spec.Strategy.Canary },
			want:   []string{"spec.strategy: Invalid value"},
		},
		"no steps": {
			change: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.Steps = nil },
			want:   []string{canary + "steps: Required value"},
		},
		"no steps in blue-green": {
			change: func(r *rollouts.Rollout) { blueGreen(r); r.Spec.Strategy.BlueGreen.Steps = nil },
			want:   []string{"spec.strategy.blueGreen.steps: Required value"},
		},
		"50 steps": {
			change: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.Steps = steps(50) },
		},
		"51 steps": {
			change: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.Steps = steps(51) },
			want:   []string{canary + "steps: Too many"},
		},
		"a style annotation in v1beta1": {
			change: func(r *rollouts.Rollout) { r.Annotations = style("green") }, options: beta,
		},
		"a style annotation in any case": {
			change: func(r *rollouts.Rollout) { r.Annotations = style("Partition") }, options: alpha,
		},
		"an unknown style annotation": {
			change: func(r *rollouts.Rollout) { r.Annotations = style("green") }, options: alpha,
			want: []string{"metadata.annotations[rollouts.kruise.io/rolling-style]: Unsupported value"},
		},
		"a failure threshold above 100%": {
			change: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.FailureThreshold = percent("101%") },
			want:   []string{canary + "failureThreshold: Invalid value"},
		},
		"a failure threshold of 0": {
			change: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.FailureThreshold = number(0) },
		},
		"a progress deadline of 0": {
			change: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.ProgressDeadlineSeconds = new(int32(0)) },
			want:   []string{canary + "progressDeadlineSeconds: Invalid value"},
		},
		"a short progress deadline": {
			change: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.ProgressDeadlineSeconds = new(int32(1)) },
		},
		"a negative failure threshold": {
			change: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.FailureThreshold = number(-1) },
			want:   []string{canary + "failureThreshold: Invalid value"},
		},
		"invalid pod metadata": {
			change: func(r *rollouts.Rollout) {
				r.Spec.Strategy.Canary.PodTemplateMetadata = &rollouts.PodTemplateMetadata{
					Labels: map[string]string{"a": "no label"}, Annotations: map[string]string{"no key": ""},
				}
			},
			want: []string{canary + "patchPodTemplateMetadata.labels: Invalid value", canary + "patchPodTemplateMetadata.annotations: Invalid value"},
		},
		"an invalid TrafficRouting reference": {
			change: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.TrafficRoutingRef = new("A") },
			want:   []string{canary + "trafficRoutingRef: Invalid value"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := valid()
			test.change(r)
			if diff := cmp.Diff(test.want, render(validation.ValidateRollout(r, test.options))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func steps(n int) []rollouts.Step {
	list := make([]rollouts.Step, n)
	for i := range list {
		list[i].Replicas = number(1)
	}
	return list
}

func style(value string) map[string]string {
	return map[string]string{rollouts.AnnotationRollingStyle: value}
}

func TestValidateStep(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		step    rollouts.Step
		change  func(*rollouts.Rollout)
		options validation.Options
		want    []string
	}{
		"a number":                        {step: rollouts.Step{Replicas: number(1)}},
		"no replicas":                     {step: rollouts.Step{}, want: []string{"replicas: Required value"}},
		"none":                            {step: rollouts.Step{Replicas: number(0)}, want: []string{"replicas: Invalid value"}},
		"negative replicas":               {step: rollouts.Step{Replicas: number(-1)}, want: []string{"replicas: Invalid value"}},
		"0%":                              {step: rollouts.Step{Replicas: percent("0%")}, want: []string{"replicas: Invalid value"}},
		"101%":                            {step: rollouts.Step{Replicas: percent("101%")}, want: []string{"replicas: Invalid value"}},
		"a number in quotes":              {step: rollouts.Step{Replicas: percent("5")}, want: []string{"replicas: Invalid value"}},
		"a signed percentage":             {step: rollouts.Step{Replicas: percent("+5%")}, want: []string{"replicas: Invalid value"}},
		"all the traffic":                 {step: rollouts.Step{Replicas: number(1), Traffic: new("100%")}},
		"no traffic":                      {step: rollouts.Step{Replicas: number(1), Traffic: new("0%")}, want: []string{"traffic: Invalid value"}},
		"too much traffic":                {step: rollouts.Step{Replicas: number(1), Traffic: new("101%")}, want: []string{"traffic: Invalid value"}},
		"traffic as a number":             {step: rollouts.Step{Replicas: number(1), Traffic: new("20")}, want: []string{"traffic: Invalid value"}},
		"too much weight":                 {step: rollouts.Step{Replicas: number(1), Traffic: new("101%")}, options: alpha, want: []string{"weight: Invalid value"}},
		"a weight of 0":                   {step: rollouts.Step{Replicas: number(1), Traffic: new("0%")}, options: alpha},
		"a pause of 0":                    {step: rollouts.Step{Replicas: number(1), Pause: rollouts.Pause{Duration: new(int32(0))}}},
		"a negative pause":                {step: rollouts.Step{Replicas: number(1), Pause: rollouts.Pause{Duration: new(int32(-1))}}, want: []string{"pause.duration: Invalid value"}},
		"16 matches":                      {step: rollouts.Step{Replicas: number(1), Matches: make([]rollouts.RouteMatch, 16)}},
		"17 matches":                      {step: rollouts.Step{Replicas: number(1), Matches: make([]rollouts.RouteMatch, 17)}, want: []string{"matches: Too many"}},
		"over the limit":                  {step: rollouts.Step{Replicas: percent("51%"), Traffic: new("20%")}, options: enforce, want: []string{"replicas: Invalid value"}},
		"over the limit, with matches":    {step: rollouts.Step{Replicas: percent("51%"), Matches: []rollouts.RouteMatch{{}}}, options: enforce, want: []string{"replicas: Invalid value"}},
		"over the limit, without traffic": {step: rollouts.Step{Replicas: percent("51%")}, options: enforce},
		"all pods":                        {step: rollouts.Step{Replicas: percent("100%"), Traffic: new("20%")}, options: enforce},
		"over the limit, as a number":     {step: rollouts.Step{Replicas: number(99), Traffic: new("20%")}, options: enforce},
		"below another limit": {
			step:    rollouts.Step{Replicas: percent("51%"), Traffic: new("20%")},
			options: validation.Options{EnforcePartitionPercentLimit: true, PartitionPercentLimit: 60},
		},
		"over the limit, with an extra Deployment": {
			step: rollouts.Step{Replicas: percent("51%"), Traffic: new("20%")}, options: enforce,
			change: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.ExtraWorkload = true },
		},
		"over the limit, of a kind without an extra Deployment": {
			step: rollouts.Step{Replicas: percent("51%"), Traffic: new("20%")}, options: enforce,
			change: func(r *rollouts.Rollout) {
				r.Spec.Strategy.Canary.ExtraWorkload = true
				r.Spec.WorkloadRef.Kind = "StatefulSet"
			},
			want: []string{"replicas: Invalid value"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := valid()
			r.Spec.Strategy.Canary.Steps = []rollouts.Step{test.step}
			if test.change != nil {
				test.change(r)
			}
			got := render(validation.ValidateRollout(r, test.options))
			for i := range got {
				got[i] = strings.TrimPrefix(got[i], "spec.strategy.canary.steps[0].")
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestBlueGreenStepWithoutTraffic(t *testing.T) {
	t.Parallel()
	r := valid()
	step(r).Traffic = new("0%")
	blueGreen(r)
	if errs := validation.ValidateRollout(r, beta); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
	r.Spec.Strategy.BlueGreen.Steps[0].Traffic = new("some")
	check(t, r, "spec.strategy.blueGreen.", []string{"steps[0].traffic: Invalid value"})
}

func TestValidateOrder(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		replicas []*intstr.IntOrString
		want     []string
	}{
		"growing":             {replicas: []*intstr.IntOrString{number(1), number(2)}},
		"staying":             {replicas: []*intstr.IntOrString{percent("50%"), percent("50%")}},
		"mixed":               {replicas: []*intstr.IntOrString{percent("90%"), number(1), percent("10%")}},
		"falling numbers":     {replicas: []*intstr.IntOrString{number(2), number(1)}, want: []string{"spec.strategy.canary.steps[1].replicas: Invalid value"}},
		"falling percentages": {replicas: []*intstr.IntOrString{number(1), percent("20%"), percent("9%")}, want: []string{"spec.strategy.canary.steps[2].replicas: Invalid value"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := valid()
			r.Spec.Strategy.Canary.Steps = nil
			for _, replicas := range test.replicas {
				r.Spec.Strategy.Canary.Steps = append(r.Spec.Strategy.Canary.Steps, rollouts.Step{Replicas: replicas})
			}
			if diff := cmp.Diff(test.want, render(validation.ValidateRollout(r, beta))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestMessagesContainCorrection(t *testing.T) {
	t.Parallel()
	r := valid()
	r.Spec.Strategy.Canary.Steps[1].Replicas = percent("10%")
	const want = `spec.strategy.canary.steps[1].replicas: Invalid value: "10%": a step cannot have fewer than the step before it: use 20% or more`
	if diff := cmp.Diff(want, validation.ValidateRollout(r, beta).ToAggregate().Error()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
