// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package plain serves kinds of which there is nothing special to say. It
// answers one question: what may which request change of a stored object whose
// spec is its writers' and whose status is its controllers'? It must not know
// any kind: each is a value of Kind.
package plain

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
)

// Object is a hub object.
type Object interface {
	runtime.Object
	metav1.Object
}

// Kind is what there is to know of a kind of objects T with a spec and a status.
type Kind[T Object, Spec, Status any] struct {
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
	// InUse reports whether something may belong to the object that must go with it;
	// nil if nothing ever does.
	InUse func(T) bool
	// Internal reports whether only Weir writes such objects.
	Internal bool
	// Reserved says of a write that only those may do who drive releases what to
	// do instead, and nothing of others; nil if there are none.
	Reserved func(ctx context.Context, d Drivers, w Write[T]) (instead string, err error)
	Table    rest.TableConvertor
}

// Name is that of the resource.
func (k Kind[T, Spec, Status]) Name() string { return k.Plural }

// Serve opens the store of the objects and of their status.
func (k Kind[T, Spec, Status]) Serve(scheme *runtime.Scheme, options generic.RESTOptionsGetter, d Drivers) (main, status rest.Storage, err error) {
	spec := strategy[T, Spec, Status]{ObjectTyper: scheme, NameGenerator: names.SimpleNameGenerator, kind: k, drivers: d}
	store := &registry.Store{
		NewFunc:                   func() runtime.Object { return k.New() },
		NewListFunc:               k.NewList,
		DefaultQualifiedResource:  rollouts.Resource(k.Plural),
		SingularQualifiedResource: rollouts.Resource(k.Singular),
		CreateStrategy:            spec,
		UpdateStrategy:            spec,
		DeleteStrategy:            spec,
		ResetFieldsStrategy:       spec,
		TableConvertor:            k.Table,
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options}); err != nil {
		return nil, nil, fmt.Errorf("opening the store of %s: %w", k.Plural, err)
	}
	beside := *store
	beside.UpdateStrategy = statusStrategy[T, Spec, Status]{strategy: spec}
	beside.ResetFieldsStrategy = statusStrategy[T, Spec, Status]{strategy: spec}
	g := guard[T, Spec, Status]{kind: k, drivers: d}
	of := g
	of.status = true
	return &REST[T, Spec, Status]{Store: store, guard: g}, &StatusREST{store: &beside, judge: of.judge}, nil
}

// strategy is what a writer of the main resource may change: all but the status.
type strategy[T Object, Spec, Status any] struct {
	runtime.ObjectTyper
	names.NameGenerator
	kind    Kind[T, Spec, Status]
	drivers Drivers
}

// NamespaceScoped implements rest.RESTCreateStrategy.
func (s strategy[T, Spec, Status]) NamespaceScoped() bool { return true }

// AllowCreateOnUpdate is false: a PUT to a name that does not exist is 404.
func (s strategy[T, Spec, Status]) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate is false: a PUT needs a resourceVersion.
func (s strategy[T, Spec, Status]) AllowUnconditionalUpdate(context.Context) bool { return false }

// Canonicalize implements rest.RESTCreateStrategy.
func (s strategy[T, Spec, Status]) Canonicalize(runtime.Object) {}

// GetResetFields implements rest.ResetFieldsStrategy.
func (s strategy[T, Spec, Status]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.inEveryVersion(fieldpath.MakePathOrDie("status"))
}

func (s strategy[T, Spec, Status]) inEveryVersion(paths ...fieldpath.Path) map[fieldpath.APIVersion]*fieldpath.Set {
	fields := map[fieldpath.APIVersion]*fieldpath.Set{}
	for _, version := range s.kind.Versions {
		fields[fieldpath.APIVersion(rollouts.GroupName+"/"+version)] = fieldpath.NewSet(paths...)
	}
	return fields
}

// PrepareForCreate drops the status. What only Weir writes has no record of who
// wrote which field, which would be half of what each write takes, until somebody
// applies it: an object without one gets none by updates.
func (s strategy[T, Spec, Status]) PrepareForCreate(_ context.Context, obj runtime.Object) {
	o := obj.(T)
	if s.kind.Internal && !slices.ContainsFunc(o.GetManagedFields(), applied) {
		o.SetManagedFields(nil)
	}
	o.SetGeneration(1)
	_, status := s.kind.Parts(o)
	*status = *new(Status)
}

func applied(by metav1.ManagedFieldsEntry) bool {
	return by.Operation == metav1.ManagedFieldsOperationApply
}

// PrepareForUpdate keeps the status and counts generations of the spec.
func (s strategy[T, Spec, Status]) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	o, stored := obj.(T), old.(T)
	spec, status := s.kind.Parts(o)
	storedSpec, storedStatus := s.kind.Parts(stored)
	*status = *storedStatus
	o.SetGeneration(Generation(stored.GetGeneration(), *spec, *storedSpec))
}

// Generation is the one after the stored one if the specs differ. As for a CRD,
// what is empty differs from what is absent.
func Generation(stored int64, spec, storedSpec any) int64 {
	if equality.Semantic.DeepEqualWithNilDifferentFromEmpty(spec, storedSpec) {
		return stored
	}
	return stored + 1
}

// Validate implements rest.RESTCreateStrategy.
func (s strategy[T, Spec, Status]) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	return validation.Judge(s.weigh(ctx, obj.(T), nil), func() field.ErrorList { return s.kind.Validate(obj.(T)) })
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s strategy[T, Spec, Status]) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return validation.Judge(s.weigh(ctx, obj.(T), old), func() field.ErrorList { return s.kind.ValidateUpdate(obj.(T), old.(T)) })
}

// weigh judges the size of what others than the controller make of an object.
func (s strategy[T, Spec, Status]) weigh(ctx context.Context, obj T, old runtime.Object) field.ErrorList {
	if s.drivers.Controls(ctx) {
		return nil
	}
	if old == nil {
		return validation.ValidateSize(s.weighed(obj), nil)
	}
	return validation.ValidateSize(s.weighed(obj), s.weighed(old.(T)))
}

func (s strategy[T, Spec, Status]) weighed(obj T) *validation.Weighed {
	spec, status := s.kind.Parts(obj)
	return &validation.Weighed{Meta: metaOf(obj), Spec: spec, Status: status}
}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (s strategy[T, Spec, Status]) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	return validation.FinalizerWarnings(obj.(T), nil)
}

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (s strategy[T, Spec, Status]) WarningsOnUpdate(_ context.Context, obj, old runtime.Object) []string {
	return validation.FinalizerWarnings(obj.(T), old.(T))
}
