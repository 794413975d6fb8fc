// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package plain

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Table prints the columns that OpenKruise prints, in their order, between the
// name and the age of each object T.
type Table[T Object] struct {
	// Noun is what the descriptions call an object.
	Noun    string
	Columns []metav1.TableColumnDefinition
	// Cells are the values of the columns; nil prints nothing.
	Cells func(T) []any
}

var _ rest.TableConvertor = Table[Object]{}

// ConvertToTable implements rest.TableConvertor.
func (p Table[T]) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	t := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		t.ColumnDefinitions = p.columns()
	}
	if list, err := meta.ListAccessor(obj); err == nil {
		t.ResourceVersion, t.Continue, t.RemainingItemCount = list.GetResourceVersion(), list.GetContinue(), list.GetRemainingItemCount()
	} else if m, err := meta.CommonAccessor(obj); err == nil {
		t.ResourceVersion = m.GetResourceVersion()
	}
	var err error
	t.Rows, err = metatable.MetaToTableRow(obj, func(obj runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
		o, ok := obj.(T)
		if !ok {
			return nil, fmt.Errorf("printing a %T as a %s", obj, p.Noun)
		}
		return append(append([]any{name}, p.Cells(o)...), age), nil
	})
	return t, err
}

// Text is a cell, empty for want of a text: kubectl tells the two apart.
func Text[S ~string](s S) any {
	if s == "" {
		return nil
	}
	return string(s)
}

func (p Table[T]) columns() []metav1.TableColumnDefinition {
	columns := []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name", Description: "Name of the " + p.Noun + "."}}
	columns = append(columns, p.Columns...)
	// A CRD spells the columns that it names in capitals, and this one without any.
	age := "AGE"
	if len(p.Columns) == 0 {
		age = "Age"
	}
	return append(columns, metav1.TableColumnDefinition{Name: age, Type: "date", Description: "When the " + p.Noun + " was created."})
}
