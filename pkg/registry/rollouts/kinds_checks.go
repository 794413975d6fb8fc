// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/endpoint"
)

// noStatus is the status type of objects without a status.
type noStatus struct{}

// These are the kinds of the API group of checks.
var (
	metricSources = endpoint.Kind[*weir.MetricSource, weir.MetricSourceSpec, noStatus]{
		Group: weir.GroupName, Versions: []string{"v1alpha1"}, ClusterScoped: true, NoStatus: true,
		Plural: "metricsources", Singular: "metricsource",
		New:            func() *weir.MetricSource { return &weir.MetricSource{} },
		NewList:        func() runtime.Object { return &weir.MetricSourceList{} },
		SpecAndStatus:  func(s *weir.MetricSource) (*weir.MetricSourceSpec, *noStatus) { return &s.Spec, &noStatus{} },
		Validate:       validation.ValidateMetricSource,
		ValidateUpdate: validation.ValidateMetricSourceUpdate,
		Table: endpoint.Table[*weir.MetricSource]{
			Noun:    "metric source",
			Columns: []metav1.TableColumnDefinition{{Name: "URL", Type: "string", Description: "The address of the server."}},
			Cells: func(_ context.Context, s *weir.MetricSource) (cells, more []any) {
				if s.Spec.Prometheus == nil {
					return []any{nil}, nil
				}
				return []any{s.Spec.Prometheus.URL}, nil
			},
		},
	}
	checks = endpoint.Kind[*weir.Check, weir.CheckSpec, noStatus]{
		Group: weir.GroupName, Versions: []string{"v1alpha1"}, NoStatus: true,
		Plural: "checks", Singular: "check",
		New:           func() *weir.Check { return &weir.Check{} },
		NewList:       func() runtime.Object { return &weir.CheckList{} },
		SpecAndStatus: func(c *weir.Check) (*weir.CheckSpec, *noStatus) { return &c.Spec, &noStatus{} },
		Validate: func(c *weir.Check) field.ErrorList {
			return validation.ValidateSharedCheck(&c.ObjectMeta, true, &c.Spec)
		},
		ValidateUpdate: func(c, old *weir.Check) field.ErrorList {
			return validation.ValidateSharedCheckUpdate(&c.ObjectMeta, &old.ObjectMeta, &c.Spec, &old.Spec)
		},
		Table: endpoint.Table[*weir.Check]{
			Noun: "check", Columns: measuresColumns,
			Cells: func(_ context.Context, c *weir.Check) (cells, more []any) { return measuresCells(&c.Spec), nil },
		},
	}
	clusterChecks = endpoint.Kind[*weir.ClusterCheck, weir.CheckSpec, noStatus]{
		Group: weir.GroupName, Versions: []string{"v1alpha1"}, ClusterScoped: true, NoStatus: true,
		Plural: "clusterchecks", Singular: "clustercheck",
		New:           func() *weir.ClusterCheck { return &weir.ClusterCheck{} },
		NewList:       func() runtime.Object { return &weir.ClusterCheckList{} },
		SpecAndStatus: func(c *weir.ClusterCheck) (*weir.CheckSpec, *noStatus) { return &c.Spec, &noStatus{} },
		Validate: func(c *weir.ClusterCheck) field.ErrorList {
			return validation.ValidateSharedCheck(&c.ObjectMeta, false, &c.Spec)
		},
		ValidateUpdate: func(c, old *weir.ClusterCheck) field.ErrorList {
			return validation.ValidateSharedCheckUpdate(&c.ObjectMeta, &old.ObjectMeta, &c.Spec, &old.Spec)
		},
		Table: endpoint.Table[*weir.ClusterCheck]{
			Noun: "cluster check", Columns: measuresColumns,
			Cells: func(_ context.Context, c *weir.ClusterCheck) (cells, more []any) { return measuresCells(&c.Spec), nil },
		},
	}
)

var measuresColumns = []metav1.TableColumnDefinition{{Name: "MEASURES", Type: "string", Description: "What the check measures."}}

func measuresCells(s *weir.CheckSpec) []any {
	check, _ := s.With(nil) // the name of a check does not depend on its arguments
	return []any{endpoint.TextCell(rollouts.CheckName(check))}
}
