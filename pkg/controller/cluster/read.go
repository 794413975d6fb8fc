// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/object"
)

// get reads an object; nil if there is none.
func get[T client.Object](ctx context.Context, from client.Reader, namespace, name string, into T, how ...client.GetOption) (T, error) {
	var none T
	err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into, how...)
	switch {
	case IsNotFound(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("reading %T %s: %w", into, name, err)
	}
	return into, nil
}

// getStored reads an object of a kind, typed if the scheme has the kind; nil if there is none. The object
// shares memory with the cache.
func getStored(ctx context.Context, s Reader, gvk schema.GroupVersionKind, namespace, name string) (object.Object, error) {
	o := s.NewStored(gvk)
	err := s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o, client.UnsafeDisableDeepCopy)
	switch {
	case IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", gvk.Kind, name, err)
	default:
		return o, nil
	}
}

// listInNamespaceOf lists the objects of a kind in the namespace of another object.
func listInNamespaceOf(ctx context.Context, s Reader, kind schema.GroupVersionKind, beside metav1.Object, which ...client.ListOption) ([]object.Object, error) {
	list, err := s.Scheme().New(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err != nil {
		return nil, fmt.Errorf("making a list of %s: %w", kind.Kind, err)
	}
	objects, ok := list.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("making a list of %s: %T is none", kind.Kind, list)
	}
	found, err := listObjects(ctx, s, objects, append(which, client.InNamespace(beside.GetNamespace()))...)
	if err != nil {
		return nil, fmt.Errorf("listing %s of %s: %w", kind.Kind, beside.GetName(), err)
	}
	return found, nil
}

// listObjects fills a list and returns its items.
func listObjects(ctx context.Context, from client.Reader, list client.ObjectList, which ...client.ListOption) ([]object.Object, error) {
	if err := from.List(ctx, list, which...); err != nil {
		return nil, err
	}
	var found []object.Object
	err := meta.EachListItem(list, func(item runtime.Object) error {
		if o, ok := item.(object.Object); ok {
			found = append(found, o)
		}
		return nil
	})
	return found, err
}

// NewStored returns an empty object of the type that the caches use: the Go type if the scheme has the kind,
// and unstructured otherwise.
func (s Reader) NewStored(gvk schema.GroupVersionKind) client.Object {
	if o, err := s.Scheme().New(gvk); err == nil {
		if typed, ok := o.(client.Object); ok {
			return typed
		}
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}

// listNames fills a list and returns the names of its items.
func listNames(ctx context.Context, from client.Reader, list client.ObjectList, which ...client.ListOption) (sets.Set[string], error) {
	found, err := listObjects(ctx, from, list, which...)
	names := sets.New[string]()
	for _, o := range found {
		names.Insert(o.GetName())
	}
	return names, err
}

// newMetadataList returns an empty list of the metadata of objects of a kind.
func newMetadataList(kind schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}
