// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/plain"
)

// none is the status of objects that have none.
type none struct{}

// The kinds of the second group.
var (
	metricSources = plain.Kind[*weir.MetricSource, weir.MetricSourceSpec, none]{
		Group: weir.GroupName, Versions: []string{"v1alpha1"}, ClusterScoped: true, NoStatus: true,
		Plural: "metricsources", Singular: "metricsource",
		New:            func() *weir.MetricSource { return &weir.MetricSource{} },
		NewList:        func() runtime.Object { return &weir.MetricSourceList{} },
		Parts:          func(s *weir.MetricSource) (*weir.MetricSourceSpec, *none) { return &s.Spec, &none{} },
		Validate:       validation.ValidateMetricSource,
		ValidateUpdate: validation.ValidateMetricSourceUpdate,
		Table: plain.Table[*weir.MetricSource]{
			Noun:    "metric source",
			Columns: []metav1.TableColumnDefinition{{Name: "URL", Type: "string", Description: "The address of the server."}},
			Cells: func(s *weir.MetricSource) (cells, wide []any) {
				if s.Spec.Prometheus == nil {
					return []any{nil}, nil
				}
				return []any{s.Spec.Prometheus.URL}, nil
			},
		},
	}
	checks = plain.Kind[*weir.Check, weir.CheckSpec, none]{
		Group: weir.GroupName, Versions: []string{"v1alpha1"}, NoStatus: true,
		Plural: "checks", Singular: "check",
		New:     func() *weir.Check { return &weir.Check{} },
		NewList: func() runtime.Object { return &weir.CheckList{} },
		Parts:   func(c *weir.Check) (*weir.CheckSpec, *none) { return &c.Spec, &none{} },
		Validate: func(c *weir.Check) field.ErrorList {
			return validation.ValidateSharedCheck(&c.ObjectMeta, true, &c.Spec)
		},
		ValidateUpdate: func(c, old *weir.Check) field.ErrorList {
			return validation.ValidateSharedCheckUpdate(&c.ObjectMeta, &old.ObjectMeta, &c.Spec, &old.Spec)
		},
		Table: plain.Table[*weir.Check]{
			Noun: "check", Columns: measures,
			Cells: func(c *weir.Check) (cells, wide []any) { return measured(&c.Spec), nil },
		},
	}
	clusterChecks = plain.Kind[*weir.ClusterCheck, weir.CheckSpec, none]{
		Group: weir.GroupName, Versions: []string{"v1alpha1"}, ClusterScoped: true, NoStatus: true,
		Plural: "clusterchecks", Singular: "clustercheck",
		New:     func() *weir.ClusterCheck { return &weir.ClusterCheck{} },
		NewList: func() runtime.Object { return &weir.ClusterCheckList{} },
		Parts:   func(c *weir.ClusterCheck) (*weir.CheckSpec, *none) { return &c.Spec, &none{} },
		Validate: func(c *weir.ClusterCheck) field.ErrorList {
			return validation.ValidateSharedCheck(&c.ObjectMeta, false, &c.Spec)
		},
		ValidateUpdate: func(c, old *weir.ClusterCheck) field.ErrorList {
			return validation.ValidateSharedCheckUpdate(&c.ObjectMeta, &old.ObjectMeta, &c.Spec, &old.Spec)
		},
		Table: plain.Table[*weir.ClusterCheck]{
			Noun: "cluster check", Columns: measures,
			Cells: func(c *weir.ClusterCheck) (cells, wide []any) { return measured(&c.Spec), nil },
		},
	}
)

var measures = []metav1.TableColumnDefinition{{Name: "MEASURES", Type: "string", Description: "What the check measures."}}

func measured(s *weir.CheckSpec) []any {
	check, _ := s.With(nil) // the arguments do not matter
	return []any{plain.Text(rollouts.CheckName(check))}
}
