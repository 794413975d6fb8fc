// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package endpoint implements the REST endpoints of stored objects that have a spec and a status. It
// decides which request may change which part of an object: users write the spec, controllers write the
// status. The package knows no particular kind; each kind is a value of Kind.
package endpoint

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
)

// Object is an object in its internal version.
type Object interface {
	runtime.Object
	metav1.Object
}

// Kind describes a kind of objects T with a spec and a status.
type Kind[T Object, Spec, Status any] struct {
	// Group is the API group; if empty, the group of Rollouts.
	Group string
	// Plural and Singular are the names of the resource.
	Plural, Singular string
	// Versions are the API versions that serve the kind.
	Versions []string
	New      func() T
	NewList  func() runtime.Object
	// SpecAndStatus returns pointers to the spec and the status of an object.
	SpecAndStatus func(T) (*Spec, *Status)
	// Validate validates a new object, ValidateUpdate a change.
	Validate       func(T) field.ErrorList
	ValidateUpdate func(obj, old T) field.ErrorList
	// InUse reports whether the object may own dependents that must be deleted with the object; nil if it
	// never does.
	InUse func(T) bool
	// Internal reports whether only Weir writes objects of this kind.
	Internal bool
	// ClusterScoped reports whether the objects have no namespace.
	ClusterScoped bool
	// NoStatus reports whether the objects have no status. SpecAndStatus then returns a status that is not stored.
	NoStatus bool
	// CombinedWrites reports whether the controller writes spec and status in one request.
	CombinedWrites bool
	// ReservedWrite returns what the user should do instead, if only users who may write the progress of
	// releases may make this write. It returns "" for other writes. ReservedWrite is nil if no write is
	// reserved.
	ReservedWrite func(ctx context.Context, d Access, w Write[T]) (instead string, err error)
	// Copies returns the copies of other objects that an object contains; nil for kinds without copies.
	Copies func(T) []Copy
	// GetAttrs returns the labels and fields by which lists can select objects; nil for namespace and
	// name.
	GetAttrs storage.AttrFunc
	// AfterDelete runs after an object was removed from the store; may be nil.
	AfterDelete registry.AfterDeleteFunc
	Table       Table[T]
}

// ResourceAndVersions returns the resource and the versions that serve it.
func (k Kind[T, Spec, Status]) ResourceAndVersions() (resource schema.GroupResource, versions []string) {
	return k.groupResource(k.Plural), k.Versions
}

func (k Kind[T, Spec, Status]) groupResource(name string) schema.GroupResource {
	return schema.GroupResource{Group: cmp.Or(k.Group, rollouts.GroupName), Resource: name}
}

// NewStorage opens the store of a kind that needs no strategy of its own. status is nil for kinds without a
// status.
func (k Kind[T, Spec, Status]) NewStorage(scheme *runtime.Scheme, options generic.RESTOptionsGetter, d Access) (main, status rest.Storage, err error) {
	s := k.NewStrategy(scheme, d)
	main, status, err = k.NewREST(options, d, s, StatusStrategy[T, Spec, Status]{s})
	if k.NoStatus {
		status = nil
	}
	return main, status, err
}

// NewStrategy returns the default strategy for writes of the main resource.
func (k Kind[T, Spec, Status]) NewStrategy(scheme *runtime.Scheme, d Access) Strategy[T, Spec, Status] {
	return Strategy[T, Spec, Status]{ObjectTyper: scheme, NameGenerator: names.SimpleNameGenerator, Kind: k, Access: d}
}

type (
	updateStrategy interface {
		rest.RESTUpdateStrategy
		rest.ResetFieldsStrategy
	}
	mainStrategy interface {
		rest.RESTCreateStrategy
		updateStrategy
	}
)

// NewREST opens the store of the objects and of their status, with a strategy for each.
func (k Kind[T, Spec, Status]) NewREST(options generic.RESTOptionsGetter, d Access, main mainStrategy, status updateStrategy,
) (*REST[T, Spec, Status], *StatusREST, error) {
	store := &registry.Store{
		NewFunc:                   func() runtime.Object { return k.New() },
		NewListFunc:               k.NewList,
		DefaultQualifiedResource:  k.groupResource(k.Plural),
		SingularQualifiedResource: k.groupResource(k.Singular),
		CreateStrategy:            main,
		UpdateStrategy:            main,
		DeleteStrategy:            main,
		ResetFieldsStrategy:       main,
		AfterDelete:               k.AfterDelete,
		TableConvertor:            k.Table,
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options, AttrFunc: k.GetAttrs}); err != nil {
		return nil, nil, fmt.Errorf("opening the store of %s: %w", k.Plural, err)
	}
	statusStore := *store
	statusStore.UpdateStrategy, statusStore.ResetFieldsStrategy = status, status
	g := writeGuard[T, Spec, Status]{kind: k, access: d}
	statusGuard := g
	statusGuard.isStatus = true
	return &REST[T, Spec, Status]{Store: store, writeGuard: g}, &StatusREST{statusStore: filteredStore[T, Spec, Status]{&statusStore, statusGuard}, Store: &statusStore, checkUpdate: statusGuard.checkUpdate, hideCopies: statusGuard.hideCopies, filterResponse: statusGuard.filterSingle}, nil
}

// Strategy is the strategy for writes of the main resource: a user may change everything but the status.
type Strategy[T Object, Spec, Status any] struct {
	runtime.ObjectTyper
	names.NameGenerator
	Kind   Kind[T, Spec, Status]
	Access Access
}

// NamespaceScoped implements rest.RESTCreateStrategy.
func (s Strategy[T, Spec, Status]) NamespaceScoped() bool { return !s.Kind.ClusterScoped }

// AllowCreateOnUpdate is false: a PUT to a name that does not exist is 404.
func (s Strategy[T, Spec, Status]) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate is false: a PUT needs a resourceVersion.
func (s Strategy[T, Spec, Status]) AllowUnconditionalUpdate(context.Context) bool { return false }

// Canonicalize implements rest.RESTCreateStrategy.
func (s Strategy[T, Spec, Status]) Canonicalize(runtime.Object) {}

// GetResetFields implements rest.ResetFieldsStrategy.
func (s Strategy[T, Spec, Status]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.Kind.resetFields(fieldpath.MakePathOrDie("status"))
}

func (k Kind[T, Spec, Status]) resetFields(paths ...fieldpath.Path) map[fieldpath.APIVersion]*fieldpath.Set {
	fields := map[fieldpath.APIVersion]*fieldpath.Set{}
	for _, version := range k.Versions {
		fields[fieldpath.APIVersion(k.groupResource("").Group+"/"+version)] = fieldpath.NewSet(paths...)
	}
	return fields
}

// PrepareForCreate removes the status, unless the controller writes it together with the spec. Objects that
// only Weir writes get no managed fields, because managed fields would double the size of each write.
// Server-side apply still works: an applied object keeps its managed fields, and updates add none to an
// object without managed fields.
func (s Strategy[T, Spec, Status]) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	o := obj.(T)
	if s.Kind.Internal && !slices.ContainsFunc(o.GetManagedFields(), isApply) {
		o.SetManagedFields(nil)
	}
	o.SetGeneration(1)
	if _, status := s.Kind.SpecAndStatus(o); !s.isCombinedWrite(ctx) {
		*status = *new(Status)
	}
}

// isCombinedWrite reports whether the request writes spec and status at once.
func (s Strategy[T, Spec, Status]) isCombinedWrite(ctx context.Context) bool {
	return s.Kind.CombinedWrites && s.Access.IsController(ctx)
}

func isApply(by metav1.ManagedFieldsEntry) bool {
	return by.Operation == metav1.ManagedFieldsOperationApply
}

// PrepareForUpdate keeps the stored status and increments the generation if the spec changed. As in a CRD,
// an empty field differs from an absent one.
func (s Strategy[T, Spec, Status]) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	o, stored := obj.(T), old.(T)
	spec, status := s.Kind.SpecAndStatus(o)
	storedSpec, storedStatus := s.Kind.SpecAndStatus(stored)
	if !s.isCombinedWrite(ctx) {
		*status = *storedStatus
	}
	o.SetGeneration(stored.GetGeneration())
	if !equality.Semantic.DeepEqualWithNilDifferentFromEmpty(*spec, *storedSpec) {
		o.SetGeneration(stored.GetGeneration() + 1)
	}
}

// Validate implements rest.RESTCreateStrategy.
func (s Strategy[T, Spec, Status]) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	return validation.Judge(s.validateSize(ctx, obj, nil), func() field.ErrorList { return s.Kind.Validate(obj.(T)) })
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s Strategy[T, Spec, Status]) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return validation.Judge(s.validateSize(ctx, obj, old), func() field.ErrorList { return s.Kind.ValidateUpdate(obj.(T), old.(T)) })
}

// validateSize limits the size of objects that other users than the controller write.
func (s Strategy[T, Spec, Status]) validateSize(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	if s.Access.IsController(ctx) {
		return nil
	}
	return validation.ValidateSize(s.toWeighed(obj), s.toWeighed(old))
}

func (s Strategy[T, Spec, Status]) toWeighed(obj runtime.Object) *validation.Weighed {
	if obj == nil {
		return nil
	}
	spec, status := s.Kind.SpecAndStatus(obj.(T))
	return &validation.Weighed{Meta: objectMeta(obj.(T)), Spec: spec, Status: status}
}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (s Strategy[T, Spec, Status]) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	return validation.FinalizerWarnings(obj.(T), nil)
}

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (s Strategy[T, Spec, Status]) WarningsOnUpdate(_ context.Context, obj, old runtime.Object) []string {
	return validation.FinalizerWarnings(obj.(T), old.(T))
}
