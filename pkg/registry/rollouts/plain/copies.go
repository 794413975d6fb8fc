// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package plain

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
	// Of is the resource of the original, and Name its name.
	Of   schema.GroupResource
	Name string
	// Drop removes the copy from the object that contains it.
	Drop func()
}

// reader decides which copies the user of one request may see, and remembers the answers of
// the authorizer.
type reader[T Object, Spec, Status any] struct {
	guard[T, Spec, Status]
	// one reports whether the request is about one object. For a list or a watch the user must
	// be allowed to get all objects in its namespace, or in all namespaces, so that a list of
	// many objects asks the authorizer once for each resource.
	one   bool
	asked map[string]bool
	// left are the resources of copies that were left out.
	left []string
}

func (g guard[T, Spec, Status]) reader(one bool) *reader[T, Spec, Status] {
	return &reader[T, Spec, Status]{guard: g, one: one, asked: map[string]bool{}}
}

// shown returns the object as its user may see it: itself, or a deep copy without the
// forbidden copies.
func (r *reader[T, Spec, Status]) shown(ctx context.Context, obj runtime.Object) (runtime.Object, error) {
	if _, ok := genericapirequest.UserFrom(ctx); !ok || r.kind.Copies == nil {
		return obj, nil // a read of this process itself
	}
	if meta.IsListType(obj) {
		return obj, r.showList(ctx, obj)
	}
	o, ok := obj.(T)
	if !ok { // a Status
		return obj, nil
	}
	forbidden, err := r.forbidden(ctx, o)
	if err != nil || len(forbidden) == 0 {
		return obj, err
	}
	o = o.DeepCopyObject().(T) // it may be the one that the watch cache keeps
	for i, c := range r.kind.Copies(o) {
		if slices.Contains(forbidden, i) {
			c.Drop()
		}
	}
	return o, nil
}

// forbidden are the indexes of the copies that the user may not see.
func (r *reader[T, Spec, Status]) forbidden(ctx context.Context, o T) (out []int, err error) {
	for i, c := range r.kind.Copies(o) {
		name := ""
		if r.one {
			name = c.Name
		}
		key := c.Of.String() + "/" + name
		may, known := r.asked[key]
		if !known {
			if may, err = r.drivers.Reads(ctx, c.Of, name); err != nil {
				return nil, err
			}
			r.asked[key] = may
		}
		if !may {
			out = append(out, i)
			r.left = append(r.left, c.Of.String())
		}
	}
	return out, nil
}

// showList replaces the items of a list, which is not shared.
func (r *reader[T, Spec, Status]) showList(ctx context.Context, list runtime.Object) error {
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	for i := range items {
		if items[i], err = r.shown(ctx, items[i]); err != nil {
			return err
		}
	}
	return meta.SetList(list, items)
}

// answer filters the response of an endpoint, and adds a warning that names what was left out.
func (r *reader[T, Spec, Status]) answer(ctx context.Context, obj runtime.Object, err error) (runtime.Object, error) {
	if err != nil || obj == nil {
		return obj, err
	}
	obj, err = r.shown(ctx, obj)
	if slices.Sort(r.left); err == nil && len(r.left) > 0 {
		warning.AddWarning(ctx, "", "copies are left out (data is empty), because you lack the permission to get these resources: "+strings.Join(slices.Compact(r.left), ", "))
	}
	return obj, err
}

// Get implements rest.Getter.
func (r *REST[T, Spec, Status]) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	obj, err := r.Store.Get(ctx, name, options)
	return r.reader(true).answer(ctx, obj, err)
}

// List implements rest.Lister.
func (r *REST[T, Spec, Status]) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	known, current, err := r.versions(ctx, options)
	if err != nil {
		return nil, err
	}
	if known > current {
		return nil, storage.NewTooLargeResourceVersionError(known, current, 0)
	}
	obj, err := r.Store.List(ctx, options)
	return r.reader(false).answer(ctx, obj, err)
}

// Watch implements rest.Watcher. The right is asked for each event, since it may be taken away.
func (r *REST[T, Spec, Status]) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	known, current, err := r.versions(ctx, options)
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
		if shared, ok := obj.(runtime.CacheableObject); ok { // it is encoded once for all watchers
			obj = shared.GetObject()
		}
		if _, ok := obj.(T); !ok || e.Type == watch.Bookmark {
			return e, true
		}
		one := r.reader(false)
		shown, err := one.shown(ctx, obj)
		switch {
		case err != nil:
			status := apierrors.NewInternalError(err).Status()
			return watch.Event{Type: watch.Error, Object: &status}, true
		case len(one.left) > 0:
			e.Object = shown
		}
		return e, true
	}), nil
}

// versions returns the resource version that a client knows, and the current one of the store; both 0
// if the client names none. A client may know a version that the store has not reached, if data was
// lost since. A watch from that version would get no event for a long time, so Watch answers 410 Gone.
// List answers 504 like kube-apiserver, but at once and without Retry-After. After either answer,
// informers list again without a version.
func (r *REST[T, Spec, Status]) versions(ctx context.Context, options *internalversion.ListOptions) (known, current uint64, err error) {
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

// withoutCopies applies a write to the object as its user may see it. Otherwise a JSON patch with
// a "test" operation could guess hidden values. A write that does not change the visible spec
// keeps the stored copies.
func (g guard[T, Spec, Status]) withoutCopies(info rest.UpdatedObjectInfo) rest.UpdatedObjectInfo {
	if g.kind.Copies == nil {
		return info
	}
	return hidden[T, Spec, Status]{UpdatedObjectInfo: info, guard: g}
}

type hidden[T Object, Spec, Status any] struct {
	rest.UpdatedObjectInfo
	guard[T, Spec, Status]
}

// UpdatedObject implements rest.UpdatedObjectInfo.
func (h hidden[T, Spec, Status]) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	one := h.reader(true)
	seen, err := one.shown(ctx, old)
	if err != nil {
		return nil, err
	}
	obj, err := h.UpdatedObjectInfo.UpdatedObject(ctx, seen)
	if err != nil || len(one.left) == 0 {
		return obj, err
	}
	spec, _ := h.kind.Parts(obj.(T))
	sent, _ := h.kind.Parts(seen.(T))
	if stored, _ := h.kind.Parts(old.DeepCopyObject().(T)); equality.Semantic.DeepEqual(*spec, *sent) {
		*spec = *stored
	}
	return obj, nil
}
