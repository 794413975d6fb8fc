// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package plain serves stored objects that have a spec and a status. It answers
// one question: what may which request change of an object whose spec is its
// writers' and whose status is its controllers'? It must not know any kind: each
// is a value of Kind.
package plain

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

// Object is what the server keeps in memory.
type Object interface {
	runtime.Object
	metav1.Object
}

// Kind is a kind of objects T with a spec and a status.
type Kind[T Object, Spec, Status any] struct {
	// Group of the API; that of Rollouts if empty.
	Group string
	// Plural and Singular are the names of the resource.
	Plural, Singular string
	// Versions that serve the kind.
	Versions []string
	New      func() T
	NewList  func() runtime.Object
	// Parts are where an object keeps its spec and its status.
	Parts func(T) (*Spec, *Status)
	// Validate judges a new object, ValidateUpdate a change.
	Validate       func(T) field.ErrorList
	ValidateUpdate func(obj, old T) field.ErrorList
	// InUse reports whether something may belong to the object that must be deleted
	// with it; nil if nothing ever does.
	InUse func(T) bool
	// Internal reports whether only Weir writes such objects.
	Internal bool
	// ClusterScoped reports whether the objects are in no namespace.
	ClusterScoped bool
	// NoStatus reports whether the objects have no status. Parts then makes one up.
	NoStatus bool
	// Whole reports whether the controller writes spec and status at once.
	Whole bool
	// Reserved says of a write that only those may do who drive releases what to
	// do instead, and nothing of others; nil if there are none.
	Reserved func(ctx context.Context, d Drivers, w Write[T]) (instead string, err error)
	// Copies returns the copies of other objects that an object contains; nil for kinds without copies.
	Copies func(T) []Copy
	// Attributes are what lists can select objects by; nil for namespace and name.
	Attributes storage.AttrFunc
	// AfterDelete runs when an object is gone for good; may be nil.
	AfterDelete registry.AfterDeleteFunc
	Table       Table[T]
}

// Served is the resource, and the versions that serve it.
func (k Kind[T, Spec, Status]) Served() (resource schema.GroupResource, versions []string) {
	return k.resource(k.Plural), k.Versions
}

func (k Kind[T, Spec, Status]) resource(name string) schema.GroupResource {
	return schema.GroupResource{Group: cmp.Or(k.Group, rollouts.GroupName), Resource: name}
}

// Serve opens the store of a kind that needs nothing of its own. Without a status there
// is no storage of one.
func (k Kind[T, Spec, Status]) Serve(scheme *runtime.Scheme, options generic.RESTOptionsGetter, d Drivers) (main, status rest.Storage, err error) {
	s := k.Strategy(scheme, d)
	main, status, err = k.Open(options, d, s, StatusStrategy[T, Spec, Status]{s})
	if k.NoStatus {
		status = nil
	}
	return main, status, err
}

// Strategy is how the objects are written.
func (k Kind[T, Spec, Status]) Strategy(scheme *runtime.Scheme, d Drivers) Strategy[T, Spec, Status] {
	return Strategy[T, Spec, Status]{ObjectTyper: scheme, NameGenerator: names.SimpleNameGenerator, Kind: k, Drivers: d}
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

// Open opens the store of the objects and of their status, with a strategy for each.
func (k Kind[T, Spec, Status]) Open(options generic.RESTOptionsGetter, d Drivers, main mainStrategy, status updateStrategy,
) (*REST[T, Spec, Status], *StatusREST, error) {
	store := &registry.Store{
		NewFunc:                   func() runtime.Object { return k.New() },
		NewListFunc:               k.NewList,
		DefaultQualifiedResource:  k.resource(k.Plural),
		SingularQualifiedResource: k.resource(k.Singular),
		CreateStrategy:            main,
		UpdateStrategy:            main,
		DeleteStrategy:            main,
		ResetFieldsStrategy:       main,
		AfterDelete:               k.AfterDelete,
		TableConvertor:            k.Table,
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options, AttrFunc: k.Attributes}); err != nil {
		return nil, nil, fmt.Errorf("opening the store of %s: %w", k.Plural, err)
	}
	statusStore := *store
	statusStore.UpdateStrategy, statusStore.ResetFieldsStrategy = status, status
	g := guard[T, Spec, Status]{kind: k, drivers: d}
	statusGuard := g
	statusGuard.status = true
	return &REST[T, Spec, Status]{Store: store, guard: g}, &StatusREST{readable: shownStore[T, Spec, Status]{&statusStore, statusGuard}, Store: &statusStore, check: statusGuard.transform, write: statusGuard.withoutCopies, shown: statusGuard.shownOnce}, nil
}

// Strategy is what a writer of the main resource may change: all but the status.
type Strategy[T Object, Spec, Status any] struct {
	runtime.ObjectTyper
	names.NameGenerator
	Kind    Kind[T, Spec, Status]
	Drivers Drivers
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
	return s.Kind.inEveryVersion(fieldpath.MakePathOrDie("status"))
}

func (k Kind[T, Spec, Status]) inEveryVersion(paths ...fieldpath.Path) map[fieldpath.APIVersion]*fieldpath.Set {
	fields := map[fieldpath.APIVersion]*fieldpath.Set{}
	for _, version := range k.Versions {
		fields[fieldpath.APIVersion(k.resource("").Group+"/"+version)] = fieldpath.NewSet(paths...)
	}
	return fields
}

// PrepareForCreate drops the status, unless it is written with the spec. Objects that only Weir writes get no managed
// fields, which would be half of each write, unless somebody applies them: an
// object without managed fields gets none by updates.
func (s Strategy[T, Spec, Status]) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	o := obj.(T)
	if s.Kind.Internal && !slices.ContainsFunc(o.GetManagedFields(), applied) {
		o.SetManagedFields(nil)
	}
	o.SetGeneration(1)
	if _, status := s.Kind.Parts(o); !s.whole(ctx) {
		*status = *new(Status)
	}
}

// whole reports whether the request writes spec and status at once.
func (s Strategy[T, Spec, Status]) whole(ctx context.Context) bool {
	return s.Kind.Whole && s.Drivers.Controls(ctx)
}

func applied(by metav1.ManagedFieldsEntry) bool {
	return by.Operation == metav1.ManagedFieldsOperationApply
}

// PrepareForUpdate keeps the status and counts generations of the spec. As for a
// CRD, an empty field differs from an absent one.
func (s Strategy[T, Spec, Status]) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	o, stored := obj.(T), old.(T)
	spec, status := s.Kind.Parts(o)
	storedSpec, storedStatus := s.Kind.Parts(stored)
	if !s.whole(ctx) {
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

// validateSize judges the size of what others than the controller write.
func (s Strategy[T, Spec, Status]) validateSize(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	if s.Drivers.Controls(ctx) {
		return nil
	}
	return validation.ValidateSize(s.weighed(obj), s.weighed(old))
}

func (s Strategy[T, Spec, Status]) weighed(obj runtime.Object) *validation.Weighed {
	if obj == nil {
		return nil
	}
	spec, status := s.Kind.Parts(obj.(T))
	return &validation.Weighed{Meta: metaOf(obj.(T)), Spec: spec, Status: status}
}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (s Strategy[T, Spec, Status]) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	return validation.FinalizerWarnings(obj.(T), nil)
}

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (s Strategy[T, Spec, Status]) WarningsOnUpdate(_ context.Context, obj, old runtime.Object) []string {
	return validation.FinalizerWarnings(obj.(T), old.(T))
}
