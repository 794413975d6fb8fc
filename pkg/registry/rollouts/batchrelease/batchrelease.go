// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package batchrelease answers one question: what may which request change of a
// stored BatchRelease? It must not know how batches are run.
package batchrelease

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
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

// strategy is what a writer of the main resource may change: all but the status.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
}

var (
	_ rest.RESTCreateStrategy  = strategy{}
	_ rest.RESTUpdateStrategy  = strategy{}
	_ rest.RESTDeleteStrategy  = strategy{}
	_ rest.ResetFieldsStrategy = strategy{}
)

// NamespaceScoped implements rest.RESTCreateStrategy.
func (strategy) NamespaceScoped() bool { return true }

// AllowCreateOnUpdate is false: a PUT to a name that does not exist is 404.
func (strategy) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate is false: a PUT needs a resourceVersion.
func (strategy) AllowUnconditionalUpdate(context.Context) bool { return false }

// Canonicalize implements rest.RESTCreateStrategy.
func (strategy) Canonicalize(runtime.Object) {}

// GetResetFields implements rest.ResetFieldsStrategy.
func (strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return inBothVersions(fieldpath.MakePathOrDie("status"))
}

// PrepareForCreate drops the status.
func (strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	b := obj.(*rollouts.BatchRelease)
	b.Generation = 1
	b.Status = rollouts.BatchReleaseStatus{}
}

// PrepareForUpdate keeps the status and counts generations of the spec.
func (strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	b, stored := obj.(*rollouts.BatchRelease), old.(*rollouts.BatchRelease)
	b.Status = stored.Status
	b.Generation = stored.Generation
	if !equality.Semantic.DeepEqual(b.Spec, stored.Spec) {
		b.Generation++
	}
}

// Validate implements rest.RESTCreateStrategy.
func (strategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	return validation.ValidateBatchRelease(obj.(*rollouts.BatchRelease))
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (strategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return validation.ValidateBatchReleaseUpdate(obj.(*rollouts.BatchRelease), old.(*rollouts.BatchRelease))
}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// statusStrategy is what a writer of the status may change: the status.
type statusStrategy struct{ strategy }

// GetResetFields implements rest.ResetFieldsStrategy.
func (statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return inBothVersions(fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec"))
}

// PrepareForUpdate keeps everything but the status.
func (statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	b, stored := obj.(*rollouts.BatchRelease), old.(*rollouts.BatchRelease)
	managed := b.ManagedFields
	b.ObjectMeta = *stored.ObjectMeta.DeepCopy()
	b.ManagedFields = managed
	b.Spec = stored.Spec
}

// ValidateUpdate has nothing to add: only controllers write this status.
func (statusStrategy) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}

// NewEndpoints opens the store of BatchReleases and of their status.
func NewEndpoints(scheme *runtime.Scheme, options generic.RESTOptionsGetter) (*registry.Store, *StatusREST, error) {
	main := strategy{ObjectTyper: scheme, NameGenerator: names.SimpleNameGenerator}
	store := &registry.Store{
		NewFunc:                   func() runtime.Object { return &rollouts.BatchRelease{} },
		NewListFunc:               func() runtime.Object { return &rollouts.BatchReleaseList{} },
		DefaultQualifiedResource:  rollouts.Resource("batchreleases"),
		SingularQualifiedResource: rollouts.Resource("batchrelease"),
		CreateStrategy:            main,
		UpdateStrategy:            main,
		DeleteStrategy:            main,
		ResetFieldsStrategy:       main,
		TableConvertor:            table{},
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options}); err != nil {
		return nil, nil, fmt.Errorf("opening the store of batchreleases: %w", err)
	}
	status := *store
	status.UpdateStrategy = statusStrategy{strategy: main}
	status.ResetFieldsStrategy = statusStrategy{strategy: main}
	return store, &StatusREST{store: &status}, nil
}

func inBothVersions(paths ...fieldpath.Path) map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		rollouts.GroupName + "/v1beta1":  fieldpath.NewSet(paths...),
		rollouts.GroupName + "/v1alpha1": fieldpath.NewSet(paths...),
	}
}
