// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package plain

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

// Drivers knows who drives releases, and of which Rollouts.
type Drivers interface {
	// Drives reports whether the user of the request may write the progress of releases.
	Drives(ctx context.Context) (bool, error)
	// Controls reports whether the user is the one that does it.
	Controls(ctx context.Context) bool
	// Reads reports whether the user may get the named object in the namespace of the request, or
	// all objects of the resource there if the name is empty.
	Reads(ctx context.Context, of schema.GroupResource, name string) (bool, error)
	// Rollout is the stored Rollout of that name in the namespace of the request, or nil.
	Rollout(ctx context.Context, name string) (*rollouts.Rollout, error)
}

// Write is what a request makes of a stored object. Old is nil if there is none.
type Write[T Object] struct {
	Object, Old T
	New         bool
	// Changed reports whether it writes the part that the request is about: the spec
	// of an object, or its status.
	Changed bool
	// Gone reports whether it deletes the object, or takes away what keeps it.
	Gone bool
}

// REST serves the objects of a kind. Reserved writes are refused from users who do
// not drive releases, whatever they may do with the resource.
type REST[T Object, Spec, Status any] struct {
	*registry.Store
	guard[T, Spec, Status]
}

// guard refuses reserved writes.
type guard[T Object, Spec, Status any] struct {
	kind    Kind[T, Spec, Status]
	drivers Drivers
	// status reports whether the request is about the status.
	status bool
}

// Create implements rest.StandardStorage.
func (r *REST[T, Spec, Status]) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	if err := r.check(ctx, Write[T]{Object: obj.(T), New: true, Changed: true}); err != nil {
		return nil, err
	}
	made, err := r.Store.Create(ctx, obj, validate, options)
	return r.reader(true).answer(ctx, made, err)
}

// Update implements rest.StandardStorage.
func (r *REST[T, Spec, Status]) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, force bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	obj, made, err := r.Store.Update(ctx, name, rest.WrapUpdatedObjectInfo(r.withoutCopies(info), r.transform), create, update, force, options)
	obj, err = r.reader(true).answer(ctx, obj, err)
	return obj, made, err
}

// Delete implements rest.GracefulDeleter.
func (r *REST[T, Spec, Status]) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	obj, done, err := r.Store.Delete(ctx, name, r.onDelete(validate, options), options)
	obj, err = r.reader(true).answer(ctx, obj, err)
	return obj, done, err
}

// DeleteCollection implements rest.CollectionDeleter.
func (r *REST[T, Spec, Status]) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, which *internalversion.ListOptions) (runtime.Object, error) {
	obj, err := r.Store.DeleteCollection(ctx, r.onDelete(validate, options), options, which)
	return r.reader(false).answer(ctx, obj, err)
}

// onDelete checks each object that is deleted before admission does. A deletion must
// not leave behind what belongs to an object in use: nobody would end a release
// whose pods and routes are orphans.
func (g guard[T, Spec, Status]) onDelete(next rest.ValidateObjectFunc, options *metav1.DeleteOptions) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		o := obj.(T)
		if err := g.check(ctx, Write[T]{Object: o, Old: o, Gone: true}); err != nil {
			return err
		}
		if g.kind.InUse != nil && orphans(o, options) && g.kind.InUse(o) {
			return apierrors.NewConflict(g.kind.resource(g.kind.Plural), o.GetName(), errors.New(
				"a release is under way, and what was made for it cannot be left behind: delete with propagationPolicy Background, or wait until it has ended"))
		}
		return next(ctx, obj)
	}
}

// orphans reports whether the store is going to orphan dependents: the options
// count before the finalizer.
func orphans(obj metav1.Object, options *metav1.DeleteOptions) bool {
	switch {
	case options != nil && options.OrphanDependents != nil: //nolint:staticcheck // older clients send it
		return *options.OrphanDependents //nolint:staticcheck // as above
	case options != nil && options.PropagationPolicy != nil:
		return *options.PropagationPolicy == metav1.DeletePropagationOrphan
	default:
		return slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents)
	}
}

func (g guard[T, Spec, Status]) transform(ctx context.Context, obj, old runtime.Object) (runtime.Object, error) {
	if g.kind.Reserved == nil {
		return obj, nil
	}
	w := Write[T]{Object: obj.(T), Old: old.(T)}
	w.New = w.Old.GetResourceVersion() == ""
	w.Gone = !sets.New(w.Object.GetFinalizers()...).HasAll(ours(w.Old.GetFinalizers())...)
	spec, status := g.kind.Parts(w.Object)
	oldSpec, oldStatus := g.kind.Parts(w.Old)
	if g.status {
		w.Changed = !equality.Semantic.DeepEqual(*status, *oldStatus)
	} else {
		w.Changed = w.New || !equality.Semantic.DeepEqual(*spec, *oldSpec)
	}
	return obj, g.check(ctx, w)
}

// ours are the finalizers by which Weir keeps an object.
func ours(finalizers []string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return !strings.HasPrefix(f, rollouts.GroupName+"/") })
}

func (g guard[T, Spec, Status]) check(ctx context.Context, w Write[T]) error {
	if g.kind.Reserved == nil {
		return nil
	}
	if may, err := g.drivers.Drives(ctx); err != nil || may {
		return err
	}
	instead, err := g.kind.Reserved(ctx, g.drivers, w)
	if err != nil || instead == "" {
		return err
	}
	return apierrors.NewForbidden(g.kind.resource(g.kind.Plural), w.Object.GetName(), errors.New(instead))
}
