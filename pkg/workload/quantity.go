// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// canonical returns a template in which equal quantities have equal spellings, such as 1Gi and
// 1073741824. The native controller of Deployments takes two templates that differ in spelling for
// the same, so a user can write another spelling into a ReplicaSet, and no pod is replaced. The
// result is t itself if nothing has to be changed; t is never changed.
func canonical(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	differs := false
	eachQuantity(reflect.ValueOf(t), func(q resource.Quantity) resource.Quantity {
		differs = differs || q.Format != resource.DecimalSI
		return q
	})
	if !differs {
		return t
	}
	t = t.DeepCopy()
	eachQuantity(reflect.ValueOf(t), func(q resource.Quantity) resource.Quantity {
		if q.Format == resource.DecimalSI {
			return q
		}
		return *resource.NewDecimalQuantity(*q.AsDec(), resource.DecimalSI)
	})
	return t
}

var quantity = reflect.TypeFor[resource.Quantity]()

// eachQuantity calls do for each quantity in a value, and replaces those for which do returns
// another one.
func eachQuantity(v reflect.Value, do func(resource.Quantity) resource.Quantity) {
	if !mayHaveQuantity(v.Type()) {
		return
	}
	if v.Type() == quantity {
		was := v.Interface().(resource.Quantity)
		if is := do(was); is.Format != was.Format {
			v.Set(reflect.ValueOf(is))
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			eachQuantity(v.Elem(), do)
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			eachQuantity(f, do)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachQuantity(v.Index(i), do)
		}
	case reflect.Map: // a ResourceList; the values of a map cannot be set in place
		for _, key := range v.MapKeys() {
			was := v.MapIndex(key).Interface().(resource.Quantity)
			if is := do(was); is.Format != was.Format {
				v.SetMapIndex(key, reflect.ValueOf(is))
			}
		}
	}
}

var quantityTypes sync.Map

// mayHaveQuantity reports whether a value of a type may contain a quantity. Of maps only
// those are asked whose values are quantities.
func mayHaveQuantity(t reflect.Type) bool {
	if has, ok := quantityTypes.Load(t); ok {
		return has.(bool)
	}
	has := t == quantity
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		has = mayHaveQuantity(t.Elem())
	case reflect.Map:
		has = t.Elem() == quantity
	case reflect.Struct:
		for i := 0; i < t.NumField() && !has; i++ {
			has = mayHaveQuantity(t.Field(i).Type)
		}
	}
	quantityTypes.Store(t, has)
	return has
}
