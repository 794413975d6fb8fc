// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package fuzzer fills API objects with random values for tests.
//
// The objects are as decoding returns them: defaults are set, times have whole seconds, and a blue-green release has no
// fields of the canary style.
package fuzzer

import (
	"fmt"
	"slices"
	"time"

	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeserializer "k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// Funcs returns the fuzzer functions for the hub types, both served versions and metadata.
func Funcs(codecs runtimeserializer.CodecFactory) []any {
	return slices.Concat(metafuzzer.Funcs(codecs), shared(), hub(), wire())
}

func shared() []any {
	return []any{
		func(t *metav1.Time, c randfill.Continue) {
			*t = metav1.NewTime(time.Unix(int64(1+c.Rand.Int31()), 0))
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			*v = intstr.FromInt32(c.Rand.Int31())
			if c.Bool() {
				*v = intstr.FromString(percent(c))
			}
		},
	}
}

func hub() []any {
	return []any{
		func(s *rollouts.RolloutSpec, c randfill.Continue) {
			c.FillNoCustom(s)
			if s.WorkloadRef != nil && *s.WorkloadRef == (rollouts.ObjectRef{}) {
				s.WorkloadRef = nil
			}
		},
		func(s *rollouts.Strategy, c randfill.Continue) {
			c.FillNoCustom(s)
			if s.BlueGreen != nil {
				s.BlueGreen.PodTemplateMetadata, s.BlueGreen.ExtraWorkload, s.BlueGreen.ExtraWorkloadGiven = nil, false, false
			}
			s.PausedGiven = s.PausedGiven || s.Paused
		},
		func(r *rollouts.Release, c randfill.Continue) {
			c.FillNoCustom(r)
			r.ExtraWorkloadGiven = r.ExtraWorkloadGiven || r.ExtraWorkload
			r.DisableCanaryServiceGiven = r.DisableCanaryServiceGiven || r.DisableCanaryService
		},
		func(s *rollouts.Step, c randfill.Continue) {
			c.FillNoCustom(s)
			if s.Traffic != nil {
				*s.Traffic = percent(c)
			}
			s.Pause.Given = s.Pause.Given || s.Pause.Duration != nil
		},
		func(p *rollouts.ReleasePlan, c randfill.Continue) {
			c.FillNoCustom(p)
			p.RollingStyle = style(c)
		},
		func(s *rollouts.TrafficRoutingStrategy, c randfill.Continue) {
			c.FillNoCustom(s)
			for i := range s.Matches {
				// The kind exists in v1alpha1 only, which matches headers.
				s.Matches[i].Path, s.Matches[i].QueryParams = nil, nil
			}
		},
		pathMatch, valueMatch, rawJSON,
	}
}

// wire returns the functions for served types that have the same fields as hub types.
func wire() []any {
	return []any{
		func(m *v1beta1.PathMatch, c randfill.Continue) { pathMatch((*rollouts.PathMatch)(m), c) },
		func(m *v1beta1.ValueMatch, c randfill.Continue) { valueMatch((*rollouts.ValueMatch)(m), c) },
		func(m *v1alpha1.ValueMatch, c randfill.Continue) { valueMatch((*rollouts.ValueMatch)(m), c) },
		func(r *v1alpha1.RawJSON, c randfill.Continue) { rawJSON((*rollouts.RawJSON)(r), c) },
		func(r *v1beta1.TrafficRoutingRef, c randfill.Continue) {
			c.FillNoCustom(r)
			r.GracePeriodSeconds = orDefault(r.GracePeriodSeconds, 3)
		},
		func(r *v1alpha1.TrafficRoutingRef, c randfill.Continue) {
			c.FillNoCustom(r)
			r.GracePeriodSeconds = orDefault(r.GracePeriodSeconds, 3)
		},
	}
}

func pathMatch(m *rollouts.PathMatch, c randfill.Continue) {
	c.FillNoCustom(m)
	m.Type, m.Value = orDefault(m.Type, "PathPrefix"), orDefault(m.Value, "/")
}

func valueMatch(m *rollouts.ValueMatch, c randfill.Continue) {
	c.FillNoCustom(m)
	m.Type = orDefault(m.Type, "Exact")
}

// rawJSON is none, or a value as decoding leaves it.
func rawJSON(r *rollouts.RawJSON, c randfill.Continue) {
	values := []string{"", `{"a":{"b":[1,null,"c"]},"d":1.50}`, `[]`, `"\u003c"`, `12345678901234567890`, `false`}
	r.Raw = nil
	if value := values[c.Rand.Intn(len(values))]; value != "" {
		r.Raw = []byte(value)
	}
}

func percent(c randfill.Continue) string {
	return fmt.Sprintf("%d%%", c.Rand.Intn(101))
}

func style(c randfill.Continue) rollouts.Style {
	styles := []rollouts.Style{"", rollouts.StylePartition, rollouts.StyleCanary, rollouts.StyleBlueGreen}
	return styles[c.Rand.Intn(len(styles))]
}

func orDefault[T any](value *T, fallback T) *T {
	if value == nil {
		return &fallback
	}
	return value
}
