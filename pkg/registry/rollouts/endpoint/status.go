// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// StatusStrategy is the strategy for writes of the status: a writer may change only the status.
type StatusStrategy[T Object, Spec, Status any] struct{ Strategy[T, Spec, Status] }

// GetResetFields implements rest.ResetFieldsStrategy.
func (s StatusStrategy[T, Spec, Status]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.Kind.resetFields(fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec"))
}

// PrepareForUpdate keeps everything but the status and the managed fields, which include those of the
// status.
func (s StatusStrategy[T, Spec, Status]) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	o, stored := obj.(T), old.(T)
	spec, _ := s.Kind.SpecAndStatus(o)
	storedSpec, _ := s.Kind.SpecAndStatus(stored)
	*spec = *storedSpec
	managed := o.GetManagedFields()
	*objectMeta(o) = *objectMeta(stored).DeepCopy()
	o.SetManagedFields(managed)
}

// ValidateUpdate checks only the size: the controllers are responsible for the content of a status.
func (s StatusStrategy[T, Spec, Status]) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return s.validateSize(ctx, obj, old)
}

// objectMeta returns the complete metadata of an object.
func objectMeta(obj metav1.Object) *metav1.ObjectMeta {
	return obj.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
}

// StatusREST serves the status subresource.
type StatusREST struct {
	statusStore
	Store       *registry.Store
	checkUpdate rest.TransformFunc
	// hideCopies hides copies that the user may not see from an update. shown removes them from the response.
	hideCopies     func(rest.UpdatedObjectInfo) rest.UpdatedObjectInfo
	filterResponse func(context.Context, runtime.Object, error) (runtime.Object, error)
}

// statusStore is the part of the status store that StatusREST serves unchanged.
type statusStore interface {
	rest.Storage
	rest.Getter // patches need it
	rest.ResetFieldsStrategy
	rest.TableConvertor
}

var _ rest.Patcher = (*StatusREST)(nil)

// Destroy implements rest.Storage; the store is shared and destroyed once.
func (s *StatusREST) Destroy() {}

// Update implements rest.Updater.
func (s *StatusREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	obj, made, err := s.Store.Update(ctx, name, rest.WrapUpdatedObjectInfo(s.hideCopies(info), s.checkUpdate), create, update, false, options)
	obj, err = s.filterResponse(ctx, obj, err)
	return obj, made, err
}

// filteredStore is a store whose Get omits what the user may not see.
type filteredStore[T Object, Spec, Status any] struct {
	*registry.Store
	writeGuard[T, Spec, Status]
}

// Get implements rest.Getter.
func (s filteredStore[T, Spec, Status]) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	obj, err := s.Store.Get(ctx, name, options)
	return s.filterSingle(ctx, obj, err)
}

// filterSingle filters a response that has one object.
func (g writeGuard[T, Spec, Status]) filterSingle(ctx context.Context, obj runtime.Object, err error) (runtime.Object, error) {
	return g.newCopyFilter(true).filterResponse(ctx, obj, err)
}
