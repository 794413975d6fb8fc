// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Table prints the columns that OpenKruise prints, in their order, between the name and the age of each
// object T. The columns of Weir follow the age.
type Table[T Object] struct {
	// Noun is the name of an object in the descriptions of columns.
	Noun          string
	Columns, More []metav1.TableColumnDefinition
	// Cells returns the values of both kinds of columns; the printer leaves nil empty. The context has the user and, for
	// one object, the namespace of the request.
	Cells func(context.Context, T) (cells, more []any)
}

// ConvertToTable implements rest.TableConvertor.
func (p Table[T]) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	t := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		t.ColumnDefinitions = p.columns()
	}
	if list, ok := obj.(metav1.ListMetaAccessor); ok {
		t.ListMeta = *list.GetListMeta().(*metav1.ListMeta)
	} else if m, err := meta.CommonAccessor(obj); err == nil {
		t.ResourceVersion = m.GetResourceVersion()
	}
	var err error
	t.Rows, err = metatable.MetaToTableRow(obj, func(obj runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
		o, ok := obj.(T)
		if !ok {
			return nil, fmt.Errorf("printing a %T as a %s", obj, p.Noun)
		}
		cells, more := p.Cells(ctx, o)
		return slices.Concat([]any{name}, cells, []any{age}, more), nil
	})
	return t, err
}

// TextCell returns a cell. An empty text is nil, because kubectl prints nil and "" differently.
func TextCell[S ~string](s S) any {
	if s == "" {
		return nil
	}
	return string(s)
}

func (p Table[T]) columns() []metav1.TableColumnDefinition {
	name := metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: "Name of the " + p.Noun + "."}
	age := metav1.TableColumnDefinition{Name: "AGE", Type: "date", Description: "When the " + p.Noun + " was created."}
	if len(p.Columns) == 0 {
		age.Name = "Age" // the spelling of a CRD without printer columns
	}
	return slices.Concat([]metav1.TableColumnDefinition{name}, p.Columns, []metav1.TableColumnDefinition{age}, p.More)
}
