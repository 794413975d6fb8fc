// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package batchrelease

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// table prints the columns that OpenKruise prints, in their order.
type table struct{}

var _ rest.TableConvertor = table{}

var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the batch release."},
	{Name: "KIND", Type: "string", Description: "The kind of the workload."},
	{Name: "PHASE", Type: "string", Description: "The phase of the batch release."},
	{Name: "BATCH", Type: "integer", Description: "The current batch, counted from 0."},
	{Name: "BATCH-STATE", Type: "string", Description: "The state of the current batch."},
	{Name: "AGE", Type: "date", Description: "When the batch release was created."},
}

// ConvertToTable implements rest.TableConvertor.
func (table) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	t := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		t.ColumnDefinitions = columns
	}
	var err error
	if l, isList := obj.(*rollouts.BatchReleaseList); isList {
		t.ListMeta = l.ListMeta
	} else if m, err := meta.CommonAccessor(obj); err == nil {
		t.ResourceVersion = m.GetResourceVersion()
	}
	t.Rows, err = metatable.MetaToTableRow(obj, func(obj runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
		b, ok := obj.(*rollouts.BatchRelease)
		if !ok {
			return nil, fmt.Errorf("printing a %T as a batchrelease", obj)
		}
		kind := ""
		if b.Spec.WorkloadRef != nil {
			kind = b.Spec.WorkloadRef.Kind
		}
		return []any{name, kind, string(b.Status.Phase), int64(b.Status.CurrentBatch), string(b.Status.BatchState), age}, nil
	})
	return t, err
}
