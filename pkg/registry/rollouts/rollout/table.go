// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/plain"
)

// table prints the columns that OpenKruise prints, in their order, and after
// them for wide output what a Rollout waits for.
type table struct{}

var _ rest.TableConvertor = table{}

var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the rollout."},
	{Name: "STATUS", Type: "string", Description: "The phase of the rollout."},
	{Name: "CANARY_STEP", Type: "integer", Description: "The current step, counted from 1."},
	{Name: "CANARY_STATE", Type: "string", Description: "The state of the current step."},
	{Name: "MESSAGE", Type: "string", Description: "What the rollout does or waits for."},
	{Name: "AGE", Type: "date", Description: "When the rollout was created."},
	{Name: "WAITING-FOR", Type: "string", Priority: 1, Description: "What the rollout waits for."},
	{Name: "SINCE", Type: "date", Priority: 1, Description: "Since when it waits for it."},
}

// ConvertToTable implements rest.TableConvertor.
func (table) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	t := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		t.ColumnDefinitions = columns
	}
	var err error
	if l, isList := obj.(*rollouts.RolloutList); isList {
		t.ListMeta = l.ListMeta
	} else if m, err := meta.CommonAccessor(obj); err == nil {
		t.ResourceVersion = m.GetResourceVersion()
	}
	t.Rows, err = metatable.MetaToTableRow(obj, func(obj runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
		r, ok := obj.(*rollouts.Rollout)
		if !ok {
			return nil, fmt.Errorf("printing a %T as a rollout", obj)
		}
		return slices.Concat([]any{name}, cells(r), []any{age}, wideCells(r)), nil
	})
	return t, err
}

// cells leaves those empty that have nothing to say.
func cells(r *rollouts.Rollout) []any {
	var step, state any
	if p := r.Status.Active(); p != nil && p.CurrentStepIndex != 0 {
		step, state = int64(p.CurrentStepIndex), string(p.State)
	}
	return []any{plain.Text(r.Status.Phase), step, state, plain.Text(r.Status.Message)}
}

func wideCells(r *rollouts.Rollout) []any {
	waiting := planner.WaitingFor(r)
	if waiting.Since.IsZero() {
		return []any{waiting.What, nil}
	}
	return []any{waiting.What, metatable.ConvertToHumanReadableDateType(waiting.Since)}
}
