// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/install"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
)

const (
	style   = "rollouts.kruise.io/rolling-style"
	routing = "rollouts.kruise.io/trafficrouting"
)

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	install.Install(s)
	return s
}

func meta(annotations map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Annotations: annotations}
}

func canaryOnly(r v1alpha1.Release) v1alpha1.RolloutSpec {
	return v1alpha1.RolloutSpec{Strategy: v1alpha1.Strategy{Canary: &r}}
}

func TestRolloutToHub(t *testing.T) {
	t.Parallel()
	percent := intstr.FromString("20%")
	tests := map[string]struct {
		in   v1alpha1.Rollout
		want rollouts.Rollout
	}{
		"nothing at all": {},
		"no annotation means an extra workload": {
			in:   v1alpha1.Rollout{Spec: canaryOnly(v1alpha1.Release{})},
			want: rollouts.Rollout{Spec: rollouts.RolloutSpec{Strategy: rollouts.Strategy{Canary: &rollouts.Release{ExtraWorkload: true, ExtraWorkloadGiven: true}}}},
		},
		"partition in any case of letters": {
			in:   v1alpha1.Rollout{ObjectMeta: meta(map[string]string{style: "ParTition"}), Spec: canaryOnly(v1alpha1.Release{})},
			want: rollouts.Rollout{ObjectMeta: meta(map[string]string{style: "ParTition"}), Spec: rollouts.RolloutSpec{Strategy: rollouts.Strategy{Canary: &rollouts.Release{}}}},
		},
		"a routing in the annotation": {
			in:   v1alpha1.Rollout{ObjectMeta: meta(map[string]string{routing: "web"}), Spec: canaryOnly(v1alpha1.Release{})},
			want: rollouts.Rollout{ObjectMeta: meta(map[string]string{routing: "web"}), Spec: rollouts.RolloutSpec{Strategy: rollouts.Strategy{Canary: &rollouts.Release{ExtraWorkload: true, ExtraWorkloadGiven: true, TrafficRoutingRef: new("web")}}}},
		},
		"replicas follow the weight": {
			in: v1alpha1.Rollout{Spec: canaryOnly(v1alpha1.Release{Steps: []v1alpha1.Step{
				{Weight: new(int32(20))}, {Weight: new(int32(5)), Replicas: &percent}, {Pause: &v1alpha1.Pause{}},
			}})},
			want: rollouts.Rollout{Spec: rollouts.RolloutSpec{Strategy: rollouts.Strategy{Canary: &rollouts.Release{ExtraWorkload: true, ExtraWorkloadGiven: true, Steps: []rollouts.Step{
				{Traffic: new("20%"), Replicas: &percent}, {Traffic: new("5%"), Replicas: &percent}, {Pause: rollouts.Pause{Given: true}},
			}}}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got rollouts.Rollout
			if err := scheme().Convert(&test.in, &got, nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestRolloutFromHub(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in   rollouts.Rollout
		want v1alpha1.Rollout
	}{
		"nothing at all": {},
		"blue-green, as far as it can be said": {
			in: rollouts.Rollout{
				Spec: rollouts.RolloutSpec{
					WorkloadRef: &rollouts.ObjectRef{Name: "web"}, Disabled: true,
					Strategy: rollouts.Strategy{Paused: true, BlueGreen: &rollouts.Release{}},
				},
				Status: rollouts.RolloutStatus{Phase: rollouts.PhaseProgressing, BlueGreen: &rollouts.Progress{}},
			},
			want: v1alpha1.Rollout{
				Spec: v1alpha1.RolloutSpec{
					ObjectRef: v1alpha1.TargetRef{WorkloadRef: &v1alpha1.ObjectRef{Name: "web"}}, Disabled: true,
					Strategy: v1alpha1.Strategy{Paused: new(true)},
				},
				Status: v1alpha1.RolloutStatus{Phase: "Progressing"},
			},
		},
		"the style and the routing are annotations": {
			in: rollouts.Rollout{
				ObjectMeta: meta(map[string]string{style: "canary"}),
				Spec:       rollouts.RolloutSpec{Strategy: rollouts.Strategy{Canary: &rollouts.Release{TrafficRoutingRef: new("web")}}},
			},
			want: v1alpha1.Rollout{
				ObjectMeta: meta(map[string]string{style: "partition", routing: "web"}),
				Spec:       canaryOnly(v1alpha1.Release{}),
			},
		},
		"traffic that is no percentage has no weight": {
			in: rollouts.Rollout{Spec: rollouts.RolloutSpec{Strategy: rollouts.Strategy{Canary: &rollouts.Release{
				ExtraWorkload: true, Steps: []rollouts.Step{{Traffic: new("half")}, {Traffic: new("50%")}},
			}}}},
			want: v1alpha1.Rollout{
				ObjectMeta: meta(map[string]string{style: "canary"}),
				Spec:       canaryOnly(v1alpha1.Release{Steps: []v1alpha1.Step{{}, {Weight: new(int32(50))}}}),
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got v1alpha1.Rollout
			if err := scheme().Convert(&test.in, &got, nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestBatchReleaseStyle(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in   v1alpha1.BatchRelease
		want rollouts.Style
	}{
		"absent":     {},
		"partition":  {in: v1alpha1.BatchRelease{ObjectMeta: meta(map[string]string{style: "Partition"})}, want: rollouts.StylePartition},
		"canary":     {in: v1alpha1.BatchRelease{ObjectMeta: meta(map[string]string{style: "canary"})}, want: rollouts.StyleCanary},
		"blue-green": {in: v1alpha1.BatchRelease{ObjectMeta: meta(map[string]string{style: "bluegreen"})}, want: rollouts.StyleBlueGreen},
		"the field does not count": {in: v1alpha1.BatchRelease{
			ObjectMeta: meta(map[string]string{style: "canary"}),
			Spec:       v1alpha1.BatchReleaseSpec{ReleasePlan: v1alpha1.ReleasePlan{RollingStyle: "Partition"}},
		}, want: rollouts.StyleCanary},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got rollouts.BatchRelease
			if err := scheme().Convert(&test.in, &got, nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Spec.Plan.RollingStyle); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestPreserve(t *testing.T) {
	t.Parallel()
	path := &rollouts.PathMatch{Value: new("/a")}
	headers := []rollouts.ValueMatch{{Name: "user", Value: "me"}}
	old := rollouts.Strategy{Canary: &rollouts.Release{Steps: []rollouts.Step{
		{Matches: []rollouts.RouteMatch{{Path: path}}},
		{Matches: []rollouts.RouteMatch{{Path: path, Headers: headers}}},
	}}}
	tests := map[string]struct {
		old, written, want rollouts.Strategy
	}{
		"a plan that could not be seen": {
			old:  rollouts.Strategy{BlueGreen: &rollouts.Release{Steps: []rollouts.Step{{}}}},
			want: rollouts.Strategy{BlueGreen: &rollouts.Release{Steps: []rollouts.Step{{}}}},
		},
		"a new plan replaces it": {
			old:     rollouts.Strategy{BlueGreen: &rollouts.Release{}},
			written: rollouts.Strategy{Canary: &rollouts.Release{Steps: []rollouts.Step{{}}}},
			want:    rollouts.Strategy{Canary: &rollouts.Release{Steps: []rollouts.Step{{}}}},
		},
		"steps that look alike keep their places": {
			old: rollouts.Strategy{Canary: &rollouts.Release{Steps: []rollouts.Step{
				{Matches: []rollouts.RouteMatch{{Path: path}}}, {Matches: []rollouts.RouteMatch{{QueryParams: headers}}},
			}}},
			written: rollouts.Strategy{Canary: &rollouts.Release{Steps: []rollouts.Step{
				{Matches: []rollouts.RouteMatch{{}}}, {Matches: []rollouts.RouteMatch{{}}},
			}}},
			want: rollouts.Strategy{Canary: &rollouts.Release{Steps: []rollouts.Step{
				{Matches: []rollouts.RouteMatch{{Path: path}}}, {Matches: []rollouts.RouteMatch{{QueryParams: headers}}},
			}}},
		},
		"a match more": {
			old: old,
			written: rollouts.Strategy{Canary: &rollouts.Release{Steps: []rollouts.Step{
				{Matches: []rollouts.RouteMatch{{}, {Headers: headers}}},
			}}},
			want: rollouts.Strategy{Canary: &rollouts.Release{Steps: []rollouts.Step{
				{Matches: []rollouts.RouteMatch{{}, {Headers: headers}}},
			}}},
		},
		"paths that could not be seen": {
			old: old,
			written: rollouts.Strategy{Canary: &rollouts.Release{Steps: []rollouts.Step{
				{Matches: []rollouts.RouteMatch{{}}}, {Matches: []rollouts.RouteMatch{{Headers: headers}}},
			}}},
			want: old,
		},
		"a step was inserted before": {
			old: old,
			written: rollouts.Strategy{Canary: &rollouts.Release{Steps: []rollouts.Step{
				{Traffic: new("5%")}, {Matches: []rollouts.RouteMatch{{}}}, {Matches: []rollouts.RouteMatch{{Headers: headers}}},
			}}},
			want: rollouts.Strategy{Canary: &rollouts.Release{Steps: []rollouts.Step{
				{Traffic: new("5%")}, old.Canary.Steps[0], old.Canary.Steps[1],
			}}},
		},
		"matches that were changed": {
			old:     old,
			written: rollouts.Strategy{Canary: &rollouts.Release{Steps: []rollouts.Step{{Matches: []rollouts.RouteMatch{{Headers: []rollouts.ValueMatch{{Name: "new"}}}}}}}},
			want:    rollouts.Strategy{Canary: &rollouts.Release{Steps: []rollouts.Step{{Matches: []rollouts.RouteMatch{{Headers: []rollouts.ValueMatch{{Name: "new"}}}}}}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := &rollouts.Rollout{Spec: rollouts.RolloutSpec{Strategy: *test.written.DeepCopy()}}
			v1alpha1.Preserve(got, &rollouts.Rollout{Spec: rollouts.RolloutSpec{Strategy: test.old}})
			if diff := cmp.Diff(test.want, got.Spec.Strategy); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A client that was built long ago pauses or resumes, and does not see what its
// structs do not have. Any other write means what it says.
func TestPreserveOlder(t *testing.T) {
	t.Parallel()
	stored := func() *rollouts.RolloutSpec {
		return &rollouts.RolloutSpec{Strategy: rollouts.Strategy{Canary: &rollouts.Release{
			Steps: []rollouts.Step{
				{Traffic: new("20%"), RequestHeaderModifier: &rollouts.HeaderModifier{Remove: []string{"x"}}, Matches: []rollouts.RouteMatch{{Path: &rollouts.PathMatch{Value: new("/a")}}}},
				{Traffic: new("50%"), Pause: rollouts.Pause{Duration: new(int32(5)), Given: true}},
			},
			TrafficRoutings:      []rollouts.TrafficRoutingRef{{Service: "web", CustomNetworkRefs: []rollouts.ObjectRef{{Name: "c"}}}},
			PodTemplateMetadata:  &rollouts.PodTemplateMetadata{Labels: map[string]string{"a": "b"}},
			DisableCanaryService: true, DisableCanaryServiceGiven: true,
		}}}
	}
	older := func() *rollouts.RolloutSpec {
		return &rollouts.RolloutSpec{Strategy: rollouts.Strategy{Paused: true, PausedGiven: true, Canary: &rollouts.Release{
			Steps: []rollouts.Step{
				{Traffic: new("20%"), Matches: []rollouts.RouteMatch{{}}, Pause: rollouts.Pause{Given: true}},
				{Traffic: new("50%"), Pause: rollouts.Pause{Duration: new(int32(5)), Given: true}},
			},
			TrafficRoutings: []rollouts.TrafficRoutingRef{{Service: "web", GracePeriodSeconds: 3}},
		}}}
	}
	for name, c := range map[string]struct {
		change func(*rollouts.RolloutSpec)
		kept   bool
	}{
		"it pauses":                     {func(*rollouts.RolloutSpec) {}, true},
		"it does not pause":             {func(s *rollouts.RolloutSpec) { s.Strategy.Paused = false }, false},
		"it pauses and changes":         {func(s *rollouts.RolloutSpec) { s.Strategy.Canary.Steps[1].Traffic = new("60%") }, false},
		"it pauses and knows one field": {func(s *rollouts.RolloutSpec) { s.Strategy.Canary.DisableCanaryService = true }, false},
		"it pauses and says blue-green": {func(s *rollouts.RolloutSpec) { s.Strategy = rollouts.Strategy{Paused: true} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, written := &rollouts.Rollout{Spec: *stored()}, &rollouts.Rollout{Spec: *older()}
			c.change(&written.Spec)
			want := written.DeepCopy()
			v1alpha1.Preserve(written, old)
			v1alpha1.PreserveOlder(&written.Spec, &old.Spec)
			if c.kept {
				want = old.DeepCopy()
				want.Spec.Strategy.Paused, want.Spec.Strategy.PausedGiven = true, true
			} else if want.Spec.Strategy.Canary != nil {
				want.Spec.Strategy.Canary.Steps[0].Matches = old.Spec.Strategy.Canary.Steps[0].Matches
			}
			if diff := cmp.Diff(want.Spec, written.Spec); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestPreserveStatus(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		old, written, want rollouts.RolloutStatus
	}{
		"progress that could not be seen": {
			old:  rollouts.RolloutStatus{BlueGreen: &rollouts.Progress{CurrentStepIndex: 1}},
			want: rollouts.RolloutStatus{BlueGreen: &rollouts.Progress{CurrentStepIndex: 1}},
		},
		"progress that was given": {
			old:     rollouts.RolloutStatus{BlueGreen: &rollouts.Progress{}},
			written: rollouts.RolloutStatus{Canary: &rollouts.Progress{}},
			want:    rollouts.RolloutStatus{Canary: &rollouts.Progress{}},
		},
		"none": {},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := &rollouts.Rollout{Status: *test.written.DeepCopy()}
			v1alpha1.Preserve(got, &rollouts.Rollout{Status: test.old})
			if diff := cmp.Diff(test.want, got.Status); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
