// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package plain

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// StatusStrategy is what a writer of the status may change: the status.
type StatusStrategy[T Object, Spec, Status any] struct{ Strategy[T, Spec, Status] }

// GetResetFields implements rest.ResetFieldsStrategy.
func (s StatusStrategy[T, Spec, Status]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.Kind.inEveryVersion(fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec"))
}

// PrepareForUpdate keeps everything but the status. Managed fields are about the
// status, too.
func (s StatusStrategy[T, Spec, Status]) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	o, stored := obj.(T), old.(T)
	spec, _ := s.Kind.Parts(o)
	storedSpec, _ := s.Kind.Parts(stored)
	*spec = *storedSpec
	managed := o.GetManagedFields()
	*metaOf(o) = *metaOf(stored).DeepCopy()
	o.SetManagedFields(managed)
}

// ValidateUpdate judges the size only: what controllers say is theirs.
func (s StatusStrategy[T, Spec, Status]) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return s.validateSize(ctx, obj, old)
}

// metaOf is all of the metadata.
func metaOf(obj metav1.Object) *metav1.ObjectMeta {
	return obj.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
}

// StatusREST serves the status subresource.
type StatusREST struct {
	readable
	Store *registry.Store
	check rest.TransformFunc
	// write and shown remove copies that the user may not see: write before an update, shown
	// from the response.
	write func(rest.UpdatedObjectInfo) rest.UpdatedObjectInfo
	shown func(context.Context, runtime.Object, error) (runtime.Object, error)
}

// readable is what a subresource serves of its store as it is.
type readable interface {
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
	obj, made, err := s.Store.Update(ctx, name, rest.WrapUpdatedObjectInfo(s.write(info), s.check), create, update, false, options)
	obj, err = s.shown(ctx, obj, err)
	return obj, made, err
}

// shownStore is a store whose Get returns only what the user may see.
type shownStore[T Object, Spec, Status any] struct {
	*registry.Store
	guard[T, Spec, Status]
}

// Get implements rest.Getter.
func (s shownStore[T, Spec, Status]) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	obj, err := s.Store.Get(ctx, name, options)
	return s.shownOnce(ctx, obj, err)
}

// shownOnce filters a response that has one object.
func (g guard[T, Spec, Status]) shownOnce(ctx context.Context, obj runtime.Object, err error) (runtime.Object, error) {
	return g.reader(true).answer(ctx, obj, err)
}
