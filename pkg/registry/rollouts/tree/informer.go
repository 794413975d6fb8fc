// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/fetch"
	"github.com/weir-rollouts/weir/pkg/view"
)

// sharedRead shares reads between concurrent requests for the tree of one Rollout: each read happens once.
type sharedRead struct {
	mu    sync.Mutex
	live  fetch.Reader
	reads map[view.Read]func() ([]object.Object, error)
}

// joinSharedRead returns the current sharedRead for a Rollout, or starts one. A sharedRead ends after minInterval.
func (t *REST) joinSharedRead(key types.NamespacedName) *sharedRead {
	f, begun := t.getOrStartSharedRead(key)
	if begun {
		t.Clock.AfterFunc(minInterval, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			delete(t.sharedReads, key)
		})
	}
	return f
}

func (t *REST) getOrStartSharedRead(key types.NamespacedName) (f *sharedRead, begun bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.sharedReads[key]; f != nil {
		return f, false
	}
	f = &sharedRead{reads: map[view.Read]func() ([]object.Object, error){}, live: t.LiveReader(key.Namespace)}
	t.sharedReads[key] = f
	return f, true
}

// readOnce reads objects once for all callers. The read continues if the caller that started it is gone.
func (f *sharedRead) readOnce(ctx context.Context, r view.Read) ([]object.Object, error) {
	f.mu.Lock()
	if f.reads[r] == nil {
		f.reads[r] = sync.OnceValues(func() ([]object.Object, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetch.Timeout)
			defer cancel()
			return f.live(ctx, r)
		})
	}
	read := f.reads[r]
	f.mu.Unlock()
	return read()
}

// informer watches the objects of one read.
type informer struct {
	cache.SharedIndexInformer
	cancel context.CancelFunc
	// subscriptions is the number of subscriptions.
	subscriptions int
	mu            sync.Mutex
	// lastError is the error of the last attempt to list or watch.
	lastError error
	// firstFailure is closed at the first failure.
	firstFailure chan struct{}
}

// newInformer returns an informer that does not run yet.
func (t *REST) newInformer(namespace string, r view.Read) (*informer, error) {
	i := &informer{firstFailure: make(chan struct{})}
	store := t.StoreFor(r)
	switch {
	case store != nil:
		i.SharedIndexInformer = cache.NewSharedIndexInformer(newListWatch(store, namespace, r), nil, 0, cache.Indexers{})
	case t.Cluster == nil:
		return nil, fetch.ErrNoCluster
	default:
		i.SharedIndexInformer = dynamicinformer.NewFilteredDynamicInformer(t.Cluster, r.Resource(), namespace, 0, cache.Indexers{},
			func(options *metav1.ListOptions) { fetch.RestrictOptions(r, options) }).Informer()
	}
	return i, errors.Join(
		i.SetTransform(func(obj any) (any, error) { return trimObject(r, obj) }),
		i.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { i.setError(err) }),
	)
}

// trimObject returns the part of a listed or watched object that the cache keeps.
func trimObject(r view.Read, obj any) (any, error) {
	switch o := obj.(type) {
	case *unstructured.Unstructured:
		return r.TrimObject(o)
	case runtime.CacheableObject: // prepared for encoding to several watchers
		return o.GetObject(), nil
	default:
		return obj, nil
	}
}

func (i *informer) setError(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.lastError == nil {
		close(i.firstFailure)
	}
	i.lastError = err
}

func (i *informer) getError() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.lastError
}

// objects returns the objects in the cache, once the cache is synced. It returns none for a kind that the
// cluster does not serve.
func (i *informer) objects(ctx context.Context) ([]object.Object, error) {
	select {
	case <-i.HasSyncedChecker().Done():
	case <-i.firstFailure:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := i.getError(); err != nil && !cache.IsDone(i.HasSyncedChecker()) {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, err
	}
	var found []object.Object
	for _, obj := range i.GetStore().List() {
		if o, ok := obj.(object.Object); ok {
			found = append(found, o)
		}
	}
	return found, nil
}

// newListWatch lists and watches a storage in this process.
func newListWatch(from fetch.Store, namespace string, r view.Read) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			fetch.RestrictOptions(r, &options)
			return fetch.List(genericapirequest.WithNamespace(ctx, namespace), from, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			fetch.RestrictOptions(r, &options)
			internal, err := fetch.InternalOptions(options)
			if err != nil {
				return nil, err
			}
			return from.Watch(genericapirequest.WithNamespace(ctx, namespace), internal)
		},
	}
}
