// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Access answers what the user of a request may do, and which Rollouts exist.
type Access interface {
	// MayWriteProgress reports whether the user of the request may write the progress of releases.
	MayWriteProgress(ctx context.Context) (bool, error)
	// IsController reports whether the user is weir-controller.
	IsController(ctx context.Context) bool
	// MayGet reports whether the user may get the named object in the namespace of the request. With an
	// empty name, it reports whether the user may get all objects of the resource in that namespace.
	MayGet(ctx context.Context, of schema.GroupResource, name string) (bool, error)
	// GetRollout returns the stored Rollout of that name in the namespace of the request; nil if there is
	// none.
	GetRollout(ctx context.Context, name string) (*rollouts.Rollout, error)
}

// Write is a change of a stored object. Old is the zero value for a create.
type Write[T Object] struct {
	Object, Old T
	IsNew       bool
	// Changed reports whether the request changes the part that its endpoint is about: the spec, or the
	// status.
	Changed bool
	// Deletes reports whether the request deletes the object or removes one of Weir's finalizers.
	Deletes bool
}

// REST serves the objects of a kind. It refuses reserved writes from users who may not write the progress
// of releases, even if they may update the resource.
type REST[T Object, Spec, Status any] struct {
	*registry.Store
	writeGuard[T, Spec, Status]
}

// writeGuard refuses reserved writes.
type writeGuard[T Object, Spec, Status any] struct {
	kind   Kind[T, Spec, Status]
	access Access
	// isStatus reports whether the request is about the status subresource.
	isStatus bool
}

// Create implements rest.StandardStorage.
func (r *REST[T, Spec, Status]) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	if err := r.checkReserved(ctx, Write[T]{Object: obj.(T), IsNew: true, Changed: true}); err != nil {
		return nil, err
	}
	made, err := r.Store.Create(ctx, obj, validate, options)
	return r.newCopyFilter(true).filterResponse(ctx, made, err)
}

// Update implements rest.StandardStorage.
func (r *REST[T, Spec, Status]) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, force bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	obj, made, err := r.Store.Update(ctx, name, rest.WrapUpdatedObjectInfo(r.hideCopies(info), r.checkUpdate), create, update, force, options)
	obj, err = r.newCopyFilter(true).filterResponse(ctx, obj, err)
	return obj, made, err
}

// Delete implements rest.GracefulDeleter.
func (r *REST[T, Spec, Status]) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	obj, done, err := r.Store.Delete(ctx, name, r.validateDelete(validate, options), options)
	obj, err = r.newCopyFilter(true).filterResponse(ctx, obj, err)
	return obj, done, err
}

// DeleteCollection implements rest.CollectionDeleter.
func (r *REST[T, Spec, Status]) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, which *internalversion.ListOptions) (runtime.Object, error) {
	obj, err := r.Store.DeleteCollection(ctx, r.validateDelete(validate, options), options, which)
	return r.newCopyFilter(false).filterResponse(ctx, obj, err)
}

// validateDelete checks each object that is deleted, before admission does. It refuses a deletion with the orphan
// policy while a release uses the object: nobody would end the release of the orphaned pods and routes.
func (g writeGuard[T, Spec, Status]) validateDelete(next rest.ValidateObjectFunc, options *metav1.DeleteOptions) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		o := obj.(T)
		if err := g.checkReserved(ctx, Write[T]{Object: o, Old: o, Deletes: true}); err != nil {
			return err
		}
		if g.kind.InUse != nil && orphansDependents(o, options) && g.kind.InUse(o) {
			return apierrors.NewConflict(g.kind.groupResource(g.kind.Plural), o.GetName(), errors.New(
				"a release is in progress, and what was made for it cannot be left behind: delete with propagationPolicy Background, or wait until it has ended"))
		}
		return next(ctx, obj)
	}
}

// orphansDependents reports whether the store will orphan the dependents of the object. The delete options take
// precedence over the finalizer.
func orphansDependents(obj metav1.Object, options *metav1.DeleteOptions) bool {
	switch {
	case options != nil && options.OrphanDependents != nil: //nolint:staticcheck // older clients send it
		return *options.OrphanDependents //nolint:staticcheck // as above
	case options != nil && options.PropagationPolicy != nil:
		return *options.PropagationPolicy == metav1.DeletePropagationOrphan
	default:
		return slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents)
	}
}

func (g writeGuard[T, Spec, Status]) checkUpdate(ctx context.Context, obj, old runtime.Object) (runtime.Object, error) {
	if g.kind.ReservedWrite == nil {
		return obj, nil
	}
	w := Write[T]{Object: obj.(T), Old: old.(T)}
	w.IsNew = w.Old.GetResourceVersion() == ""
	w.Deletes = !sets.New(w.Object.GetFinalizers()...).HasAll(weirFinalizers(w.Old.GetFinalizers())...)
	spec, status := g.kind.SpecAndStatus(w.Object)
	oldSpec, oldStatus := g.kind.SpecAndStatus(w.Old)
	if g.isStatus {
		w.Changed = !equality.Semantic.DeepEqual(*status, *oldStatus)
	} else {
		w.Changed = w.IsNew || !equality.Semantic.DeepEqual(*spec, *oldSpec)
	}
	return obj, g.checkReserved(ctx, w)
}

// weirFinalizers returns Weir's own finalizers.
func weirFinalizers(finalizers []string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return !strings.HasPrefix(f, rollouts.GroupName+"/") })
}

func (g writeGuard[T, Spec, Status]) checkReserved(ctx context.Context, w Write[T]) error {
	if g.kind.ReservedWrite == nil {
		return nil
	}
	if may, err := g.access.MayWriteProgress(ctx); err != nil || may {
		return err
	}
	instead, err := g.kind.ReservedWrite(ctx, g.access, w)
	if err != nil || instead == "" {
		return err
	}
	return apierrors.NewForbidden(g.kind.groupResource(g.kind.Plural), w.Object.GetName(), errors.New(instead))
}
