// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/warning"
)

// Copy is a part of an object that was copied from another object, the original. It may
// contain secrets of the original, such as values of environment variables. So each response
// (to reads, lists, watches and writes) omits the copies whose originals the user may not get.
type Copy struct {
	// Resource is the resource of the original, and Name its name.
	Resource schema.GroupResource
	Name     string
	// Remove removes the copy from the object that contains it.
	Remove func()
}

// copyFilter decides which copies the user of one request may see. It caches the answers of the authorizer.
type copyFilter[T Object, Spec, Status any] struct {
	writeGuard[T, Spec, Status]
	// singleObject reports whether the request is about one object. For a list or a watch the user must be allowed
	// to get all objects in its namespace, or in all namespaces, so that a list of many objects asks the
	// authorizer once for each resource.
	singleObject bool
	answers      map[string]bool
	// omitted are the resources of the copies that were omitted.
	omitted []string
}

func (g writeGuard[T, Spec, Status]) newCopyFilter(one bool) *copyFilter[T, Spec, Status] {
	return &copyFilter[T, Spec, Status]{writeGuard: g, singleObject: one, answers: map[string]bool{}}
}

// filterObject returns the object as its user may see it: the object itself, or a deep copy without the forbidden
// copies.
func (r *copyFilter[T, Spec, Status]) filterObject(ctx context.Context, obj runtime.Object) (runtime.Object, error) {
	if _, ok := genericapirequest.UserFrom(ctx); !ok || r.kind.Copies == nil {
		return obj, nil // this process itself reads the object
	}
	if meta.IsListType(obj) {
		return obj, r.filterList(ctx, obj)
	}
	o, ok := obj.(T)
	if !ok { // a Status
		return obj, nil
	}
	forbidden, err := r.forbiddenCopies(ctx, o)
	if err != nil || len(forbidden) == 0 {
		return obj, err
	}
	o = o.DeepCopyObject().(T) // the object may belong to the watch cache
	for i, c := range r.kind.Copies(o) {
		if slices.Contains(forbidden, i) {
			c.Remove()
		}
	}
	return o, nil
}

// forbiddenCopies returns the indexes of the copies that the user may not see.
func (r *copyFilter[T, Spec, Status]) forbiddenCopies(ctx context.Context, o T) (out []int, err error) {
	for i, c := range r.kind.Copies(o) {
		name := ""
		if r.singleObject {
			name = c.Name
		}
		key := c.Resource.String() + "/" + name
		may, known := r.answers[key]
		if !known {
			if may, err = r.access.MayGet(ctx, c.Resource, name); err != nil {
				return nil, err
			}
			r.answers[key] = may
		}
		if !may {
			out = append(out, i)
			r.omitted = append(r.omitted, c.Resource.String())
		}
	}
	return out, nil
}

// filterList filters the items of a list. The list itself belongs to this request only.
func (r *copyFilter[T, Spec, Status]) filterList(ctx context.Context, list runtime.Object) error {
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	for i := range items {
		if items[i], err = r.filterObject(ctx, items[i]); err != nil {
			return err
		}
	}
	return meta.SetList(list, items)
}

// filterResponse filters the response of an endpoint, and adds a warning that names the omitted copies.
func (r *copyFilter[T, Spec, Status]) filterResponse(ctx context.Context, obj runtime.Object, err error) (runtime.Object, error) {
	if err != nil || obj == nil {
		return obj, err
	}
	obj, err = r.filterObject(ctx, obj)
	if slices.Sort(r.omitted); err == nil && len(r.omitted) > 0 {
		warning.AddWarning(ctx, "", "copies are left out (data is empty), because you lack the permission to get these resources: "+strings.Join(slices.Compact(r.omitted), ", "))
	}
	return obj, err
}

// Get implements rest.Getter.
func (r *REST[T, Spec, Status]) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	obj, err := r.Store.Get(ctx, name, options)
	return r.newCopyFilter(true).filterResponse(ctx, obj, err)
}

// List implements rest.Lister.
func (r *REST[T, Spec, Status]) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	known, current, err := r.resourceVersions(ctx, options)
	if err != nil {
		return nil, err
	}
	if known > current {
		return nil, storage.NewTooLargeResourceVersionError(known, current, 0)
	}
	obj, err := r.Store.List(ctx, options)
	return r.newCopyFilter(false).filterResponse(ctx, obj, err)
}

// Watch implements rest.Watcher. It checks the permission for each event, since the permission may be
// revoked during the watch.
func (r *REST[T, Spec, Status]) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	known, current, err := r.resourceVersions(ctx, options)
	if err != nil {
		return nil, err
	}
	if known > current {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("too large resource version: %d, current: %d; the data of weir-apiserver was replaced", known, current))
	}
	w, err := r.Store.Watch(ctx, options)
	if err != nil || r.kind.Copies == nil {
		return w, err
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		obj := e.Object
		if shared, ok := obj.(runtime.CacheableObject); ok { // the object is encoded once for all watchers
			obj = shared.GetObject()
		}
		if _, ok := obj.(T); !ok || e.Type == watch.Bookmark {
			return e, true
		}
		one := r.newCopyFilter(false)
		shown, err := one.filterObject(ctx, obj)
		switch {
		case err != nil:
			status := apierrors.NewInternalError(err).Status()
			return watch.Event{Type: watch.Error, Object: &status}, true
		case len(one.omitted) > 0:
			e.Object = shown
		}
		return e, true
	}), nil
}

// resourceVersions returns the resource version that a client knows, and the current one of the store; both 0 if
// the client sends none. A client may know a version that the store has not reached, if data was lost
// since. A watch from that version would get no event for a long time, so Watch answers 410 Gone. List
// answers 504 like kube-apiserver, but at once and without Retry-After. After either answer, informers list
// again without a version.
func (r *REST[T, Spec, Status]) resourceVersions(ctx context.Context, options *internalversion.ListOptions) (known, current uint64, err error) {
	if options == nil {
		return 0, 0, nil
	}
	if known, err = r.Storage.Versioner().ParseResourceVersion(options.ResourceVersion); err != nil || known == 0 {
		return 0, 0, err
	}
	if current, err = r.Storage.Storage.GetCurrentResourceVersion(ctx); err != nil {
		return 0, 0, fmt.Errorf("reading the current resource version: %w", err)
	}
	return known, current, nil
}

// hideCopies applies a write to the object as its user may see it. Otherwise a JSON patch with a "test"
// operation could guess hidden values. A write that does not change the visible spec keeps the stored
// copies.
func (g writeGuard[T, Spec, Status]) hideCopies(info rest.UpdatedObjectInfo) rest.UpdatedObjectInfo {
	if g.kind.Copies == nil {
		return info
	}
	return copyHidingInfo[T, Spec, Status]{UpdatedObjectInfo: info, writeGuard: g}
}

type copyHidingInfo[T Object, Spec, Status any] struct {
	rest.UpdatedObjectInfo
	writeGuard[T, Spec, Status]
}

// UpdatedObject implements rest.UpdatedObjectInfo.
func (h copyHidingInfo[T, Spec, Status]) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	one := h.newCopyFilter(true)
	seen, err := one.filterObject(ctx, old)
	if err != nil {
		return nil, err
	}
	obj, err := h.UpdatedObjectInfo.UpdatedObject(ctx, seen)
	if err != nil || len(one.omitted) == 0 {
		return obj, err
	}
	spec, _ := h.kind.SpecAndStatus(obj.(T))
	sent, _ := h.kind.SpecAndStatus(seen.(T))
	if stored, _ := h.kind.SpecAndStatus(old.DeepCopyObject().(T)); equality.Semantic.DeepEqual(*spec, *sent) {
		*spec = *stored
	}
	return obj, nil
}
